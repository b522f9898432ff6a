"""Variables by workers: which rows matter, which workers are alike, and each cell's mark."""

from __future__ import annotations

import collections
import dataclasses
import fnmatch
from collections.abc import Iterable, Iterator
from typing import Final

from envprobe.checks.finding import Finding
from envprobe.config import Config, Rule
from envprobe.model import Process, Reading, State, Value, View
from envprobe.report import labels
from envprobe.routes.types import InTime, Launch, Routing

SAME: Final = "="
ABSENT: Final = "-"
LATE: Final = "!"
_MARKS: Final = {
    State.ABSENT: ABSENT,
    State.UNREADABLE: "?",
    State.CHANGING: "~",
    State.NOT_APPLICABLE: "/",
    State.NOT_ASKED: ".",
}
MEANINGS: Final = {
    SAME: "the value in the second column",
    ABSENT: "not set",
    "?": "could not be read",
    "~": "changed at each attempt to read it",
    "/": "does not apply",
    ".": "not asked for",
    LATE: "came after the start",
}
"""What each mark says; small letters are other values, listed below their row."""


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """Processes whose cells are alike in every row shown."""

    label: str
    pids: tuple[int, ...]
    worker: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One variable: the value that `=` stands for (None: not set), a mark for each column.

    `others` are the values that the letters stand for.
    """

    name: str
    value: Value | None
    marks: tuple[str, ...]
    others: tuple[tuple[str, Value], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Matrix:
    """The table of one launch; `same` and `differing` are the names that it leaves out."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    same: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Focus:
    """What decides which rows matter: expectations, findings, `--var` patterns, `--show-all`."""

    config: Config
    findings: tuple[Finding, ...]
    patterns: tuple[str, ...] = ()
    show_all: bool = False


def build(routing: Routing, launch: Launch, focus: Focus) -> Matrix:
    """Return the table of one launch: its launcher, its workers, and helpers that are spoken of.

    With nothing to say against it and no expectation, every variable that is the same in all
    workers is a row; else the rows are those that somebody asked for or that a finding names.
    """
    table = _Table(routing, launch, focus)
    same, differing = table.split()
    wanted = [name for name in routing.names if table.matters(name)]
    if not wanted and not focus.config.expectations:
        wanted = same
    return Matrix(
        columns=table.columns(wanted),
        rows=tuple(table.rows(wanted)),
        same=tuple(name for name in same if name not in wanted),
        differing=tuple(name for name in differing if name not in wanted),
    )


class _Table:
    """The readings of one launch, and the marks they get."""

    def __init__(self, routing: Routing, launch: Launch, focus: Focus) -> None:
        self.routing = routing
        self.focus = focus
        self.launch = launch
        spoken_of = {finding.variable for finding in focus.findings}
        self.asked = spoken_of | {one.name for one in focus.config.expectations}
        processes = {process.pid: process for process in routing.snapshot.processes}
        self.workers = [processes[pid] for pid in launch.workers if pid in processes]
        self.shown = [*self._helpers(processes), *self.workers]
        self.values = {name: self._value_of(name) for name in routing.names}
        self.letters = {name: self._letters_of(name) for name in routing.names}

    def _helpers(self, processes: dict[int, Process]) -> Iterator[Process]:
        """Return the launcher, then the helpers that a finding or an expectation speaks of."""
        launcher = processes.get(self.launch.launcher)
        workers = set(self.launch.workers)
        if launcher is not None and launcher.pid not in workers:
            yield launcher
        roles = {one.role for one in self.focus.config.expectations if one.role}
        named = {pid for one in self.focus.findings if one.variable for pid in one.pids}
        for process in self.routing.snapshot.processes:
            counted = process.role.worker or process is launcher
            if not counted and (process.pid in named or process.role.name in roles):
                yield process

    def matters(self, name: str) -> bool:
        patterns = self.focus.patterns
        return (
            self.focus.show_all
            or name in self.asked
            or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
        )

    def split(self) -> tuple[list[str], list[str]]:
        """Return the names that read the same in all workers, and the others that any has."""
        same: list[str] = []
        differing: list[str] = []
        for name in self.routing.names:
            marks = {self.mark(process, name) for process in self.workers}
            if marks <= {ABSENT}:
                continue
            (same if len(marks) == 1 else differing).append(name)
        return same, differing

    def mark(self, process: Process, name: str) -> str:
        reading = _reading(process, name)
        if reading.value is None:
            return _MARKS.get(reading.state, ".")
        mark = SAME if reading.value == self.values[name] else self.letters[name][reading.value]
        route = self.routing.routes.get((process.pid, name))
        return mark + LATE if route is not None and route.in_time is InTime.NO else mark

    def columns(self, names: list[str]) -> tuple[Column, ...]:
        """Fold the processes whose cells are alike; workers are never folded with helpers."""
        alike: dict[tuple[object, ...], list[Process]] = {}
        for process in self.shown:
            worker = process.role.worker
            cells = tuple(self.mark(process, name) for name in names)
            key = (cells, process.role.name) if worker else (process.pid,)
            alike.setdefault(key, []).append(process)
        one_role = len({process.role.name for process in self.workers}) == 1
        return tuple(_column(group, one_role) for group in alike.values())

    def rows(self, names: list[str]) -> Iterator[Row]:
        columns = self.columns(names)
        processes = {process.pid: process for process in self.shown}
        for name in names:
            marks = tuple(self.mark(processes[column.pids[0]], name) for column in columns)
            others = tuple((letter, value) for value, letter in self.letters[name].items())
            yield Row(name, self.values[name], marks, others)

    def _value_of(self, name: str) -> Value | None:
        """Return the value that `=` stands for: the expected one, else the most frequent one."""
        for one in self.focus.config.expectations:
            if one.name == name and one.rule is Rule.EXACT and not one.role:
                return one.values[0]
        for processes in (self.workers, self.shown):
            counts = collections.Counter(self._values(processes, name))
            if counts:
                return counts.most_common(1)[0][0]
        return None

    def _letters_of(self, name: str) -> dict[Value, str]:
        known = self.values[name]
        others = dict.fromkeys(one for one in self._values(self.shown, name) if one != known)
        return {value: _letter(number) for number, value in enumerate(others)}

    def _values(self, processes: Iterable[Process], name: str) -> Iterator[Value]:
        for process in processes:
            value = _reading(process, name).value
            if value is not None:
                yield value


def _reading(process: Process, name: str) -> Reading:
    return process.environment(View.LIBC).reading(name)


def _column(group: list[Process], one_role: bool) -> Column:
    worker = group[0].role.worker
    if not worker:
        return Column(labels.process_label(group[0], 20), (group[0].pid,), worker=False)
    named = [
        labels.rank_label(one.role) if one_role else labels.process_label(one) for one in group
    ]
    return Column(labels.together(named), tuple(one.pid for one in group))


def _letter(number: int) -> str:
    return chr(ord("a") + number) if number < 26 else f"#{number + 1}"
