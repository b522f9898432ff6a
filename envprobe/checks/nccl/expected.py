"""Whether each rank read what was expected, and if not, why."""

from __future__ import annotations

import dataclasses
import enum
import os
from collections.abc import Iterable, Iterator
from typing import Final

from envprobe.checks.nccl import cells
from envprobe.checks.nccl.cells import Cell, Shown
from envprobe.checks.nccl.context import Context, communicator_words, rank_words, version
from envprobe.checks.nccl.reasons import reasons
from envprobe.config import Expectation, Rule
from envprobe.expectations import accepts
from envprobe.nccl import params
from envprobe.nccl.facts import Communicator, Rank
from envprobe.nccl.params import Naming
from envprobe.nccl.values import Effect, Reading, interpret
from envprobe.values import Value

UNREAD: Final = frozenset(Naming) - {Naming.READ, Naming.UNCERTAIN}
"""What a name is that this version of NCCL does not read."""

_COMMUNICATORS_NAMED: Final = 3


class Status(str, enum.Enum):
    """Whether one expectation holds in one rank.

    MET. OTHER: another value is shown. ABSENT: it would be shown, and is not. PRESENT: shown, and
    expected to be absent. REFUSED: NCCL does not use the expected value. MISREAD: NCCL reads the
    expected value as something else. UNKNOWN: not shown, which proves nothing. UNREAD: no variable
    of this version.
    """

    MET = "met"
    OTHER = "other"
    ABSENT = "absent"
    PRESENT = "present"
    REFUSED = "refused"
    MISREAD = "misread"
    UNKNOWN = "unknown"
    UNREAD = "unread"


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """One expectation in one rank; `reading` says what NCCL makes of the one expected value."""

    expectation: Expectation
    communicator: Communicator
    cell: Cell
    status: Status
    reading: Reading | None = None
    reasons: tuple[str, ...] = ()


def outcomes(context: Context) -> tuple[Outcome, ...]:
    """Return the outcome of every expectation in every rank of the log."""
    return tuple(
        _outcome(context, one, communicator, rank)
        for one in context.config.expectations
        for communicator in context.log.communicators
        for rank in communicator.ranks
    )


def _outcome(context: Context, one: Expectation, communicator: Communicator, rank: Rank) -> Outcome:
    known = version(context.process(rank))
    cell = cells.cell(context, communicator, rank, one.name)
    naming = params.naming(one.name, known)
    if naming in UNREAD and cell.value is None and one.rule is not Rule.ABSENT:
        return Outcome(one, communicator, cell, Status.UNREAD)
    reading = None
    if one.rule is Rule.EXACT:
        reading = interpret(one.name, os.fsdecode(one.values[0].reveal()), known)
        if reading.printed_as:
            cell = cells.cell(context, communicator, rank, reading.printed_as)
    status = _status(one, cell, reading)
    why = reasons(context, rank, one.name) if status is Status.UNKNOWN else ()
    return Outcome(one, communicator, cell, status, reading, why)


def _status(one: Expectation, cell: Cell, reading: Reading | None) -> Status:
    if one.rule is Rule.ABSENT:
        if cell.value is not None:
            return Status.PRESENT
        return Status.MET if cell.shown is Shown.LACKING else Status.UNKNOWN
    if cell.value is None:
        return _unseen(cell, reading)
    if reading is None:
        return Status.MET if accepts(one, cell.value) else Status.OTHER
    if cell.shown is Shown.REFUSED and cell.value in one.values:
        return Status.REFUSED
    if reading.printed is None or cell.value != Value(os.fsencode(reading.printed)):
        return Status.OTHER
    return _taken(reading)


def _taken(reading: Reading) -> Status:
    if reading.effect in (Effect.NOT_SET, Effect.FATAL):
        return Status.REFUSED
    if reading.effect in (Effect.READ_AS, Effect.ODD):
        return Status.MISREAD
    return Status.MET


def _unseen(cell: Cell, reading: Reading | None) -> Status:
    if reading is not None and reading.printed is None:
        found = _taken(reading)
        return Status.UNKNOWN if found is Status.MET else found
    return Status.ABSENT if cell.shown is Shown.LACKING else Status.UNKNOWN


# --- many ranks together -------------------------------------------------------------------------


def grouped(context: Context, statuses: Iterable[Status]) -> Iterator[tuple[Outcome, ...]]:
    """Yield the outcomes of these kinds, those with equal words together."""
    wanted = set(statuses)
    groups: dict[object, list[Outcome]] = {}
    for one in context.once(outcomes):
        if one.status in wanted:
            key = (one.expectation, one.status, one.cell.value, one.reading, one.reasons)
            groups.setdefault(key, []).append(one)
    for group in groups.values():
        yield tuple(group)


def ranks_in_words(context: Context, group: Iterable[Outcome]) -> str:
    """Return the ranks of several outcomes in words, `all ranks` where there are no others."""
    every = tuple(group)
    total = sum(len(one.ranks) for one in context.log.communicators)
    if len(every) == total and total > 1:
        return f"all {total} ranks of the log"
    by_communicator: dict[int, list[Outcome]] = {}
    for one in every:
        by_communicator.setdefault(one.cell.rank.communicator, []).append(one)
    parts = [
        f"{rank_words(one.cell.rank.rank for one in found)}"
        f" of {communicator_words(found[0].communicator)}"
        for found in by_communicator.values()
    ]
    more = len(parts) - _COMMUNICATORS_NAMED
    named = "; ".join(parts[:_COMMUNICATORS_NAMED])
    return f"{named}; and in {more} more communicators" if more > 0 else named
