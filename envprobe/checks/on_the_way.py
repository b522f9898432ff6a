"""Variables that were lost or altered before they reached a worker: what two checks report."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from envprobe.checks import breaks, peers, who
from envprobe.checks.finding import Context, Finding, Severity
from envprobe.checks.outcomes import covered
from envprobe.model import Reading, Sentence, State
from envprobe.routes import variables
from envprobe.routes.types import Break, Change, Route

_LOSING: Final = (Change.LOST, Change.CHANGED)

_REMEDY: Final = (
    "If it is meant, nothing needs to be done. Else set {name} before the first process of the"
    " server starts, and not in a program that has already started its workers; then restart the"
    " server."
)


@dataclasses.dataclass(frozen=True, slots=True)
class Altered:
    """One route on which an upstream value did not reach the worker, and the break that tells."""

    route: Route
    found: Break
    before: Reading
    now: Reading


def altered(context: Context) -> tuple[Altered, ...]:
    """Return the routes to workers whose upstream value was lost or altered without explanation.

    Left out: what a known writer explains, what each rank is given on purpose, what a finding about
    an expectation or a difference between peers already tells, and routes whose end was not read.
    """
    return tuple(_all(context))


def _all(context: Context) -> Iterator[Altered]:
    told = context.once(covered) | {
        (pid, one.name) for one in context.once(peers.differences) for pid in one.deviating
    }
    for name in context.routing.names:
        if _given_anew(name):
            continue
        for pid in context.routing.workers():
            route = context.routing.routes.get((pid, name))
            if route is not None and (pid, name) not in told:
                yield from _of_route(route)


def _given_anew(name: str) -> bool:
    """Return whether each rank or each launch is given its own value on purpose."""
    design = variables.by_design(name)
    return design is not None and design.scope in ("rank", "launch")


def _of_route(route: Route) -> Iterator[Altered]:
    unexplained = [one for one in route.breaks if one.change in _LOSING and not one.writer]
    if not unexplained:
        return
    now = route.stops[-1].reading
    first = route.breaks.index(unexplained[0])
    before = route.stops[unexplained[0].before].reading
    # What known code set after the children were started never was on its way to them.
    own = [before] if not first else [before, _without_writers(route, first)]
    if now.known and all((now.state, now.value) != (one.state, one.value) for one in own):
        yield Altered(route, unexplained[-1], before, now)


def _without_writers(route: Route, index: int) -> Reading:
    """Return what there was in front of the known writers that come right before a break."""
    while index and route.breaks[index - 1].writer:
        index -= 1
    return route.stops[route.breaks[index].before].reading


def findings(context: Context, state: State, slug: str, severity: Severity) -> Iterator[Finding]:
    """Return one finding for each variable and kind of break whose route ends in `state`."""
    fitting = [one for one in context.once(altered) if one.now.state is state]
    groups = who.folded(
        fitting, lambda one: (one.route.name, one.before.value, breaks.key(one.route, one.found))
    )
    for group in groups.values():
        yield _finding(context, group, slug, severity)


def _finding(context: Context, group: list[Altered], slug: str, severity: Severity) -> Finding:
    first = group[0]
    name = first.route.name
    pids = tuple(one.route.pid for one in group)
    own = first.route.stops[first.found.after].pid == first.route.pid
    where = breaks.where(context, first.route, first.found, len(group) - 1 if own else 0)
    return Finding(
        check=slug,
        severity=severity,
        message=Sentence(
            (
                f"{name} was ",
                *who.distinct(name, (first.before.value,)),
                " upstream and is ",
                *who.distinct(name, (one.now.value for one in group)),
                f" in {who.in_words(context, pids)}: {where}.",
            )
        ),
        confidence=first.now.confidence,
        pids=pids,
        variable=name,
        evidence=tuple(breaks.evidence(context, first.route, first.found, len(group) - 1)),
        remedy=breaks.remedy(first.found, _REMEDY.format(name=name)),
        breaks=tuple(one.found for one in group),
    )
