"""Variables that were lost or altered before they reached a worker: what two checks report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks import breaks, differing, who
from envprobe.checks.finding import Context, Finding, Severity
from envprobe.checks.outcomes import covered
from envprobe.model import Sentence, State
from envprobe.routes import variables

_REMEDY: Final = (
    "If it is meant, nothing needs to be done. Else set {name} before the first process of the"
    " server starts, and not in a program that has already started its workers; then restart the"
    " server."
)


def altered(context: Context) -> tuple[breaks.Altered, ...]:
    """Return the routes to workers whose upstream value was lost or altered without explanation.

    Left out: what a known writer explains, what each rank is given on purpose, what a finding about
    an expectation or a difference between peers already tells, and routes whose end was not read.
    """
    return tuple(_all(context))


def _all(context: Context) -> Iterator[breaks.Altered]:
    told = context.once(covered) | context.once(differing.told_of)
    for name in context.routing.names:
        if _given_anew(name):
            continue
        for pid in context.routing.workers():
            route = context.routing.routes.get((pid, name))
            found = breaks.altered(route) if route is not None and (pid, name) not in told else None
            # Of what a unit's process was not started with, other checks tell.
            if found is not None and found.found is not breaks.at_declaration(found.route):
                yield found


def _given_anew(name: str) -> bool:
    """Return whether each rank or each launch is given its own value on purpose."""
    design = variables.by_design(name)
    return design is not None and design.scope in ("rank", "launch")


def findings(context: Context, state: State, slug: str, severity: Severity) -> Iterator[Finding]:
    """Return one finding for each variable and kind of break whose route ends in `state`."""
    fitting = [one for one in context.once(altered) if one.now.state is state]
    groups = who.folded(
        fitting, lambda one: (one.route.name, one.before.value, breaks.key(one.route, one.found))
    )
    for group in groups.values():
        yield _finding(context, group, slug, severity)


def _finding(
    context: Context, group: list[breaks.Altered], slug: str, severity: Severity
) -> Finding:
    first = group[0]
    name = first.route.name
    pids = tuple(one.route.pid for one in group)
    own = first.route.stops[first.found.after].pid == first.route.pid
    where = breaks.where(context, first.route, first.found, len(group) - 1 if own else 0)
    doubt = breaks.doubt(first.route, first.found, first.now.confidence)
    values = [first.before.value, *(one.now.value for one in group)]
    return Finding(
        check=slug,
        severity=severity,
        message=Sentence(
            (
                f"{name} was ",
                *who.distinct(name, (first.before.value,)),
                f" upstream and is {who.unlike(name, values)}",
                *who.distinct(name, (one.now.value for one in group)),
                f" in {who.in_words(context, pids)}: {where}{doubt}.",
            )
        ),
        confidence=first.now.confidence,
        pids=pids,
        variable=name,
        evidence=tuple(breaks.evidence(context, first.route, first.found, len(group) - 1)),
        remedy=breaks.remedy(first.found, _REMEDY.format(name=name)),
        breaks=tuple(one.found for one in group),
    )
