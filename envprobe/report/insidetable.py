"""Hooks and patched attributes by workers: what each interpreter has loaded, and its mark."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from envprobe.checks import code_changed_since_start, hooked, patched
from envprobe.checks.finding import Context
from envprobe.checks.hooked import NOT_LOADED, Hooked
from envprobe.checks.patched import Patched, Status
from envprobe.checks.sources import sources_of
from envprobe.model import Process
from envprobe.pythonfacts import HOOKS, Answer, AnswerState, files_of
from envprobe.report import matrix
from envprobe.report.matrix import ABSENT, SAME, Matrix, Row
from envprobe.routes.types import Launch

STALE: Final = matrix.LATE
_WAITING: Final = "*"
_NOT_ASKED: Final = "."
_MARKS: Final = {
    AnswerState.NOT_IMPORTED: _WAITING,
    AnswerState.ABSENT: ABSENT,
    AnswerState.UNREADABLE: "?",
    AnswerState.CHANGING: "~",
}
MEANINGS: Final = {
    SAME: "what the second column says",
    ABSENT: "not loaded, or no such attribute",
    _WAITING: "not imported yet",
    "?": "could not be read",
    "~": "changed at each attempt to read it",
    _NOT_ASKED: "not asked for",
    STALE: "its file was changed after the start",
}
"""What each mark says; small letters are other places, listed below their row."""

_TITLE: Final = ("inside", "loaded from")
_NOTHING: Final = {
    _WAITING: "(not imported yet)",
    ABSENT: "(no such attribute)",
    "?": "(not read)",
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Cell:
    """What one process has: a mark, or `text` and whether it is `expected` (None: nothing is)."""

    mark: str = ""
    text: str = ""
    expected: bool | None = None
    stale: bool = False


def build(context: Context, launch: Launch) -> Matrix:
    """Return the table of one launch: its launcher, its workers, and roles that are spoken of.

    A row is a hook that is expected or loaded somewhere (sitecustomize always), or a question.
    Without rows if no interpreter was asked.
    """
    table = _Table(context, launch)
    rows = tuple(table.rows()) if table.shown else ()
    marks = [dict(zip(table.pids, row.marks, strict=True)) for row in rows]
    columns = matrix.columns(table.shown, marks, matrix.heads(table.shown, table.workers))
    return Matrix(
        columns=columns,
        rows=tuple(_of_columns(row, mark, columns) for row, mark in zip(rows, marks, strict=True)),
        title=_TITLE,
        meanings=MEANINGS,
    )


def _of_columns(row: Row, marks: Mapping[int, str], columns: Iterable[matrix.Column]) -> Row:
    return dataclasses.replace(row, marks=tuple(marks[column.pids[0]] for column in columns))


class _Table:
    """What the interpreters of one launch say; its rows have a mark for each process of `pids`."""

    def __init__(self, context: Context, launch: Launch) -> None:
        self.context = context
        roles = {one.role for one in context.config.inside if one.role}
        processes = context.routing.snapshot.processes
        self.workers = [one for one in processes if one.pid in launch.workers]
        others = [
            one
            for one in processes
            if one.pid not in launch.workers
            and not one.role.worker
            and (one.pid == launch.launcher or one.role.name in roles)
        ]
        every = [*others, *self.workers]
        self.shown = every if any(one.inside is not None for one in every) else []
        self.pids = [one.pid for one in self.shown]
        self.patches = {
            (one.expectation.query, one.pid): one for one in context.once(patched.outcomes)
        }
        self.hooks = {(one.expectation.name, one.pid): one for one in context.once(hooked.outcomes)}

    def rows(self) -> Iterator[Row]:
        expected = {one.name for one in self.context.config.hooks}
        for name in HOOKS:
            cells = {one.pid: self.hook(one, name) for one in self.shown}
            if name in (HOOKS[0], *expected) or any(cell.text for cell in cells.values()):
                stated = next((o.source for o in self.context.config.hooks if o.name == name), "")
                yield self.row(name, cells, stated, f"({NOT_LOADED})")
        queries = [one.query for one in self.context.config.patches]
        for process in self.shown:
            answers = process.inside.answers if process.inside is not None else ()
            queries += [answer.query for answer in answers]
        asked = list(dict.fromkeys(query for query in queries if query not in HOOKS))
        tails = collections.Counter(_tail(query) for query in asked)
        for query in asked:
            cells = {one.pid: self.patch(one, query) for one in self.shown}
            stated = next((o.source for o in self.context.config.patches if o.query == query), "")
            name = query if tails[_tail(query)] > 1 else _tail(query)
            yield self.row(name, cells, f"(from {stated})" if stated else "")

    def row(self, name: str, cells: dict[int, _Cell], expected: str = "", absent: str = "") -> Row:
        """Return a row; `expected` stands in the second column where nobody has it."""
        workers = [cells[one.pid] for one in self.workers] or list(cells.values())
        usual = _usual(workers, expected) or _usual(cells.values(), expected)
        texts = dict.fromkeys(cell.text for cell in cells.values() if cell.text)
        letters = {
            text: matrix.letter(number)
            for number, text in enumerate(text for text in texts if text != usual)
        }
        marks = []
        for pid in self.pids:
            cell = cells[pid]
            mark = cell.mark or (SAME if cell.text == usual else letters[cell.text])
            marks.append(mark + STALE if cell.stale else mark)
        nothing = absent if ABSENT in marks and absent else ""
        shown = usual or nothing or next((_NOTHING[one] for one in marks if one in _NOTHING), "")
        others = tuple((mark, text) for text, mark in letters.items())
        return Row(name, shown or "(not asked)", tuple(marks), others)

    def hook(self, process: Process, name: str) -> _Cell:
        answer = process.inside.answer(name) if process.inside is not None else None
        found = hooked.loaded(answer)
        if answer is None or not found or found == NOT_LOADED:
            return _Cell(ABSENT if found else self.mark(answer))
        outcome = self.hooks.get((name, process.pid))
        return self.cell(process, answer, found, outcome)

    def patch(self, process: Process, query: str) -> _Cell:
        answer = process.inside.answer(query) if process.inside is not None else None
        outcome = self.patches.get((query, process.pid))
        if answer is not None and outcome is not None and outcome.status is Status.NOT_IMPORTED:
            return _Cell(_WAITING)
        if answer is None or answer.state is not AnswerState.VALUE:
            return _Cell(self.mark(answer))
        if outcome is None or outcome.found is None:
            return self.cell(process, answer, sources_of(answer).own[-1].said, None)
        found = outcome.found.said
        if outcome.status is Status.BROKEN:
            found += f", not from {outcome.expectation.source}"
        elif outcome.status is Status.UNKNOWN:
            found += f", perhaps not from {outcome.expectation.source}"
        return self.cell(process, answer, found, outcome)

    def cell(
        self, process: Process, answer: Answer, text: str, outcome: Patched | Hooked | None
    ) -> _Cell:
        stale = code_changed_since_start.stale_files(self.context, process)
        holds = None if outcome is None else outcome.status is Status.HOLDS
        return _Cell("", text, holds, not stale.isdisjoint(files_of(answer)))

    def mark(self, answer: Answer | None) -> str:
        return _NOT_ASKED if answer is None else _MARKS.get(answer.state, _NOT_ASKED)


def _tail(query: str) -> str:
    return query.partition(":")[2] or query


def _usual(cells: Iterable[_Cell], expected: str) -> str:
    """Return what `=` stands for: the most frequent of what is right, else what is expected.

    Where nothing is expected it is the most frequent of all.
    """
    every = [cell for cell in cells if cell.text]
    stated = any(cell.expected is not None for cell in every)
    right = [cell.text for cell in every if cell.expected is not False]
    counts = collections.Counter(right)
    if counts:
        return counts.most_common(1)[0][0]
    return expected if stated else ""
