"""Whether a process's live value was already there when its image was exec'd."""

from __future__ import annotations

from envprobe.model import Carries, Confidence, EdgeKind, Process, Reading, State, View
from envprobe.routes.types import InTime
from envprobe.routes.witnesses import Family, same, stand_in


def in_time(name: str, process: Process, family: Family) -> InTime:
    """Return whether the value in a process's C environ was there at its exec.

    For a fork child the exec is that of the process from whose image it was forked. Where the exec
    block could not be read, a value that the parent had at its own exec, still has, and that the
    child has too was there.
    """
    live = family.reading(process, View.LIBC, name)
    if live.state is State.ABSENT:
        return InTime.NOT_APPLICABLE
    if live.state is not State.VALUE:
        return InTime.UNKNOWN
    at_exec = family.at_exec(process, name)
    if same(at_exec, live):
        return InTime.YES
    if at_exec.known and not stand_in(View.EXEC, at_exec):
        return InTime.NO
    return InTime.YES if _kept_by_parent(name, process, family, live) else InTime.UNKNOWN


def _kept_by_parent(name: str, process: Process, family: Family, live: Reading) -> bool:
    edge = process.edge
    parent = family.by_pid.get(edge.parent) if edge.parent is not None else None
    if parent is None or edge.carries is not Carries.C_ENVIRON or edge.kind is EdgeKind.UNKNOWN:
        return False
    before, now = family.at_exec(parent, name), family.reading(parent, View.LIBC, name)
    proved = before.confidence is now.confidence is Confidence.PROVED
    return proved and same(before, now) and same(now, live)
