"""Variables in which the workers of one peer group differ: what three checks report."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator
from typing import Final

from envprobe.checks import breaks, who
from envprobe.checks.finding import Context, Finding, Severity
from envprobe.checks.outcomes import reported
from envprobe.model import Confidence, Process, Reading, Sentence, Shown, View
from envprobe.routes import variables
from envprobe.routes.types import Break, PeerGroup, Route
from envprobe.values import Value

_STATES_SHOWN: Final = 4


class Kind(str, enum.Enum):
    """How much a difference matters."""

    CRITICAL = "critical"
    OTHER = "other"
    DEFAULT = "default"


SLUGS: Final = {
    Kind.CRITICAL: "peers-differ-critical",
    Kind.OTHER: "peers-differ",
    Kind.DEFAULT: "peers-differ-default",
}
"""The check that reports each kind."""


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """One variable that is not the same in all workers of one peer group whose value was read.

    `states` maps each value (None: absent) to the pids that have it, the most frequent first.
    `late` holds the pids whose value changed after the exec of their image, `unproven` those of
    which that is not known and on which the kind rests. `told` is true if findings about an
    expectation report it already.
    """

    group: PeerGroup
    name: str
    kind: Kind
    states: tuple[tuple[Value | None, tuple[int, ...]], ...]
    late: tuple[int, ...]
    unproven: tuple[int, ...]
    confidence: Confidence
    told: bool

    @property
    def pids(self) -> tuple[int, ...]:
        """All processes that take part, those with the most frequent value first."""
        return tuple(pid for _, pids in self.states for pid in pids)

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
    """Whether the block that its image was given at its exec agrees; None if it was not read."""


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
            unchanged = _unchanged(context, process, name, reading)
            yield _Member(process.pid, reading.value, reading, unchanged)


def _unchanged(context: Context, process: Process, name: str, now: Reading) -> bool | None:
    """Return whether a value is that of the exec block; a fork child has a copy of its owner's."""
    owner = who.process_of(context, process.image_owner) or process
    for one in (owner, process):
        at_exec = one.environment(View.EXEC).reading(name)
        if at_exec.known and at_exec.confidence is Confidence.PROVED:
            return (at_exec.state, at_exec.value) == (now.state, now.value)
    return None


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
    open_ones = () if sure else tuple(one.pid for one in members if one.unchanged is None)
    made = Difference(
        group=group,
        name=name,
        kind=kind,
        states=tuple((value, tuple(one.pid for one in having)) for value, having in ordered),
        late=tuple(member.pid for member in members if member.unchanged is False),
        unproven=open_ones if kind is Kind.CRITICAL else (),
        confidence=Confidence.PROVED if sure else Confidence.INFERRED,
        told=_only_one_left(
            ([one.pid for one in having] for having in states.values()),
            name,
            context.once(reported),
        ),
    )
    if made.told or kind is Kind.CRITICAL or not _explained(context, made):
        yield made


def _distinct(members: Iterable[_Member], usual: Value | None) -> set[Value | None]:
    """Return the different values, a known default taken for absent."""
    values = {member.value for member in members}
    return {None if value == usual else value for value in values}


def _explained(context: Context, difference: Difference) -> bool:
    """Return whether known writers and findings about expectations tell of all who differ."""
    name = difference.name
    written = {(pid, name) for pid in difference.pids if _written(context, pid, name)}
    states = (pids for _, pids in difference.states)
    return _only_one_left(states, name, context.once(reported) | written)


def _only_one_left(
    states: Iterable[Iterable[int]], name: str, told: frozenset[tuple[int, str]]
) -> bool:
    """Return whether at most one state has a process of which nothing is told."""
    return sum(any((pid, name) not in told for pid in pids) for pids in states) < 2


def _written(context: Context, pid: int, name: str) -> bool:
    route = context.routing.routes.get((pid, name))
    return route is not None and bool(route.arriving) and bool(route.arriving[-1].writer)


def told_of(context: Context) -> frozenset[tuple[int, str]]:
    """Return the (pid, variable) pairs of which a finding about a difference speaks."""
    return frozenset(
        (pid, one.name)
        for one in context.once(differences)
        if not one.told and SLUGS[one.kind] not in context.config.ignore
        for pid in one.pids
    )


def consequence(context: Context, name: str, pids: Iterable[int]) -> Iterator[Sentence]:
    """Return what happens when ranks differ, for a finding that tells of such a difference."""
    concerned = set(pids)
    for one in context.once(differences):
        if one.told and one.name == name and concerned.intersection(one.pids):
            yield from _consequence(one)
            return


def _consequence(difference: Difference) -> Iterator[Sentence]:
    told = variables.rank_critical(difference.name)
    if told and difference.kind is not Kind.DEFAULT:
        yield Sentence.of(f"When ranks differ in it: {told}.")


# --- as findings ---------------------------------------------------------------------------------


def findings(context: Context, kind: Kind, severity: Severity, remedy: str) -> Iterator[Finding]:
    """Return the findings of one check about differences of one kind."""
    for difference in context.once(differences):
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


def _evidence(context: Context, difference: Difference) -> Iterator[Sentence]:
    yield from _consequence(difference)
    usual = variables.known_default(difference.name)
    if usual is not None and difference.kind is Kind.DEFAULT:
        yield Sentence.of("Absent means the default, ", Shown(difference.name, usual), ".")
    yield from _when(context, difference)
    members = who.processes(context, difference.group.workers)
    views = [(one.pid, one.environment(View.LIBC).reading(difference.name)) for one in members]
    unread = [pid for pid, reading in views if not reading.known]
    if unread:
        yield Sentence.of(f"Not known in {who.in_words(context, unread)}.")


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
