"""Differences between workers as findings: what the checks of `peers` tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from envprobe.checks import breaks, who
from envprobe.checks.differing import all_differences
from envprobe.checks.finding import Context, Finding, Severity
from envprobe.checks.peers import (
    SLUGS,
    Difference,
    Elsewhere,
    Kind,
    consequence_of,
)
from envprobe.model import Sentence, Shown, View
from envprobe.routes import variables
from envprobe.routes.types import Break, PeerGroup, Route

_STATES_SHOWN: Final = 4


def findings(context: Context, kind: Kind, severity: Severity, remedy: str) -> Iterator[Finding]:
    """Return the findings of one check about differences of one kind."""
    for difference in context.once(all_differences):
        if difference.kind is kind and not difference.told:
            yield _finding(context, difference, severity, remedy)


def _finding(context: Context, difference: Difference, severity: Severity, remedy: str) -> Finding:
    deviating = [context.routing.routes.get((pid, difference.name)) for pid in difference.deviating]
    ways = _ways(context, difference)
    return Finding(
        check=SLUGS[difference.kind],
        severity=severity,
        message=Sentence((*_message(context, difference), ".")),
        confidence=difference.confidence,
        pids=difference.deviating,
        variable=difference.name,
        evidence=(*_evidence(context, difference), *_told(context, ways)),
        remedy=breaks.remedy(ways[0][0][1] if ways else None, remedy.format(name=difference.name)),
        undetermined=context.config.strict and _only_now(difference),
        breaks=tuple(route.arriving[-1] for route in deviating if route and route.arriving),
    )


def _only_now(difference: Difference) -> bool:
    """Return whether ranks differ now in what they must agree in, and did not at their exec."""
    critical = variables.rank_critical(difference.name)
    return difference.kind is Kind.OTHER and bool(critical and difference.late)


_Way = list[tuple[Route, Break]]


def _ways(context: Context, difference: Difference) -> list[_Way]:
    """Return the breaks that explain a difference: routes with the same one together.

    Those of the workers that deviate come first, then whatever the others lost on their way.
    """
    found: _Way = []
    deviating = set(difference.deviating)
    for pid in (*difference.deviating, *difference.pids):
        route = context.routing.routes.get((pid, difference.name))
        if route is None or not route.arriving or any(one.pid == pid for one, _ in found):
            continue
        lost = breaks.altered(route)
        if pid in deviating:
            found.append((route, route.arriving[-1]))
        elif lost is not None:
            found.append((route, lost.found))
    ways = who.folded(found, lambda one: breaks.key(*one))
    return list(ways.values())[:_STATES_SHOWN]


def _told(context: Context, ways: Iterable[_Way]) -> Iterator[Sentence]:
    for way in ways:
        (route, found), others = way[0], len(way) - 1
        where = breaks.where(context, route, found, others)
        yield Sentence.of(f"{where[:1].upper()}{where[1:]}.")
        yield from breaks.evidence(context, route, found, others)


def _message(context: Context, difference: Difference) -> Iterator[str | Shown]:
    other = difference.elsewhere
    where = f"between {other.node} and other nodes" if other else "inside one peer group"
    yield f"{difference.name} differs {where} ({_group(context, difference.group)}): "
    for number, (value, pids) in enumerate(difference.states[:_STATES_SHOWN]):
        if number:
            yield "; "
        yield "absent" if value is None else Shown(difference.name, value)
        yield f" in {who.in_words(context, pids) if pids or not other else other.having}"
    more = len(difference.states) - _STATES_SHOWN
    if more > 0:
        yield f"; {more} other values"


def _group(context: Context, group: PeerGroup) -> str:
    replica = f" {group.replica}" if group.replica else ""
    return f"{group.role}{replica} of {who.named(context, group.launcher)}"


def _evidence(context: Context, difference: Difference) -> Iterator[Sentence]:
    yield from consequence_of(difference)
    if difference.elsewhere:
        yield Sentence.of(_one_job(difference.elsewhere))
    usual = variables.known_default(difference.name)
    if usual is not None and difference.kind is Kind.DEFAULT:
        yield Sentence.of("Absent means the default, ", Shown(difference.name, usual), ".")
    yield from _when(context, difference)
    members = who.processes(context, difference.group.workers)
    views = [(one.pid, one.environment(View.LIBC).reading(difference.name)) for one in members]
    unread = [pid for pid, reading in views if not reading.known]
    if unread:
        yield Sentence.of(f"Not known in {who.in_words(context, unread)}.")


def _one_job(elsewhere: Elsewhere) -> str:
    if elsewhere.communicator:
        return f"By NCCL's logs the communicator {elsewhere.communicator} has ranks on both."
    return (
        "No log of NCCL shows a communicator of both: the nodes were given as those of one job, and"
        " have one group of this role each."
    )


def _when(context: Context, difference: Difference) -> Iterator[Sentence]:
    """Say who changed it after the exec, and of whom that could not be seen."""
    late = who.processes(context, difference.late)
    own = [one.pid for one in late if one.image_owner == one.pid]
    forked = [one.pid for one in late if one.image_owner != one.pid]
    if own:
        yield Sentence.of(
            f"{who.in_words(context, own)} changed it after the start, when it may already have"
            " been read."
        )
    if forked:
        yield Sentence.of(
            f"{who.in_words(context, forked)} and those it was forked from were given another state"
            " of it at their exec: it was changed after the start, before or after the fork, when"
            " it may already have been read."
        )
    if difference.unproven:
        yield Sentence.of(
            f"What {who.in_words(context, difference.unproven)} had at the exec was not read, so"
            " this is taken for a difference that was there from the start."
        )
    if _only_now(difference):
        yield Sentence.of(
            "From outside nobody can tell whether it was read before or after it changed: NCCL's"
            " log (NCCL_DEBUG=INFO) can. With --strict this counts as undetermined."
        )
