"""The breaks of a route: where a variable's state changes, and which causes fit there."""

from __future__ import annotations

import itertools
from typing import Final

from envprobe.model import Carries, Confidence, EdgeKind, State, View
from envprobe.routes.case import Case, Verdict
from envprobe.routes.causes import RULES
from envprobe.routes.hops import Hop, HopKind, Way
from envprobe.routes.types import Break, Cause, Change, Stop
from envprobe.routes.witnesses import Family, same, stand_in, unread
from envprobe.routes.writers import writer

_CHANGES: Final = {
    (State.VALUE, State.ABSENT): Change.LOST,
    (State.ABSENT, State.VALUE): Change.APPEARED,
    (State.VALUE, State.VALUE): Change.CHANGED,
}


def breaks(name: str, stops: tuple[Stop, ...], way: Way, family: Family) -> tuple[Break, ...]:
    """Return the breaks of one variable on one way, in the order of the stops.

    A reading that stands in for an exec block (the resource tracker's) is a witness only where it
    agrees with a neighbour: the tracker may be older than a later change in its parent. What
    os.environ says is no witness of the way to the C environ: it may have been changed alone.
    """
    seen = [index for index in way.open if stops[index].reading.known]
    values = {stops[index].reading.value for index in seen}
    if len(values) == 1 and None not in values:
        return ()
    if stops[-1].view is not View.PYTHON:
        return _on_the_way(name, stops, way, family, _witnesses(stops, seen))
    before = _witnesses(stops, [index for index in seen if index != len(stops) - 1])
    arriving = _on_the_way(name, stops[:-1], way, family, before)
    return arriving + _mirrored(name, stops, way, family, before)


def _mirrored(
    name: str, stops: tuple[Stop, ...], way: Way, family: Family, known: list[int]
) -> tuple[Break, ...]:
    """Return the break between the last known stop and the process's os.environ, if any."""
    last = len(stops) - 1
    if not known or not stops[last].reading.known:
        return ()
    first, second = stops[known[-1]].reading, stops[last].reading
    if same(first, second):
        return ()
    hops = _suspects(stops, way, [*known, last], known[-1], last)
    change = _CHANGES[first.state, second.state]
    return (_explained(Case(name, change, stops, known[-1], last, hops, way, family)),)


def _on_the_way(
    name: str, stops: tuple[Stop, ...], way: Way, family: Family, known: list[int]
) -> tuple[Break, ...]:
    if not any(stops[index].reading.state is State.VALUE for index in known):
        case = _never_there(name, stops, way, family, known)
        return (_explained(case),) if case else ()
    found = []
    for before, after in itertools.pairwise(known):
        first, second = stops[before].reading, stops[after].reading
        if not same(first, second):
            change = _CHANGES[first.state, second.state]
            hops = _suspects(stops, way, known, before, after)
            case = Case(name, change, stops, before, after, hops, way, family)
            found.append(_explained(case))
    return tuple(found)


def _witnesses(stops: tuple[Stop, ...], known: list[int]) -> list[int]:
    """Return the indexes of the stops that tell what the variable was, in order."""
    firm = [index for index in known if not stand_in(stops[index].view, stops[index].reading)]
    return [index for index in known if index in firm or _agrees(stops, firm, index)]


def _agrees(stops: tuple[Stop, ...], firm: list[int], index: int) -> bool:
    before = [other for other in firm if other < index][-1:]
    after = [other for other in firm if other > index][:1]
    if not before or not after:
        return True
    reading = stops[index].reading
    return any(same(reading, stops[other].reading) for other in before + after)


def _suspects(
    stops: tuple[Stop, ...], way: Way, known: list[int], before: int, after: int
) -> tuple[Hop, ...]:
    """Return the hops on which the change can have happened.

    Beyond a stand-in the next stop with the same state is the first that is sure.
    """
    first, last = before, after
    if stand_in(stops[before].view, stops[before].reading):
        earlier = [index for index in known if index < before]
        first = earlier[-1] if earlier else way.hops[0].first
    if stand_in(stops[after].view, stops[after].reading):
        later = [index for index in known if index > after]
        last = later[0] if later else after
    return _between(way, first, last)


def _between(way: Way, first: int, last: int) -> tuple[Hop, ...]:
    return tuple(hop for hop in way.hops if first <= hop.first and hop.last <= last)


def _never_there(
    name: str, stops: tuple[Stop, ...], way: Way, family: Family, known: list[int]
) -> Case | None:
    """Return the case of a variable that is absent wherever it could be read.

    None if nothing of the process itself could be read, or nothing but its first stop.
    """
    own = [index for index in known if stops[index].pid == way.end.pid]
    if not own or own[-1] == 0:
        return None
    before = known[0] if len(known) > 1 else 0
    firm = [index for index in known if not stand_in(stops[index].view, stops[index].reading)]
    hops = _between(way, 0, (firm or known)[0])
    return Case(name, Change.NEVER_THERE, stops, before, known[-1], hops, way, family)


def _explained(case: Case) -> Break:
    verdicts = [verdict for _, rule in RULES for verdict in rule(case)]
    fitting = tuple(sorted(_causes(verdicts, fits=True), key=_unlikely))
    return Break(
        before=case.before,
        after=case.after,
        change=case.change,
        causes=fitting,
        excluded=_causes(verdicts, fits=False),
        confidence=_confidence(case, fitting),
        writer=writer(case),
    )


def _causes(verdicts: list[Verdict], *, fits: bool) -> tuple[Cause, ...]:
    return tuple(verdict.cause for verdict in verdicts if verdict.fits is fits)


def _unlikely(cause: Cause) -> int:
    return len(cause.evidence_against) - len(cause.evidence_for)


def _confidence(case: Case, fitting: tuple[Cause, ...]) -> Confidence:
    """Return PROVED if one cause is left, and every reading and hop that it rests on is sure."""
    sure = len(fitting) == 1 and all(_sure(case, hop) for hop in case.hops)
    if case.change is Change.NEVER_THERE:
        readings = [stop.reading for stop in case.stops if stop.reading.known]
        gone = case.way.processes[0].edge.kind is EdgeKind.UNKNOWN
        sure = sure and not gone and not any(unread(stop.reading) for stop in case.stops)
    else:
        readings = [case.old, case.new]
    proved = all(reading.confidence is Confidence.PROVED for reading in readings)
    return Confidence.PROVED if sure and proved else Confidence.INFERRED


def _sure(case: Case, hop: Hop) -> bool:
    """Return whether it is certain who acted on a hop and what it carried.

    The exec block of a process that was forked from one outside the scan is the other one's.
    """
    process, edge = hop.process, hop.process.edge
    if hop.kind is HopKind.MIRROR:
        return True
    if hop.kind is HopKind.OWN:
        since_exec = case.way.places[hop.first].view is View.EXEC
        return not since_exec or process.image_owner == process.pid
    known = edge.kind is not EdgeKind.UNKNOWN and edge.carries is not Carries.UNKNOWN
    return known and edge.confidence is Confidence.PROVED
