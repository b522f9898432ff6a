"""Findings about broken expectations: one for each variable and kind of break, workers folded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks import breaks, peers, who
from envprobe.checks.finding import Context, Finding, Severity
from envprobe.checks.outcomes import Outcome, Status, break_of, outcomes
from envprobe.config import Expectation, Rule
from envprobe.model import Confidence, Sentence, Shown
from envprobe.routes import variables
from envprobe.routes.types import Change
from envprobe.values import Value


def findings(
    context: Context, status: Status, slug: str, severity: Severity, otherwise: str
) -> Iterator[Finding]:
    """Return the findings of one check about outcomes of one status.

    `otherwise` is the remedy where the causes of the break have none.
    """
    broken = [one for one in context.once(outcomes) if one.status is status]
    for group in who.folded(broken, _key).values():
        yield _finding(context, group, slug, severity, otherwise)


def _key(outcome: Outcome) -> tuple[object, ...]:
    place = breaks.key(outcome.route, break_of(outcome))
    return (outcome.expectation, outcome.reading.known, place)


def _finding(
    context: Context, group: list[Outcome], slug: str, severity: Severity, otherwise: str
) -> Finding:
    first = group[0]
    pids = tuple(one.pid for one in group)
    sure = all(one.confidence is Confidence.PROVED for one in group)
    every = [break_of(one) for one in group]
    return Finding(
        check=slug,
        severity=severity,
        message=_message(context, group),
        confidence=Confidence.PROVED if sure else Confidence.INFERRED,
        pids=pids,
        variable=first.expectation.name,
        evidence=(
            *peers.consequence(context, first.expectation.name, pids),
            *_evidence(context, first, len(group) - 1),
        ),
        remedy=_remedy(context, first, otherwise.format(name=first.expectation.name)),
        breaks=tuple(one for one in every if one is not None),
    )


def _message(context: Context, group: list[Outcome]) -> Sentence:
    first = group[0]
    whom = who.in_words(context, [one.pid for one in group])
    name = first.expectation.name
    return Sentence(
        (
            f"{name} is ",
            *_state(group),
            f" in {whom}",
            *_late(first),
            *_unlike(group),
            "; expected: ",
            *demand(first.expectation),
            *_place(context, group),
            ".",
        )
    )


def _state(group: list[Outcome]) -> Iterator[str | Shown]:
    if not group[0].reading.known:
        yield "set, to a value that was not read,"
        return
    yield from who.distinct(group[0].expectation.name, (one.reading.value for one in group))


def _unlike(group: list[Outcome]) -> Iterator[str]:
    """Say so where the value and the expected one look alike, both of them masked."""
    wanted = group[0].expectation
    found = [one.reading.value for one in group]
    wrong = group[0].status is Status.WRONG and bool(wanted.values) and None not in found
    if wrong and who.unlike(wanted.name, [*found, *wanted.values]):
        yield ", which is another value than expected"


def _late(outcome: Outcome) -> Iterator[str]:
    if outcome.status is Status.TOO_LATE:
        came = "was removed" if outcome.reading.value is None else "came"
        yield f", but {came} only after the start, when it had already been read"


def demand(expectation: Expectation) -> Iterator[str | Shown]:
    """Return what an expectation demands, in words and values."""
    shown = [Shown(expectation.name, value) for value in expectation.values]
    if expectation.rule is Rule.EXACT:
        yield from _value_or_empty(expectation, expectation.values[0])
    elif expectation.rule is Rule.CONTAINS:
        yield from ("a list with the element ", shown[0])
    elif expectation.rule is Rule.ONE_OF:
        for number, one in enumerate(shown):
            yield from (" or ", one) if number else (one,)
    else:
        yield _PLAIN[expectation.rule]


_PLAIN: Final = {
    Rule.SET: "set",
    Rule.ABSENT: "absent",
    Rule.SAME: "the same in all of them",
}


def _value_or_empty(expectation: Expectation, value: Value) -> Iterator[str | Shown]:
    yield Shown(expectation.name, value) if value.length else "set and empty"


def _place(context: Context, group: list[Outcome]) -> Iterator[str]:
    first = group[0]
    found = break_of(first)
    if first.route is None or not first.reading.known:
        return
    if found is None:
        known = next((stop for stop in first.route.stops if stop.reading.known), None)
        if known is not None:
            yield f"; it is so from {who.place(context, known)} on"
        return
    own = first.route.stops[found.after].pid == first.pid
    yield f"; {breaks.where(context, first.route, found, len(group) - 1 if own else 0)}"
    yield breaks.doubt(first.route, found, first.confidence)


def _remedy(context: Context, outcome: Outcome, otherwise: str) -> Sentence:
    # What comes too late is put right before the start, whoever sets it now.
    late = outcome.status is Status.TOO_LATE
    mend = breaks.remedy(None if late else break_of(outcome), otherwise)
    meant = _perhaps_meant(context, outcome)
    return Sentence((f"Did you mean {meant}? ", *mend.parts)) if meant else mend


def _perhaps_meant(context: Context, outcome: Outcome) -> str:
    """Return the known variable for which a name that no process has may be a slip, else ""."""
    name = outcome.expectation.name
    every = context.routing.snapshot.processes
    there = any(name in view.entries for one in every for view in one.environments.values())
    if there or outcome.status is not Status.MISSING:
        return ""
    return variables.perhaps_meant(name)


def _evidence(context: Context, outcome: Outcome, others: int) -> Iterator[Sentence]:
    yield Sentence.of(f"Expected by {outcome.expectation.origin}.")
    found = break_of(outcome)
    route = outcome.route
    if found is None or route is None:
        return
    if found.change is not Change.NEVER_THERE:
        for number in (found.before, found.after):
            stop = route.stops[number]
            said = "absent" if stop.reading.value is None else Shown(route.name, stop.reading.value)
            yield Sentence.of(f"In {who.place(context, stop)}: ", said, ".")
    yield from breaks.evidence(context, route, found, others)
