"""The way to one process: the places where a variable can be read, and the hops between them."""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections.abc import Mapping
from typing import Final

from envprobe.model import Carries, EdgeKind, Process, View

MAX_PROCESSES: Final = 64
"""A longer way is cut at its beginning: a chain of parents is data of the target."""

FORKED: Final = frozenset({EdgeKind.FORK, EdgeKind.FORKSERVER})


class HopKind(enum.Enum):
    """What lies between two places.

    BUILD: a launcher made the exec block from a declaration. OWN: one process's own code ran.
    HANDOVER: a parent's environment became the exec block of a child. FORK: a parent's memory
    became a child's, whose own code then ran. MIRROR: Python keeps a copy of its C environ.
    """

    BUILD = "build"
    OWN = "own"
    HANDOVER = "handover"
    FORK = "fork"
    MIRROR = "mirror"


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """One view of one process on the way; `skipped` says why it tells nothing there, if so."""

    process: Process
    view: View
    skipped: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Hop:
    """The step between two neighbouring places that are not skipped, given by their indexes.

    `process` is the one that ran (BUILD, OWN, MIRROR) or was started (HANDOVER, FORK), then by
    `parent`.
    """

    kind: HopKind
    first: int
    last: int
    process: Process
    parent: Process | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Way:
    """All processes from the root of the scan to one process, the places and hops between.

    `open` are the indexes of the places that are not skipped.
    """

    processes: tuple[Process, ...]
    places: tuple[Place, ...]
    open: tuple[int, ...]
    hops: tuple[Hop, ...]

    @property
    def end(self) -> Process:
        """The process to which the way leads."""
        return self.processes[-1]


def way_to(process: Process, by_pid: Mapping[int, Process]) -> Way:
    """Return the way to a process along the edges; a loop of edges ends it."""
    processes = _chain(process, by_pid)
    places = tuple(_places(processes))
    seen = tuple(number for number, place in enumerate(places) if not place.skipped)
    return Way(processes, places, seen, tuple(_hops(processes, places, seen)))


def _chain(process: Process, by_pid: Mapping[int, Process]) -> tuple[Process, ...]:
    chain = {process.pid: process}
    here = process
    while here.edge.parent is not None and len(chain) < MAX_PROCESSES:
        parent = by_pid.get(here.edge.parent)
        if parent is None or parent.pid in chain:
            break
        chain[parent.pid] = parent
        here = parent
    return tuple(reversed(chain.values()))


def _places(processes: tuple[Process, ...]) -> list[Place]:
    head, end = processes[0], processes[-1]
    places = [Place(head, View.DECLARED)] if View.DECLARED in head.environments else []
    for number, process in enumerate(processes):
        forked = process is not head and process.edge.kind in FORKED
        places.append(Place(process, View.EXEC, _no_exec(process) if forked else ""))
        places.append(Place(process, View.LIBC, _not_passed_on(processes, number)))
    if View.PYTHON in end.environments:
        places.append(Place(end, View.PYTHON))
    return places


def _no_exec(process: Process) -> str:
    whose = f"that of PID {process.image_owner}" if process.image_owner else "an ancestor's"
    return f"a fork child has not been exec'd: its exec block is {whose}"


def _not_passed_on(processes: tuple[Process, ...], number: int) -> str:
    """Return why a process's C environ tells nothing about the next program on the way.

    Forks in between carry the parent's memory, so they change nothing.
    """
    for child in processes[number + 1 :]:
        if child.edge.kind in FORKED:
            continue
        if child.edge.carries is Carries.BUILT_BLOCK:
            maker = child.edge.launcher or "its program"
            return f"{maker} builds the environment of what it starts, its C environ is not it"
        return ""
    return ""


def _hops(
    processes: tuple[Process, ...], places: tuple[Place, ...], seen: tuple[int, ...]
) -> list[Hop]:
    parents = dict(zip((one.pid for one in processes[1:]), processes, strict=False))
    return [
        _hop(first, last, places[first], places[last], parents)
        for first, last in itertools.pairwise(seen)
    ]


def _hop(first: int, last: int, before: Place, after: Place, parents: dict[int, Process]) -> Hop:
    process = after.process
    if after.view is View.PYTHON:
        return Hop(HopKind.MIRROR, first, last, process)
    if before.process.pid == process.pid:
        kind = HopKind.BUILD if before.view is View.DECLARED else HopKind.OWN
        return Hop(kind, first, last, process)
    kind = HopKind.HANDOVER if after.view is View.EXEC else HopKind.FORK
    return Hop(kind, first, last, process, parents[process.pid])
