"""The program of a process as something to start again: which file, and with whose rights.

`/proc/PID/exe` is executed only where the path means the same file, the ids the same users and the
kernel's rights the same rights for both: never across a user namespace, a mount namespace or a root
directory of the process's own.
"""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple

from envprobe.errors import UndeterminedError
from envprobe.process.handle import AccessRefused, ProcessGone, ProcessHandle
from envprobe.runner.rights import Rights

_PYTHON: Final = re.compile(r"python[0-9.]*[a-z-]*")


class Program(NamedTuple):
    """A file to execute, and the rights of the process that it stands for."""

    path: str
    rights: Rights


def rights_of(handle: ProcessHandle) -> Rights:
    """Return the rights of the process; UndeterminedError if they cannot be told or taken on."""
    try:
        rights = Rights.of(handle.status())
    except (AccessRefused, ProcessGone) as failure:
        raise UndeterminedError(f"its rights cannot be read ({failure})") from None
    rights.require()
    return rights


def interpreter_of(handle: ProcessHandle, otherwise: str) -> Program:
    """Return the Python interpreter that the process runs, if envprobe may start it again.

    Raises UndeterminedError with the reason, and `otherwise` as the remedy, if the program lies
    beyond a namespace or another root directory, was replaced since, or is not named python: what
    an embedding program makes of an interpreter's options is not known.
    """
    try:
        reason = _obstacle(handle)
        path = handle.readlink("exe")
        reason = reason or _is_another(handle, path)
    except (AccessRefused, ProcessGone) as failure:
        reason = f"its program cannot be looked at ({failure})"
    if reason:
        raise UndeterminedError(reason, otherwise)
    return Program(path, rights_of(handle))


def _obstacle(handle: ProcessHandle) -> str:
    """Return what keeps a path of the process from meaning the same to envprobe, "" if nothing."""
    for kind in ("user", "mnt"):
        if handle.readlink(f"ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}"):
            name = "mount" if kind == "mnt" else kind
            return f"it is in another {name} namespace, and its program is not run across that"
    if _numbers(handle, "root") != _numbers_of(os.stat("/")):
        return "it has a root directory of its own, and its program is not run outside of that"
    return ""


def _is_another(handle: ProcessHandle, path: str) -> str:
    """Return why the file at `path` is not the interpreter that the process runs, or ""."""
    try:
        there = _numbers_of(os.stat(path))
    except OSError:
        there = None
    if there != _numbers(handle, "exe"):
        return f"{path} is not the file any more that it was started from"
    if not _PYTHON.fullmatch(os.path.basename(path)):
        return f"its program, {path}, is not named python: it may be one that embeds Python"
    return ""


def _numbers(handle: ProcessHandle, link: str) -> tuple[int, int]:
    descriptor = handle.open_file(link, os.O_PATH)
    try:
        return _numbers_of(os.fstat(descriptor))
    finally:
        os.close(descriptor)


def _numbers_of(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
