"""Who else can tell what a process had at a time past: its siblings, and the image it forked from.

"The parent set X after this spawn" and "the parent took X away around this spawn" leave the same
traces in parent and child. Other children of the same parent, ordered by their start, can tell.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final

from envprobe.model import (
    Carries,
    Confidence,
    EdgeKind,
    Process,
    Reading,
    Snapshot,
    State,
    View,
)

TRACKER: Final = "resource tracker"
FORKSERVER: Final = "forkserver"

_SAME_TICK_PIDS: Final = 4096
"""Within one clock tick the kernel hands out rising numbers; a larger step is a wrap-around."""


def same(one: Reading, other: Reading) -> bool:
    """Return whether two readings are known and say the same: one value, or absent."""
    if one is other:
        return one.known
    return one.known and other.known and one.state is other.state and one.value == other.value


@dataclasses.dataclass(frozen=True, slots=True)
class Witness:
    """What one other child of the same parent had at its exec, and when it was started.

    `plain` is true for children of multiprocessing: their starter hands over its C environ as it
    is, whereas a program started with `env=` says nothing about its starter's.
    """

    process: Process
    reading: Reading
    earlier: bool
    plain: bool


class Family:
    """The processes of a snapshot by number and by parent, and what was read of them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.unit = snapshot.unit
        self.by_pid = {process.pid: process for process in snapshot.processes}
        self._readings: dict[int, dict[View, dict[str, Reading]]] = {}
        self._children: dict[int, list[Process]] = {}
        for process in snapshot.processes:
            if process.edge.parent is not None:
                self._children.setdefault(process.edge.parent, []).append(process)

    def children(self, pid: int) -> Iterable[Process]:
        """Return the processes whose edge leads from this one."""
        return self._children.get(pid, ())

    def readings(self, process: Process, view: View) -> dict[str, Reading]:
        """Return a store of the readings of one view, to be filled as they are asked for."""
        return self._readings.setdefault(process.pid, {}).setdefault(view, {})

    def reading(self, process: Process, view: View, name: str) -> Reading:
        """Return what one view of a process says of a variable."""
        kept = self.readings(process, view)
        if name not in kept:
            kept[name] = process.environment(view).reading(name)
        return kept[name]

    def at_exec(self, process: Process, name: str) -> Reading:
        """Return what a process's image was given at its exec.

        For a fork child that is the block of the process which was exec'd into the image; its own
        is a copy that it may have overwritten.
        """
        return self.reading(self.by_pid.get(process.image_owner, process), View.EXEC, name)

    def witnesses(self, child: Process, name: str) -> Iterator[Witness]:
        """Return the other children of a process's parent whose own exec block could be read."""
        for other in self.children(child.edge.parent if child.edge.parent is not None else -1):
            if other.pid == child.pid or not _given_the_environ(other):
                continue
            reading = self.reading(other, View.EXEC, name)
            if not reading.known or reading.confidence is not Confidence.PROVED:
                continue
            if started_before(other, child):
                yield Witness(other, reading, True, _plain(other))
            elif started_before(child, other):
                yield Witness(other, reading, False, _plain(other))

    def anywhere(self, process: Process, name: str) -> bool:
        """Return whether a process has a variable, with a value or not, in any view read of it."""
        return any(name in view.entries for view in process.environments.values())


def from_multiprocessing(process: Process) -> bool:
    """Return whether Python's multiprocessing started a process: it hands over its C environ."""
    return process.edge.kind is EdgeKind.SPAWN or process.role.name in (TRACKER, FORKSERVER)


def shows_its_start(process: Process) -> bool:
    """Return whether multiprocessing's own command line is still what a process runs.

    Behind a title it could have exec'd itself once more: it would be the same process, with its
    start time and its end of the resource tracker's pipe, but with another environment.
    """
    if process.role.name in (TRACKER, FORKSERVER):
        return True
    return any("multiprocessing" in word for word in process.title)


def started_before(one: Process, other: Process) -> bool:
    """Return whether one process was certainly started before another.

    Start times have a resolution of one clock tick, usually 10 ms. Within a tick the resource
    tracker comes first (CPython Lib/multiprocessing/popen_spawn_posix.py starts it before the
    child that uses it), else the numbers decide, unless they have wrapped around.
    """
    ticks, others = one.identity.start_ticks, other.identity.start_ticks
    if ticks != others:
        return ticks < others
    if TRACKER in (one.role.name, other.role.name):
        return one.role.name == TRACKER and other.edge.kind is EdgeKind.SPAWN
    return 0 < other.pid - one.pid < _SAME_TICK_PIDS


def _plain(process: Process) -> bool:
    return from_multiprocessing(process) and process.edge.confidence is Confidence.PROVED


def _given_the_environ(process: Process) -> bool:
    kinds = (EdgeKind.SPAWN, EdgeKind.EXEC)
    return process.edge.kind in kinds and process.edge.carries is Carries.C_ENVIRON


def stand_in(view: View, reading: Reading) -> bool:
    """Return whether a reading was taken from another process, such as the resource tracker."""
    return view is View.EXEC and reading.known and reading.confidence is Confidence.INFERRED


def unread(reading: Reading) -> bool:
    """Return whether a reading leaves open what the variable was."""
    return not reading.known and reading.state is not State.NOT_APPLICABLE
