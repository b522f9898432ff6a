"""Variables in which the workers of one peer group differ: what three checks report."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator
from typing import Final

from envprobe.checks import breaks, who
from envprobe.checks.finding import Context, Finding, Severity
from envprobe.checks.outcomes import covered, exec_reading
from envprobe.model import Confidence, Reading, Sentence, Shown, Value, View
from envprobe.routes import variables
from envprobe.routes.types import Break, PeerGroup, Route

_STATES_SHOWN: Final = 4


class Kind(str, enum.Enum):
    """How much a difference matters."""

    CRITICAL = "critical"
    OTHER = "other"
    DEFAULT = "default"


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """One variable that is not the same in all workers of one peer group whose value was read.

    `states` maps each value (None: absent) to the pids that have it, the most frequent first.
    `late` holds the pids whose value changed after they were started.
    """

    group: PeerGroup
    name: str
    kind: Kind
    states: tuple[tuple[Value | None, tuple[int, ...]], ...]
    late: tuple[int, ...]
    confidence: Confidence

    @property
    def deviating(self) -> tuple[int, ...]:
        """The pids that do not have the most frequent value."""
        return tuple(pid for _, pids in self.states[1:] for pid in pids)


@dataclasses.dataclass(frozen=True, slots=True)
class _Member:
    pid: int
    value: Value | None
    reading: Reading
    unchanged: bool | None
    """Whether the own exec view agrees; None where it was not read itself."""


def differences(context: Context) -> tuple[Difference, ...]:
    """Return the differences inside all peer groups, by group and variable.

    Variables that differ by design are left out, and what a known writer explains. A worker whose
    value was not read takes no part: it is never taken for one that lacks the variable.
    """
    return tuple(_all(context))


def _all(context: Context) -> Iterator[Difference]:
    names = [name for name in context.routing.names if variables.by_design(name) is None]
    for group in context.routing.groups:
        for name in _not_alike(context, group, names):
            members = list(_members(context, group, name))
            if len({member.value for member in members}) > 1:
                yield from _difference(context, group, name, members)


def _not_alike(context: Context, group: PeerGroup, names: Iterable[str]) -> Iterator[str]:
    """Return the names that may differ: on 256 equal workers nothing else is looked at."""
    views = [one.environment(View.LIBC) for one in who.processes(context, group.workers)]
    for name in names:
        if len({view.entries.get(name, view.status) for view in views}) > 1:
            yield name


def _members(context: Context, group: PeerGroup, name: str) -> Iterator[_Member]:
    for process in who.processes(context, group.workers):
        reading = process.environment(View.LIBC).reading(name)
        if reading.known:
            route = context.routing.routes.get((process.pid, name))
            yield _Member(process.pid, reading.value, reading, _unchanged(route, reading))


def _unchanged(route: Route | None, now: Reading) -> bool | None:
    if route is None:
        return None
    at_exec = exec_reading(route)
    if not at_exec.known or at_exec.confidence is not Confidence.PROVED:
        return None
    return (at_exec.state, at_exec.value) == (now.state, now.value)


def _difference(
    context: Context, group: PeerGroup, name: str, members: list[_Member]
) -> Iterator[Difference]:
    usual = variables.known_default(name)
    # What a worker changed after its start says nothing about what was read before.
    settled = [member for member in members if member.unchanged is not False]
    if len(_distinct(members, usual)) == 1:
        kind = Kind.DEFAULT
    elif variables.rank_critical(name) and len(_distinct(settled, usual)) > 1:
        kind = Kind.CRITICAL
    else:
        kind = Kind.OTHER
    states = who.folded(members, lambda member: member.value)
    # Of two equally frequent states it is the absent one that is looked into.
    ordered = sorted(states.items(), key=lambda item: (-len(item[1]), item[0] is None))
    proved = [
        one for one in members if one.unchanged and one.reading.confidence is Confidence.PROVED
    ]
    sure = len(_distinct(proved, usual)) > 1
    made = Difference(
        group=group,
        name=name,
        kind=kind,
        states=tuple((value, tuple(one.pid for one in having)) for value, having in ordered),
        late=tuple(member.pid for member in members if member.unchanged is False),
        confidence=Confidence.PROVED if sure else Confidence.INFERRED,
    )
    if kind is Kind.CRITICAL or not _explained(context, made):
        yield made


def _distinct(members: Iterable[_Member], usual: Value | None) -> set[Value | None]:
    """Return the different values, a known default taken for absent."""
    values = {member.value for member in members}
    return {None if value == usual else value for value in values}


def _explained(context: Context, difference: Difference) -> bool:
    """Return whether a known writer, or a finding about an expectation, tells of all who differ.

    Then at most one state is left that nothing tells of.
    """
    broken = context.once(covered)
    untold = [
        pids
        for _, pids in difference.states
        if not all(
            (pid, difference.name) in broken or _written(context, pid, difference.name)
            for pid in pids
        )
    ]
    return len(untold) < 2


def _written(context: Context, pid: int, name: str) -> bool:
    route = context.routing.routes.get((pid, name))
    return route is not None and bool(route.breaks) and bool(route.breaks[-1].writer)


# --- as findings ---------------------------------------------------------------------------------


def findings(
    context: Context, kind: Kind, slug: str, severity: Severity, remedy: str
) -> Iterator[Finding]:
    """Return the findings of one check about differences of one kind."""
    for difference in context.once(differences):
        if difference.kind is kind:
            yield _finding(context, difference, slug, severity, remedy)


def _finding(
    context: Context, difference: Difference, slug: str, severity: Severity, remedy: str
) -> Finding:
    routes = context.routing.routes
    deviating = [routes.get((pid, difference.name)) for pid in difference.deviating]
    broken = [(route, route.breaks[-1]) for route in deviating if route and route.breaks]
    # Where a finding about an expectation tells the same break, its causes are not told again.
    told = {(pid, difference.name) for pid in difference.deviating} <= context.once(covered)
    first = broken[0] if broken and not told else None
    advice = remedy.format(name=difference.name)
    return Finding(
        check=slug,
        severity=severity,
        message=Sentence((*_message(context, difference), ".")),
        confidence=difference.confidence,
        pids=difference.deviating,
        variable=difference.name,
        evidence=tuple(_evidence(context, difference, first)),
        remedy=breaks.remedy(first[1] if first else None, advice),
        breaks=tuple(one for _, one in broken),
    )


def _message(context: Context, difference: Difference) -> Iterator[str | Shown]:
    yield f"{difference.name} differs inside one peer group ({_group(context, difference.group)}): "
    for number, (value, pids) in enumerate(difference.states[:_STATES_SHOWN]):
        if number:
            yield "; "
        yield "absent" if value is None else Shown(difference.name, value)
        yield f" in {who.in_words(context, pids)}"
    more = len(difference.states) - _STATES_SHOWN
    if more > 0:
        yield f"; {more} other values"


def _group(context: Context, group: PeerGroup) -> str:
    replica = f" {group.replica}" if group.replica else ""
    return f"{group.role}{replica} of {who.named(context, group.launcher)}"


def _evidence(
    context: Context, difference: Difference, first: tuple[Route, Break] | None
) -> Iterator[Sentence]:
    consequence = variables.rank_critical(difference.name)
    if consequence and difference.kind is not Kind.DEFAULT:
        yield Sentence.of(f"When ranks differ in it: {consequence}.")
    usual = variables.known_default(difference.name)
    if usual is not None and difference.kind is Kind.DEFAULT:
        yield Sentence.of("Absent means the default, ", Shown(difference.name, usual), ".")
    if difference.late:
        yield Sentence.of(
            f"{who.in_words(context, difference.late)} changed it after the start, when it may"
            " already have been read."
        )
    members = who.processes(context, difference.group.workers)
    views = [(one.pid, one.environment(View.LIBC).reading(difference.name)) for one in members]
    unread = [pid for pid, reading in views if not reading.known]
    if unread:
        yield Sentence.of(f"Not known in {who.in_words(context, unread)}.")
    if first is not None:
        route, found = first
        others = len(difference.deviating) - 1
        where = breaks.where(context, route, found, others)
        yield Sentence.of(f"{where[:1].upper()}{where[1:]}.")
        yield from breaks.evidence(context, route, found, others)
