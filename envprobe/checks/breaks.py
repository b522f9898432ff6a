"""How findings tell of a break: where it is, every cause that fits, and what to do about each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final

from envprobe.checks import who
from envprobe.checks.finding import Context
from envprobe.model import SILENCE, Confidence, Reading, Sentence, View
from envprobe.routes.types import Break, Cause, Change, Route

_VERBS: Final = {
    Change.LOST: "lost",
    Change.CHANGED: "changed",
    Change.APPEARED: "set",
    Change.NEVER_THERE: "never there",
}


def where(context: Context, route: Route, found: Break, others: int = 0) -> str:
    """Return where a break lies, in words; `others` is how many more workers share it."""
    if found.change is Change.NEVER_THERE:
        return f"never there, from {who.place(context, route.stops[found.before])} on"
    before, after = route.stops[found.before], route.stops[found.after]
    verb = _VERBS[found.change]
    more = f" (and {others} more {'worker' if others == 1 else 'workers'})" if others else ""
    # With a stand-in for its exec view the change may have come before the process did.
    if before.pid == after.pid and not who.is_stand_in(before):
        views = f"its {before.view.value} view and its {after.view.value} view"
        through = wrappers(context) if before.view is View.DECLARED else ""
        return f"{verb} in {who.named(context, after.pid)}{more}, between {views}{through}"
    return f"{verb} between {who.place(context, before)} and {who.place(context, after)}{more}"


def at_declaration(route: Route) -> Break | None:
    """Return the break from what a unit declares to what its main process was started with."""
    first = next(iter(route.breaks), None)
    if first is None or route.stops[first.before].view is not View.DECLARED:
        return None
    return first if route.stops[first.after].view is View.EXEC and first.after == 1 else None


def wrappers(context: Context) -> str:
    """Return through which programs of ExecStart= the way to the main process leads, in words."""
    unit = context.routing.snapshot.unit
    if unit is None or not unit.hops:
        return ""
    return f", through {who.some((one.program for one in unit.hops), _WRAPPERS)}"


_WRAPPERS: Final = 8

_SO: Final = {
    Change.LOST: "it was lost",
    Change.CHANGED: "it was changed",
    Change.APPEARED: "it was set",
    Change.NEVER_THERE: "it is absent",
}


def doubt(route: Route, found: Break, value: Confidence) -> str:
    """Return what is only inferred where the value is proved and its break is not, else ""."""
    if value is not Confidence.PROVED or found.confidence is Confidence.PROVED or found.writer:
        return ""
    span = route.stops[found.before : found.after + 1]
    exact = all(stop.reading.known and not who.is_stand_in(stop) for stop in span)
    asked = "why" if exact or found.change is Change.NEVER_THERE else "where"
    return f" (the value is proved; {asked} {_SO[found.change]} is inferred)"


def evidence(context: Context, route: Route, found: Break, others: int = 0) -> Iterator[Sentence]:
    """Return every cause that fits, each with the evidence for and against it.

    `route` is the one that the causes speak of; `others` more workers share them.
    """
    if found.writer:
        yield Sentence.of(f"known writer: {found.writer}.")
    if others:
        yield Sentence.of(
            f"The causes are told for {who.named(context, route.pid)};"
            f" {others} more {'has' if others == 1 else 'have'} the same."
        )
    word = "cause" if found.confidence is Confidence.PROVED else "possible cause"
    for cause in found.causes:
        yield _prefixed(f"{word}: ", cause.sentence)
        yield from (_prefixed("for it: ", one) for one in cause.evidence_for)
        yield from (_prefixed("against it: ", one) for one in cause.evidence_against)
    if len(found.causes) > 1:
        yield Sentence.of("What can be read now does not tell these causes apart.")


def remedy(found: Break | None, otherwise: str) -> Sentence:
    """Return what to do about each cause, or `otherwise` where the causes say nothing."""
    if found is None:
        return Sentence.of(otherwise)
    if found.writer:
        return Sentence.of(
            "The framework writes it: use the framework's own option for it, or expect the value"
            " that the framework writes."
        )
    return _joined(_remedies(found.causes)) or Sentence.of(otherwise)


def key(route: Route | None, found: Break | None) -> tuple[object, ...]:
    """Return what two breaks of one variable share when one finding tells of both.

    Breaks before the worker share their place; breaks within one, its kind of place.
    """
    if route is None or found is None:
        return ()
    before, after = route.stops[found.before], route.stops[found.after]
    own = before.pid == route.pid
    # How a worker was started is told with the causes of what was lost at its start.
    edge = route.edges[-1] if after.pid == route.pid and not own else None
    return (
        found.change,
        "own" if own else before.pid,
        before.view,
        after.pid == route.pid or after.pid,
        after.view,
        tuple(cause.id for cause in found.causes),
        found.confidence,
        found.writer,
        edge and (edge.kind, edge.launcher),
    )


_LOSING: Final = (Change.LOST, Change.CHANGED)


@dataclasses.dataclass(frozen=True, slots=True)
class Altered:
    """One route on which an upstream value did not reach the worker, and the break that tells."""

    route: Route
    found: Break
    before: Reading
    now: Reading


def altered(route: Route) -> Altered | None:
    """Return how an upstream value was lost or altered on a route without a known writer.

    None if it was not, or if the end of the route was not read.
    """
    unexplained = [one for one in route.arriving if one.change in _LOSING and not one.writer]
    if not unexplained:
        return None
    now = route.final()
    first = route.arriving.index(unexplained[0])
    before = route.stops[unexplained[0].before].reading
    # What known code set after the children were started never was on its way to them.
    own = [before] if not first else [before, _without_writers(route, first)]
    if now.known and all((now.state, now.value) != (one.state, one.value) for one in own):
        return Altered(route, unexplained[-1], before, now)
    return None


def _without_writers(route: Route, index: int) -> Reading:
    """Return what there was in front of the known writers that come right before a break."""
    while index and route.arriving[index - 1].writer:
        index -= 1
    return route.stops[route.arriving[index].before].reading


def _remedies(causes: Iterable[Cause]) -> tuple[Sentence, ...]:
    found = dict.fromkeys(cause.remedy for cause in causes if cause.remedy.parts)
    return tuple(found)


def _joined(sentences: tuple[Sentence, ...]) -> Sentence | None:
    if not sentences:
        return None
    first, *others = sentences
    parts = list(first.parts)
    for one in others:
        parts += [" Or: ", *one.parts]
    return Sentence(tuple(parts))


def _prefixed(words: str, sentence: Sentence) -> Sentence:
    return Sentence((words, *sentence.parts)) if sentence.parts else SILENCE
