"""Variables in which the workers of one peer group differ: what three checks report."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator
from typing import Final

from envprobe.checks import who
from envprobe.checks.finding import Context
from envprobe.checks.outcomes import reported
from envprobe.model import Confidence, Process, Reading, Sentence, View
from envprobe.routes import variables
from envprobe.routes.types import PeerGroup
from envprobe.values import Value


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
class Elsewhere:
    """What a difference between nodes is told with.

    `node` is the one that deviates, `having` says how many workers of which others have the first
    state, `communicator` is NCCL's commId that has ranks on both, "" if no log shows one.
    """

    node: str
    having: str
    communicator: str


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """One variable that is not the same in all workers of one peer group whose value was read.

    `states` maps each value (None: absent) to the pids that have it, the most frequent first.
    `late` holds the pids whose value changed after the exec of their image, `unproven` those of
    which that is not known and on which the kind rests. `told` is true if findings about an
    expectation report it already. With `elsewhere` it is between nodes: the first state, which has
    no pids then, is that of the others.
    """

    group: PeerGroup
    name: str
    kind: Kind
    states: tuple[tuple[Value | None, tuple[int, ...]], ...]
    late: tuple[int, ...]
    unproven: tuple[int, ...]
    confidence: Confidence
    told: bool
    elsewhere: Elsewhere | None = None

    @property
    def pids(self) -> tuple[int, ...]:
        """All processes that take part, those with the most frequent value first."""
        return tuple(pid for _, pids in self.states for pid in pids)

    @property
    def deviating(self) -> tuple[int, ...]:
        """The pids that do not have the most frequent value."""
        return tuple(pid for _, pids in self.states[1:] for pid in pids)


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """One worker whose value was read."""

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
            members = list(members_of(context, group, name))
            if len({member.value for member in members}) > 1:
                yield from _difference(context, group, name, members)


def _not_alike(context: Context, group: PeerGroup, names: Iterable[str]) -> Iterator[str]:
    """Return the names that may differ: on 256 equal workers nothing else is looked at."""
    views = [one.environment(View.LIBC) for one in who.processes(context, group.workers)]
    for name in names:
        if len({view.entries.get(name, view.status) for view in views}) > 1:
            yield name


def members_of(context: Context, group: PeerGroup, name: str) -> Iterator[Member]:
    """Yield the workers of a group whose value was read."""
    for process in who.processes(context, group.workers):
        reading = process.environment(View.LIBC).reading(name)
        if reading.known:
            unchanged = _unchanged(context, process, name, reading)
            yield Member(process.pid, reading.value, reading, unchanged)


def _unchanged(context: Context, process: Process, name: str, now: Reading) -> bool | None:
    """Return whether a value is that of the exec block; a fork child has a copy of its owner's."""
    owner = who.process_of(context, process.image_owner) or process
    for one in (owner, process):
        at_exec = one.environment(View.EXEC).reading(name)
        if at_exec.known and at_exec.confidence is Confidence.PROVED:
            return (at_exec.state, at_exec.value) == (now.state, now.value)
    return None


def _difference(
    context: Context, group: PeerGroup, name: str, members: list[Member]
) -> Iterator[Difference]:
    kind = kind_of(name, members)
    states = who.folded(members, lambda member: member.value)
    # Of two equally frequent states it is the absent one that is looked into.
    ordered = sorted(states.items(), key=lambda item: (-len(item[1]), item[0] is None))
    sure = surely_differ(name, members)
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


def kind_of(name: str, members: Iterable[Member]) -> Kind:
    """Return how much it matters that these workers differ."""
    every = list(members)
    usual = variables.known_default(name)
    # What a worker changed after its start says nothing about what was read before.
    settled = [member for member in every if member.unchanged is not False]
    if len(_distinct(every, usual)) == 1:
        return Kind.DEFAULT
    if variables.rank_critical(name) and len(_distinct(settled, usual)) > 1:
        return Kind.CRITICAL
    return Kind.OTHER


def surely_differ(name: str, members: Iterable[Member]) -> bool:
    """Return whether those alone differ that have their value since their exec, as was read."""
    proved = [
        one for one in members if one.unchanged and one.reading.confidence is Confidence.PROVED
    ]
    return len(_distinct(proved, variables.known_default(name))) > 1


def _distinct(members: Iterable[Member], usual: Value | None) -> set[Value | None]:
    """Return the different values, a known default taken for absent."""
    values = {member.value for member in members}
    return {None if value == usual else value for value in values}


def _explained(context: Context, difference: Difference) -> bool:
    """Return whether known writers and findings about expectations tell of all who differ."""
    name = difference.name
    written = {(pid, name) for pid in difference.pids if written_by_framework(context, pid, name)}
    states = (pids for _, pids in difference.states)
    return _only_one_left(states, name, context.once(reported) | written)


def _only_one_left(
    states: Iterable[Iterable[int]], name: str, told: frozenset[tuple[int, str]]
) -> bool:
    """Return whether at most one state has a process of which nothing is told."""
    return sum(any((pid, name) not in told for pid in pids) for pids in states) < 2


def written_by_framework(context: Context, pid: int, name: str) -> bool:
    """Return whether a known writer set the variable on its way to a process."""
    route = context.routing.routes.get((pid, name))
    return route is not None and bool(route.arriving) and bool(route.arriving[-1].writer)


def consequence(context: Context, name: str, pids: Iterable[int]) -> Iterator[Sentence]:
    """Return what happens when ranks differ, for a finding that tells of such a difference."""
    concerned = set(pids)
    for one in context.once(differences):
        if one.told and one.name == name and concerned.intersection(one.pids):
            yield from consequence_of(one)
            return


def consequence_of(difference: Difference) -> Iterator[Sentence]:
    """Return what happens when ranks differ so, if that is known."""
    told = variables.rank_critical(difference.name)
    if told and difference.kind is not Kind.DEFAULT:
        yield Sentence.of(f"When ranks differ in it: {told}.")
