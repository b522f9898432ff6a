"""Variables in which the workers of one job differ between its nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from envprobe.checks import peers, who
from envprobe.checks.finding import Context
from envprobe.checks.outcomes import reported
from envprobe.model import Confidence
from envprobe.routes import nodes, variables
from envprobe.routes.types import PeerGroup
from envprobe.values import Value


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """The workers of a peer group on one node, as that node's scan has them."""

    context: Context
    group: PeerGroup
    communicator: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class _Usual:
    """The most frequent value of a variable on one node (None: absent), and who has it."""

    part: Part
    value: Value | None
    members: tuple[peers.Member, ...]


def beside_each_other(contexts: tuple[Context, ...]) -> tuple[Context, ...]:
    """Return what the checks look at if these are the nodes of one job."""
    named = [dataclasses.replace(one, node=_name(one, contexts)) for one in contexts]
    return tuple(
        dataclasses.replace(one, beside=tuple(other for other in named if other is not one))
        for one in named
    )


def _name(context: Context, every: Iterable[Context]) -> str:
    """Return a node's name: its host's, with the beginning of the boot id if another has it too."""
    snapshot = context.routing.snapshot
    namesakes = sum(one.routing.snapshot.host == snapshot.host for one in every)
    return snapshot.host if namesakes == 1 else f"{snapshot.host} (boot {snapshot.boot_id[:8]})"


def parts(context: Context) -> dict[PeerGroup, tuple[Part, ...]]:
    """Return the parts of each group of this node on the others, in the order of the files."""
    return {group: tuple(_parts(context, group)) for group in context.routing.groups}


def _parts(context: Context, group: PeerGroup) -> Iterator[Part]:
    for other in context.beside:
        found = nodes.joined(context.routing, group, other.routing)
        if found is not None:
            yield Part(other, found.group, found.communicator)


def differences(context: Context) -> tuple[peers.Difference, ...]:
    """Return what this node has otherwise than most workers of the job.

    Of each node the most frequent value counts: who deviates inside a node is that node's own
    difference. Of two values that are equally frequent in the job it is the absent one that is
    looked into, then that of the node whose name is later. Values masked in two files, of one
    length, cannot be told apart and are left out, as is what a known writer explains.
    """
    return tuple(_all(context))


def _all(context: Context) -> Iterator[peers.Difference]:
    for group, others in context.once(parts).items():
        every = sorted((Part(context, group), *others), key=lambda one: one.context.node)
        for name in _names(every):
            usual = [one for part in every if (one := _usual(part, name)) is not None]
            own = next((one for one in usual if one.part.context is context), None)
            if own is not None and any(_differ(own.value, one.value) for one in usual):
                yield from _difference(own, usual, name)


def _names(every: Iterable[Part]) -> list[str]:
    names = {name for part in every for name in part.context.routing.names}
    return sorted(name for name in names if variables.by_design(name) is None)


def _usual(part: Part, name: str) -> _Usual | None:
    """Return None if the variable was read in no worker of the node."""
    members = peers.members_of(part.context, part.group, name)
    states = who.folded(members, lambda member: member.value)
    if not states:
        return None
    value, having = max(states.items(), key=lambda item: (len(item[1]), item[0] is not None))
    return _Usual(part, value, tuple(having))


def _differ(one: Value | None, other: Value | None) -> bool:
    """Return whether two values are surely not the same."""
    if one is None or other is None:
        return one is not other
    if one.hidden and other.hidden:
        # Each file has a salt of its own.
        return one.length != other.length
    return one != other


def _difference(own: _Usual, usual: list[_Usual], name: str) -> Iterator[peers.Difference]:
    most = max(usual, key=lambda one: (_count(one, usual), one.value is not None))
    if not _differ(own.value, most.value):
        return
    reference = [one for one in usual if not _differ(one.value, most.value)]
    members = [*own.members, *(member for one in reference for member in one.members)]
    kind = peers.kind_of(name, members)
    sure = peers.surely_differ(name, members)
    told = _told(own, name, kind) or all(_told(one, name, kind) for one in reference)
    if told:
        return
    open_ones = () if sure else tuple(one.pid for one in own.members if one.unchanged is None)
    shared = {one.part.communicator for one in reference} - {""}
    yield peers.Difference(
        group=own.part.group,
        name=name,
        kind=kind,
        states=((most.value, ()), (own.value, tuple(one.pid for one in own.members))),
        late=tuple(one.pid for one in own.members if one.unchanged is False),
        unproven=open_ones if kind is peers.Kind.CRITICAL else (),
        confidence=Confidence.PROVED if sure and shared else Confidence.INFERRED,
        told=False,
        elsewhere=peers.Elsewhere(
            node=own.part.context.node,
            having=who.some((_having(one) for one in reference), who.NAMED),
            communicator=min(shared, default=""),
        ),
    )


def _count(one: _Usual, usual: Iterable[_Usual]) -> int:
    """Return how many workers of all nodes have the value that is usual on one."""
    alike = (other for other in usual if not _differ(one.value, other.value))
    return sum(len(other.members) for other in alike)


def _told(one: _Usual, name: str, kind: peers.Kind) -> bool:
    """Return whether an expectation, or a known writer, tells of all who have a value."""
    context = one.part.context
    told = context.once(reported)
    return all(
        (member.pid, name) in told
        or (
            kind is not peers.Kind.CRITICAL
            and peers.written_by_framework(context, member.pid, name)
        )
        for member in one.members
    )


def _having(one: _Usual) -> str:
    count = len(one.members)
    workers = "worker" if count == 1 else "workers"
    return f"{count} {workers} on {one.part.context.node}"
