"""Reads a target's live C environ as the product does, and compares it with the target's getenv."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from envprobe.model import Environment, EnvironmentStatus
from envprobe.process.environ_libc import read_libc
from envprobe.process.handle import ProcessHandle
from envprobe.process.maps import AddressSpace
from envprobe.process.memory import Memory
from envprobe.process.scope import Scope
from tests.programs.ctarget import CTarget


class Opened(NamedTuple):
    """A process with its memory and its maps."""

    handle: ProcessHandle
    memory: Memory
    space: AddressSpace

    def scope(self) -> Scope:
        """Return its look-up order."""
        return Scope(self.handle, self.memory, self.space)


@contextlib.contextmanager
def opened(pid: int) -> Iterator[Opened]:
    """Open a process as the collector does."""
    with (
        ProcessHandle.open(pid) as handle,
        Memory.open(handle) as memory,
        AddressSpace(handle) as space,
    ):
        yield Opened(handle, memory, space)


def look(pid: int, wanted: str = "") -> Environment:
    """Return the view LIBC of a process, with the values of names that start with `wanted`."""
    with opened(pid) as (handle, memory, space):
        return read_libc(handle, memory, space, lambda name: name.startswith(wanted))


def texts(found: Environment) -> dict[str, bytes]:
    """Return all values of a complete environment, none of which may be missing."""
    assert found.status is EnvironmentStatus.COMPLETE, found.reason
    values = {name: value.reveal() for name, value in found.entries.items() if value is not None}
    assert values.keys() == found.entries.keys()
    return values


def agree(target: CTarget, found: Environment, names: AbstractSet[str]) -> None:
    """Compare with the target's own getenv: each name found, and each of `names`."""
    values = texts(found)
    for name in names | values.keys():
        assert target.getenv(name) == values.get(name), name
