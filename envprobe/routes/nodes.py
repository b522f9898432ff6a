"""Which peer groups of several nodes are parts of one: the workers of one job on each."""

from __future__ import annotations

import dataclasses

from envprobe.ncclfacts import LogState, NcclLog
from envprobe.routes.types import PeerGroup, Routing


@dataclasses.dataclass(frozen=True, slots=True)
class Joined:
    """The workers of another node that must agree with a group of this one.

    `communicator` is NCCL's commId that has ranks on both; "" where the logs do not tell, so that
    the two are taken for one because nothing else on either node has this role and replica.
    """

    group: PeerGroup
    communicator: str


def joined(own: Routing, group: PeerGroup, other: Routing) -> Joined | None:
    """Return the part of `group`, one of `own`, on another node; None if it cannot be told."""
    candidates = _alike(other, group)
    if not candidates:
        return None
    for one in candidates:
        shared = _communicators(own, group) & _communicators(other, one)
        if shared:
            return Joined(one, min(shared))
    if len(candidates) > 1 or len(_alike(own, group)) > 1:
        return None
    if _tells(own, group) and _tells(other, candidates[0]):
        return None
    return Joined(candidates[0], "")


def _alike(routing: Routing, group: PeerGroup) -> list[PeerGroup]:
    """Return the groups of the same role and replica."""
    wanted = (group.role, group.replica)
    return [one for one in routing.groups if (one.role, one.replica) == wanted]


def _logs(routing: Routing, group: PeerGroup) -> list[NcclLog | None]:
    workers = set(group.workers)
    return [one.nccl for one in routing.snapshot.processes if one.pid in workers]


def _communicators(routing: Routing, group: PeerGroup) -> set[str]:
    return {
        member.communicator
        for log in _logs(routing, group)
        if log is not None and log.state is LogState.JOINED
        for member in log.members
        if member.communicator
    }


def _tells(routing: Routing, group: PeerGroup) -> bool:
    """Return whether the logs name every communicator of every worker of the group."""
    return all(
        log is not None
        and log.state is LogState.JOINED
        and log.shows
        and not log.damaged
        and bool(log.members)
        and all(member.communicator for member in log.members)
        for log in _logs(routing, group)
    )
