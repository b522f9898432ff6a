"""Scenes with NCCL: libraries that workers have loaded, and their parts of a log."""

from __future__ import annotations

import dataclasses
from typing import Any

from envprobe.expectations import parse
from envprobe.ncclfacts import Libraries, Library, LogState, Membership, NcclLog, Read, Setting
from envprobe.values import Value
from tests.unit.checks.scene import Scene

PATH = "/opt/nccl/libnccl.so.2"
LOG = "/tmp/nccl.h.7"


def library(version: str = "2.28.9+cuda12.9", path: str = PATH, **fields: Any) -> Library:
    """Return a copy of libnccl; its inode follows from its version and path."""
    return Library(path, (8, 1), hash((version, path)) % 10**6, 1 << 40, version=version, **fields)


def libraries(*copies: Library, **fields: Any) -> Libraries:
    """Return what was read of a process's libraries."""
    return Libraries(copies, **fields)


def read(name: str, value: str, **fields: Any) -> Read:
    """Return one line of a log that shows a variable."""
    given = {"wording": "text", "source": "environment", "file": LOG, "line": 3, **fields}
    return Read(name, Value(value.encode()), **given)


def setting(name: str, value: str) -> Setting:
    """Return a line of /etc/nccl.conf."""
    return Setting(name, Value(value.encode()), "/etc/nccl.conf", 1)


def log(*reads: Read, **fields: Any) -> NcclLog:
    """Return a process's part of a log that was joined to it, of rank 0 of 2."""
    given: dict[str, Any] = {
        "files": (LOG,),
        "host": "h",
        "pid": 7,
        "versions": ("2.28.9+cuda12.9",),
        "members": (Membership("0xabc", 0, 2),),
        **fields,
    }
    return NcclLog(LogState.JOINED, reads=reads, **given)


def without(state: LogState, reason: str = "why", **fields: Any) -> NcclLog:
    """Return the outcome of a process to which no log was joined."""
    return NcclLog(state, (LOG,), reason=reason, **fields)


def put(scene: Scene, *found: Libraries | NcclLog) -> Scene:
    """Give the workers from 110 on what was found of each: libraries or a log."""
    for place, one in enumerate(found):
        field = "libraries" if isinstance(one, Libraries) else "nccl"
        scene.change(110 + place, **{field: one})
    return scene


def also(scene: Scene, pid: int, **fields: Any) -> Scene:
    """Change fields of a process's log."""
    found = scene.processes[pid].nccl
    assert found is not None
    return scene.change(pid, nccl=dataclasses.replace(found, **fields))


def expect(*stated: str) -> dict[str, Any]:
    """Return the configuration with which NCCL is to have read these, written as for --expect."""
    return {
        "nccl": tuple(dataclasses.replace(parse(one), origin="[expect.nccl]") for one in stated)
    }
