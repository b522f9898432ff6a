"""What is expected of variables that a definition leaves open: a rehearsal shows nothing of it.

The rehearsal is started without them; the real start may be handed any value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from envprobe.checks.env_unknown import CHECK
from envprobe.checks.finding import Context, Finding
from envprobe.checks.outcomes import Outcome, Status, outcomes
from envprobe.checks.rehearse.about import Open, RehearseContext, Rehearsed, found
from envprobe.checks.who import folded, some
from envprobe.config import Expectation, Rule
from envprobe.startup.declared import Start

_NAMED = 6
_SHOWS: frozenset[Status] = frozenset({Status.HOLDS, Status.UNKNOWN})


def of(scan: Context, start: Start, hidden: Iterable[str]) -> tuple[Open, ...]:
    """Return the expectations of which `scan`, the reading of a rehearsal, shows nothing.

    What a hook or the framework sets as it is expected holds all the same. `hidden` are the
    variables that hide the GPUs: of them is told in another way.
    """
    judged = folded(scan.once(outcomes), lambda one: one.expectation).values()
    return tuple(_left(judged, start, frozenset(hidden)))


def _left(judged: Iterable[list[Outcome]], start: Start, hidden: frozenset[str]) -> Iterator[Open]:
    for group in judged:
        expectation = group[0].expectation
        reading = start.declared.declared.reading(expectation.name)
        if reading.known or expectation.name in hidden or _shown(expectation, group):
            continue
        yield Open(expectation, reading.reason)


def _shown(expectation: Expectation, group: list[Outcome]) -> bool:
    if expectation.rule is Rule.SAME:
        return True
    return expectation.rule is not Rule.ABSENT and all(one.status in _SHOWS for one in group)


def findings(context: RehearseContext) -> Iterator[Finding]:
    """Yield what could not be told for this reason; `not-reproduced` tells of the others."""
    for rehearsed in context.rehearsed:
        untold = rehearsed.rehearsal.start.undecided
        told = [one for one in rehearsed.open if one.expectation.name not in untold]
        for group in folded(told, lambda one: one.reason).values():
            yield _finding(rehearsed, group)


def _finding(rehearsed: Rehearsed, group: list[Open]) -> Finding:
    names = list(dict.fromkeys(one.expectation.name for one in group))
    return found(
        CHECK,
        rehearsed,
        f"Cannot tell whether what is expected of {some(names, _NAMED)} would hold: the definition"
        f" leaves it open, and {group[0].reason}.",
        members=rehearsed.rehearsal.workers,
        variable=names[0] if len(names) == 1 else "",
        evidence=[
            f"{one.expectation.name} is expected by {one.expectation.origin}." for one in group
        ],
        remedy="Set it in the definition; or name the unit instead of its file, where its manager"
        " runs and what the environment comes from can be read.",
        undetermined=True,
    )
