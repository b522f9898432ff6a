"""Whether a parent changed a variable before or after it started one child: what tells."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final

from envprobe.model import Confidence, Reading, Sentence
from envprobe.routes.case import Case, state
from envprobe.routes.hops import Hop, HopKind
from envprobe.routes.witnesses import Witness, same, stand_in

_NAMED: Final = 2
"""How many siblings of one kind are named; more say nothing new."""


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """The evidence on when the parent changed the variable.

    `late` speaks for a change after this child's start, `in_time` for one before it;
    `same_before` are earlier children that have what this one has. `doubt` says that what this one
    has was only taken from another process. `excluded` is true if a change after the start is ruled
    out.
    """

    late: tuple[Sentence, ...] = ()
    in_time: tuple[Sentence, ...] = ()
    excluded: bool = False
    same_before: tuple[Sentence, ...] = ()
    doubt: tuple[Sentence, ...] = ()


def timing(case: Case, hop: Hop) -> Timing:
    """Weigh what the parent's own exec and its other children say of one hop to a child."""
    now = case.stops[hop.first].reading
    doubt = tuple(_doubt(case, hop))
    if hop.parent is None or not now.known:
        return Timing(doubt=doubt)
    own = _own_exec(case, hop, now)
    if hop.kind is HopKind.FORK:
        return own
    witnesses = tuple(case.family.witnesses(hop.process, case.name))
    earlier = [one for one in witnesses if one.earlier and same(one.reading, now)]
    later = [one for one in witnesses if not one.earlier and same(one.reading, now)]
    alike = [one for one in witnesses if one.earlier and same(one.reading, case.new)]
    sure = now.confidence is Confidence.PROVED and any(one.plain for one in earlier)
    same_before = tuple(_told(case, hop, alike))
    return Timing(
        late=(*own.late, *_told(case, hop, later), *same_before),
        in_time=(*own.in_time, *_told(case, hop, earlier)),
        excluded=own.excluded or sure,
        same_before=same_before,
        doubt=doubt,
    )


def _doubt(case: Case, hop: Hop) -> Iterator[Sentence]:
    child = case.stops[hop.last]
    if stand_in(child.view, child.reading):
        yield Sentence.of(
            f"What {hop.process.named} was given is not known: {child.reading.source} stands in,"
            " and it may be older than the change."
        )


def _own_exec(case: Case, hop: Hop, now: Reading) -> Timing:
    """Return what the parent had at its own exec: if it is what it has now, nothing came late."""
    assert hop.parent is not None
    at_exec = case.family.at_exec(hop.parent, case.name)
    if not at_exec.known:
        return Timing()
    said = state(case.name, at_exec)
    if not same(at_exec, now):
        changed = Sentence.of(
            f"{hop.parent.named} had ", *said, " at its exec: that changed later."
        )
        return Timing(late=(changed,))
    proved = {at_exec.confidence, now.confidence} == {Confidence.PROVED}
    kept = Sentence.of(
        f"{hop.parent.named} had ",
        *said,
        " at its exec and has it now: to come late it must have been changed and changed back.",
    )
    return Timing(in_time=(kept,), excluded=proved)


def _told(case: Case, hop: Hop, witnesses: Iterable[Witness]) -> Iterator[Sentence]:
    ranked = sorted(witnesses, key=lambda one: (not one.plain, one.process.start_time))
    for one in ranked[:_NAMED]:
        seconds = abs(one.process.start_time - hop.process.start_time)
        order = "before" if one.earlier else "after"
        yield Sentence.of(
            f"{one.process.named}, started {seconds:.2f} s {order} {hop.process.named}, had ",
            *state(case.name, one.reading),
            " at its exec.",
        )
