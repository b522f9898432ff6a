"""What the log says of one variable in one rank: read, read as another, refused, or not shown."""

from __future__ import annotations

import dataclasses
import enum
import functools
import os
from collections.abc import Iterator

from envprobe import tables
from envprobe.checks.nccl.context import Context, version
from envprobe.nccl import params
from envprobe.nccl.facts import Communicator, DamageKind, Process, Rank, VariableRead, Wording
from envprobe.nccl.values import Effect, interpret
from envprobe.values import Value


class Shown(str, enum.Enum):
    """What the log shows of a variable in one rank.

    READ: read with this value. READ_AS: NCCL has something else than the text says. REFUSED: read
    and not used. LACKING: not shown where it would be: not set there. NOT_SHOWN: no line, which
    does not prove that it is not set.
    """

    READ = "read"
    READ_AS = "read_as"
    REFUSED = "refused"
    LACKING = "lacking"
    NOT_SHOWN = "not_shown"


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One variable in one rank.

    `value` is the text of its line, None if none is shown; `meaning` what NCCL has if it is not
    that text, and `why`. `reads` are the lines; `others` further values of the same process.
    """

    name: str
    rank: Rank
    shown: Shown
    value: Value | None = None
    meaning: str = ""
    why: str = ""
    reads: tuple[VariableRead, ...] = ()
    others: tuple[Value, ...] = ()


def names(communicator: Communicator, context: Context) -> tuple[str, ...]:
    """Return the variables that any process of a communicator shows, in alphabetical order."""
    processes = {rank.process for rank in communicator.ranks}
    return tuple(
        sorted({one.name for p in processes for one in context.log.processes[p].variables})
    )


def cell(context: Context, communicator: Communicator, rank: Rank, name: str) -> Cell:
    """Return what the log shows of a variable in one rank."""
    known = context.once(_known_cells)
    key = (rank.communicator, rank.rank, name)
    if key not in known:
        known[key] = _cell(context, communicator, rank, name)
    return known[key]


def _known_cells(context: Context) -> dict[tuple[int, int, str], Cell]:
    """Return where cells are kept: several checks and the report ask for the same ones."""
    return {}


def _cell(context: Context, communicator: Communicator, rank: Rank, name: str) -> Cell:
    process = context.process(rank)
    reads = tuple(reads_of(context, rank, name))
    values = tuple(dict.fromkeys(one.value for one in reads if one.wording is not Wording.UNCACHED))
    if not values:
        lacks = _would_show(context, communicator, rank, name)
        return Cell(name, rank, Shown.LACKING if lacks else Shown.NOT_SHOWN)
    refused = [one for one in reads if one.wording is Wording.REFUSED]
    if refused:
        instead = refused[-1].meaning
        meaning = "" if instead is None else str(instead)
        return Cell(name, rank, Shown.REFUSED, refused[-1].value, meaning, "", reads, values[:-1])
    return _interpreted(name, rank, reads, values, version(process))


def _interpreted(
    name: str,
    rank: Rank,
    reads: tuple[VariableRead, ...],
    values: tuple[Value, ...],
    known: params.Version | None,
) -> Cell:
    value = values[-1]
    found = interpret(name, os.fsdecode(value.reveal()), known)
    shown = {Effect.READ_AS: Shown.READ_AS, Effect.NOT_SET: Shown.READ_AS}.get(
        found.effect, Shown.REFUSED if found.effect is Effect.FATAL else Shown.READ
    )
    meaning = found.meaning if shown is not Shown.READ else ""
    return Cell(name, rank, shown, value, meaning, found.why, reads, values[:-1])


def reads_of(context: Context, rank: Rank, name: str) -> Iterator[VariableRead]:
    """Yield the lines of a variable that count for one rank.

    Most variables are read once in a process, whichever communicator came first; those that every
    rank reads again count only where that rank's thread, or no known rank's, printed the line.
    """
    process = context.process(rank)
    parameter = params.find(name)
    per_rank = parameter is not None and parameter.printed_by == "every rank"
    for one in context.once(_by_name).get((process.index, name), ()):
        owner = None if one.rank is None else process.ranks[one.rank]
        if not per_rank or owner is None or _is_same(owner, rank):
            yield one


def shown_in(context: Context, rank: Rank) -> tuple[str, ...]:
    """Return the variables that the process of a rank shows."""
    return tuple(dict.fromkeys(one.name for one in context.process(rank).variables))


def _is_same(one: Rank, other: Rank) -> bool:
    return (one.communicator, one.rank) == (other.communicator, other.rank)


def _by_name(context: Context) -> dict[tuple[int, str], list[VariableRead]]:
    found: dict[tuple[int, str], list[VariableRead]] = {}
    for process in context.log.processes:
        for one in process.variables:
            found.setdefault((process.index, one.name), []).append(one)
    return found


# --- whether a line would be there ---------------------------------------------------------------


def logs_environment(process: Process) -> bool:
    """Return whether this process logged that it read any variable."""
    return bool(process.variables)


def is_damaged(context: Context, process: Process) -> bool:
    """Return whether lines of this process may be lost: cut, or left out by Ray."""
    if context.log.damage_counts.get(DamageKind.DEDUPLICATED):
        return True
    if any(file.broken and file.name == process.last.file for file in context.log.files):
        return True
    lost = (DamageKind.CUT, DamageKind.TAIL, DamageKind.INCOMPLETE)
    return any(one.kind in lost and one.process == process.index for one in context.log.damage)


def _would_show(context: Context, communicator: Communicator, rank: Rank, name: str) -> bool:
    """Return whether this rank would show the variable if it had it.

    It must have logged other variables, undamaged, and have made the communicator; and the variable
    must be one that every rank reads while it does so, or that another rank of it has shown.
    """
    process = context.process(rank)
    if not logs_environment(process) or is_damaged(context, process):
        return False
    if rank.completed is None and rank.ended is None:
        return _past(context, communicator, rank, name)
    return _reached(context, communicator, rank, name)


def _past(context: Context, communicator: Communicator, rank: Rank, name: str) -> bool:
    """Return whether a rank that did not complete came past where others read the variable.

    Its outcome lines (rings, channels, buffer sizes) come after all that decides about them.
    """
    came_far = bool(rank.outcome.channels or rank.outcome.p2p_chunks or rank.nodes is not None)
    return came_far and _reached(context, communicator, rank, name)


def _reached(context: Context, communicator: Communicator, rank: Rank, name: str) -> bool:
    parameter = params.find(name)
    if parameter is None:
        return False
    if parameter.printed_by == "every rank":
        return communicator.nranks > 1
    if parameter.printed_by or parameter.prints not in ("number", "text", "level"):
        return False
    return any(
        _on_this_way(context, communicator, other, name)
        for other in communicator.ranks
        if other.process != rank.process
    )


def _on_this_way(context: Context, communicator: Communicator, other: Rank, name: str) -> bool:
    """Return whether another rank read the variable where this one must have come by.

    What it read while it made a communicator that this rank has no part in proves nothing, unless
    it is of those that decide about every communicator.
    """
    process = context.process(other)
    for one in reads_of(context, other, name):
        owner = None if one.rank is None else process.ranks[one.rank]
        if owner is None or owner.communicator == other.communicator or is_critical(name):
            return True
    return False


@functools.cache
def _consequences() -> dict[str, str]:
    return {row["name"]: row["consequence"] for row in tables.load("rank-critical")["rows"]}


def is_critical(name: str) -> bool:
    """Return whether it is known what comes of ranks that differ in a variable."""
    return name in _consequences()


def consequence(name: str) -> str:
    """Return what is known to come of ranks that differ in a variable, "" if nothing is."""
    return _consequences().get(name, "")
