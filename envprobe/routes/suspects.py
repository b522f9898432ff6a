"""Which processes and hops come into question for a cause."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.model import EdgeKind, Process, View
from envprobe.routes.case import Case
from envprobe.routes.hops import Hop, HopKind
from envprobe.routes.programs import filters, passes_on, starts_afresh
from envprobe.routes.types import Change
from envprobe.routes.witnesses import FORKSERVER


def ran(case: Case) -> Iterator[Process]:
    """Return the processes whose own code ran on the hops in question, each once."""
    seen: dict[int, Process] = {}
    for hop in case.of(HopKind.OWN, HopKind.FORK):
        seen.setdefault(hop.process.pid, hop.process)
    yield from seen.values()


def loaded(case: Case) -> Iterator[Process]:
    """Return the processes whose loader ran on the hops in question."""
    for hop in case.of(HopKind.OWN):
        if case.way.places[hop.first].view is View.EXEC:
            yield hop.process


def passed(case: Case) -> Iterator[tuple[Hop, Process]]:
    """Return the hops over which a parent's C environ can have gone to a child, and the parent."""
    for hop in case.of(HopKind.HANDOVER):
        environ = case.way.places[hop.first].view is View.LIBC
        if hop.parent and environ and not starts_afresh(hop.process.edge):
            yield hop, hop.parent


def started_by_launcher(case: Case) -> Iterator[Process]:
    """Return the processes whose environment a launcher made on the hops in question.

    A variable that was never there can have been left out already where the root was started.
    """
    yield from (hop.process for hop in case.of(HopKind.BUILD))
    yield from (hop.process for hop in case.of(HopKind.HANDOVER) if starts_afresh(hop.process.edge))
    head = case.way.processes[0]
    if case.change is Change.NEVER_THERE and starts_afresh(head.edge):
        yield head


def through_program(case: Case) -> Iterator[tuple[Process, Process | None]]:
    """Return the processes that a shell, sudo or the like started, and that program's process.

    Of one that started the root, only the row of the launchers is known.
    """
    for hop in case.of(HopKind.HANDOVER):
        if passes_on(hop.process.edge):
            yield hop.process, hop.parent
    head = case.way.processes[0]
    if case.change is Change.NEVER_THERE and filters(head.edge.launcher, case.name):
        yield head, None


def is_forkserver(case: Case, process: Process) -> bool:
    """Return whether a process on the way is a forkserver, by its role or its child."""
    if process.role.name == FORKSERVER:
        return True
    served = (one for one in case.way.processes if one.edge.kind is EdgeKind.FORKSERVER)
    return any(one.edge.parent == process.pid for one in served)
