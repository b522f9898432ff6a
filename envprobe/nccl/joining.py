"""The ranks of many processes become communicators, joined by what their Init lines have in common.

The commId of `Init START` and `COMPLETE` is equal on all ranks. Lines of a split have none from
2.23.4 on; their ranks share the parent communicator, the number of the split and its colour.
Before 2.17 no line has one, and only the order is left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from envprobe.nccl.builders import ProcessBuilder, RankBuilder

_Key = tuple[object, ...]


@dataclasses.dataclass(eq=False, slots=True)
class Group:
    """The ranks of one communicator; `joined` and `parent` as in `facts.Communicator`."""

    joined: str
    parent: Group | None
    ranks: list[RankBuilder] = dataclasses.field(default_factory=list)


def groups(processes: Iterable[ProcessBuilder]) -> list[Group]:
    """Return the communicators in the order in which they were first seen."""
    return _Joiner().join(rank for process in processes for rank in process.ranks)


class _Joiner:
    """Makes groups; a rank whose place in one is taken by another process begins another."""

    def __init__(self) -> None:
        self._groups: dict[_Key, list[Group]] = {}
        self._of: dict[RankBuilder, Group] = {}
        self._splits: dict[tuple[RankBuilder, int | None], int] = {}

    def join(self, ranks: Iterable[RankBuilder]) -> list[Group]:
        """Put every rank into its group; parents come before their splits in each process."""
        for rank in ranks:
            self._of[rank] = self._group(rank)
        return [group for same in self._groups.values() for group in same]

    def _group(self, rank: RankBuilder) -> Group:
        joined, parent, key = self._key(rank)
        same = self._groups.setdefault(key, [])
        for group in same:
            if all(other.init.rank != rank.init.rank for other in group.ranks):
                break
        else:
            group = Group(joined, parent)
            same.append(group)
        group.ranks.append(rank)
        return group

    def _key(self, rank: RankBuilder) -> tuple[str, Group | None, _Key]:
        init = rank.init
        parent = self._of.get(rank.parent) if rank.parent is not None else None
        if rank.comm_id:
            return "commId", parent, (rank.comm_id, init.nranks)
        if rank.parent is not None and parent is not None:
            number = init.split
            if number is None:
                place = (rank.parent, init.color)
                number = self._splits[place] = self._splits.get(place, -1) + 1
            return "split", parent, (parent, number, init.color, init.nranks)
        return "order", None, (init.function, init.nranks, rank.ordinal, init.split, init.color)
