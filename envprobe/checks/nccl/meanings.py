"""Values that NCCL reads as something else, refuses, or takes although they were hardly meant."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator

from envprobe.checks.finding import Finding, Severity
from envprobe.checks.nccl import cells, expected, origins
from envprobe.checks.nccl.cells import Cell, Shown
from envprobe.checks.nccl.context import Context, pids, rank_words, version
from envprobe.checks.nccl.expected import Status
from envprobe.model import Confidence, Sentence
from envprobe.model import Shown as ShownValue
from envprobe.nccl.params import find
from envprobe.nccl.values import Effect, interpret
from envprobe.values import Value


@dataclasses.dataclass(frozen=True, slots=True)
class Doubt:
    """One value of one variable that is not what it looks like, and the ranks that have it.

    `given` is true where the text is known as it was given (it was expected), not only as NCCL
    printed it.
    """

    name: str
    value: Value
    effect: Effect
    meaning: str
    why: str
    cells: tuple[Cell, ...]
    given: bool


def doubts(context: Context) -> tuple[Doubt, ...]:
    """Return the doubtful values that were expected, then those that only the log shows."""
    found = list(_of_expected(context))
    known = {(one.name, one.meaning) for one in found}
    for one in _of_log(context):
        if (one.name, one.meaning) not in known:
            found.append(one)
    return tuple(found)


def _of_expected(context: Context) -> Iterator[Doubt]:
    for group in expected.grouped(context, (Status.REFUSED, Status.MISREAD)):
        one, reading = group[0], group[0].reading
        if reading is not None:
            value = one.expectation.values[0]
            every = tuple(other.cell for other in group)
            yield Doubt(
                one.expectation.name,
                value,
                reading.effect,
                reading.meaning,
                reading.why,
                every,
                given=True,
            )


def _of_log(context: Context) -> Iterator[Doubt]:
    groups: dict[tuple[str, Value, Effect, str, str], list[Cell]] = {}
    for communicator in context.log.communicators:
        for rank in communicator.ranks:
            for name in cells.shown_in(context, rank):
                cell = cells.cell(context, communicator, rank, name)
                found = _doubt(context, cell)
                if found is not None and cell.value is not None:
                    groups.setdefault((name, cell.value, *found), []).append(cell)
    for (name, value, effect, meaning, why), every in groups.items():
        yield Doubt(name, value, effect, meaning, why, tuple(every), given=False)


def _doubt(context: Context, cell: Cell) -> tuple[Effect, str, str] | None:
    if cell.value is None:
        return None
    known = version(context.process(cell.rank))
    reading = interpret(cell.name, os.fsdecode(cell.value.reveal()), known)
    if reading.effect in (Effect.READ_AS, Effect.NOT_SET, Effect.FATAL, Effect.ODD):
        return reading.effect, reading.meaning, reading.why
    if cell.shown is Shown.REFUSED:
        return Effect.READ_AS, cell.meaning, "NCCL says so itself"
    return None


def findings(
    context: Context, check: str, severity: Severity, effects: tuple[Effect, ...], mend: str
) -> Iterator[Finding]:
    """Yield a finding for each doubtful value of these kinds."""
    for one in context.once(doubts):
        if one.effect in effects:
            yield _finding(context, one, check, severity, mend)


def _finding(context: Context, one: Doubt, check: str, severity: Severity, mend: str) -> Finding:
    parameter = find(one.name)
    evidence = [Sentence.of(f"{one.why[:1].upper()}{one.why[1:]}.")]
    if parameter is not None and parameter.allowed:
        evidence.append(Sentence.of(f"It takes: {parameter.allowed}."))
    reads = [read for cell in one.cells for read in cell.reads]
    if reads:
        evidence.append(Sentence.of(f"Shown in {reads[0].place.file}:{reads[0].place.line}."))
    writers = origins.writers(one.name, one.value)
    evidence += [Sentence.of(f"Written by {writer}.") for writer in writers]
    if not one.given and parameter is not None and parameter.prints == "number":
        evidence.append(Sentence.of("The text itself is not in the log, only what NCCL printed."))
    # The text that was given may be another one; what NCCL has is certain.
    guessed = one.effect is Effect.ODD and not one.given
    return Finding(
        check=check,
        # What a framework writes into all ranks is not the user's mistake.
        severity=Severity.WARNING if writers and not one.given else severity,
        message=Sentence.of(*_message(one)),
        confidence=Confidence.INFERRED if guessed else Confidence.PROVED,
        pids=pids(context.process(cell.rank) for cell in one.cells),
        variable=one.name,
        evidence=tuple(evidence),
        remedy=Sentence.of(mend),
        who=rank_words(cell.rank.rank for cell in one.cells),
    )


def _message(one: Doubt) -> Iterator[str | ShownValue]:
    shown = ShownValue(one.name, one.value)
    those = rank_words(cell.rank.rank for cell in one.cells)
    if one.effect is Effect.FATAL:
        yield from (f"{one.name}=", shown, f" lets the communicator fail in {those}.")
    elif one.effect is Effect.NOT_SET:
        yield from (f"{one.name}=", shown, f" is not used in {those}: it has {one.meaning}.")
    elif one.effect is Effect.READ_AS:
        yield from (f"{one.name}=", shown, f" is read as {one.meaning or 'nothing'} in {those}.")
    else:
        yield from (f"{one.name}=", shown, f" in {those} is hardly what was meant.")
