"""The tables of a log: for each communicator its variables, and which ranks are alike in them."""

from __future__ import annotations

import dataclasses

from envprobe.checks.nccl import cells, used
from envprobe.checks.nccl.cells import Cell
from envprobe.checks.nccl.context import Context
from envprobe.nccl.facts import Communicator, Rank


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Ranks that are alike in one variable, in what they read and in what they used."""

    ranks: tuple[Rank, ...]
    cell: Cell
    used: str

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the ranks."""
        return tuple(rank.rank for rank in self.ranks)


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One variable in one communicator."""

    name: str
    groups: tuple[Group, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """Communicators of the same processes whose rows are alike."""

    communicators: tuple[Communicator, ...]
    rows: tuple[Row, ...]


def build(context: Context) -> tuple[Table, ...]:
    """Return the tables of all communicators, each once."""
    tables: dict[object, list[Table]] = {}
    for communicator in context.log.communicators:
        table = Table((communicator,), _rows(context, communicator))
        tables.setdefault(_key(table), []).append(table)
    return tuple(
        dataclasses.replace(group[0], communicators=tuple(one.communicators[0] for one in group))
        for group in tables.values()
    )


def _rows(context: Context, communicator: Communicator) -> tuple[Row, ...]:
    """Return a row for each variable that is shown or expected, in alphabetical order."""
    expected = {one.name for one in context.config.expectations}
    wanted = sorted({*cells.names(communicator, context), *expected})
    return tuple(_row(context, communicator, name) for name in wanted)


def _row(context: Context, communicator: Communicator, name: str) -> Row:
    groups: dict[object, list[Group]] = {}
    for rank in communicator.ranks:
        cell = cells.cell(context, communicator, rank, name)
        told = used.used(communicator, rank, name)
        groups.setdefault((_content(cell), told), []).append(Group((rank,), cell, told))
    return Row(
        name,
        tuple(
            dataclasses.replace(same[0], ranks=tuple(one.ranks[0] for one in same))
            for same in groups.values()
        ),
    )


def _content(cell: Cell) -> object:
    return (cell.shown, cell.value, cell.meaning, cell.others)


def _key(table: Table) -> object:
    communicator = table.communicators[0]
    return (
        communicator.nranks,
        tuple((rank.rank, rank.process, rank.device) for rank in communicator.ranks),
        tuple(
            (row.name, tuple((one.numbers, _content(one.cell), one.used) for one in row.groups))
            for row in table.rows
        ),
    )
