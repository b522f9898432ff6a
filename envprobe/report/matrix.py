"""Variables by workers: which rows matter, which workers are alike, and each cell's mark."""

from __future__ import annotations

import collections
import dataclasses
import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from envprobe import redact
from envprobe.checks.finding import Finding
from envprobe.config import Config, Rule
from envprobe.model import Process, State, View
from envprobe.report import labels
from envprobe.routes.types import InTime, Launch, Routing
from envprobe.values import Value

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
DECLARED: Final = 0
"""Stands for what the unit declares where the others are processes: no process has this number."""

_UNKNOWN: Final = frozenset(_MARKS[state] for state in (State.UNREADABLE, State.CHANGING))
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
    """Processes whose cells are alike in every row shown; none for what a unit declares."""

    label: str
    pids: tuple[int, ...]
    worker: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One variable: the value that `=` stands for (None: nowhere any), a mark for each column.

    `others` are the values that the letters stand for. A value that is a `str` is none of a
    variable, but what `insidetable` says of an interpreter.
    """

    name: str
    value: Value | str | None
    marks: tuple[str, ...]
    others: tuple[tuple[str, Value | str], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Matrix:
    """The table of one launch; the others are the names that it leaves out.

    `same` and `differing` were read in all workers; `unread` were not, and where they were they are
    the same. `title` heads the names and the values; `meanings` says what the marks are.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    same: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()
    title: tuple[str, str] = ("variable", "value")
    meanings: Mapping[str, str] = dataclasses.field(default_factory=lambda: MEANINGS)


@dataclasses.dataclass(frozen=True, slots=True)
class Focus:
    """What decides which rows matter: expectations, findings, `--var` patterns, `--show-all`."""

    config: Config
    findings: tuple[Finding, ...]
    patterns: tuple[str, ...] = ()
    show_all: bool = False


def build(routing: Routing, launch: Launch, focus: Focus) -> Matrix:
    """Return the table of one launch: its launcher, its workers, and helpers that are spoken of.

    The rows are the variables that somebody asked for, that a finding names or that the unit
    declares. Without any expectation they are also those that the server was started with; if there
    are none, all that are the same in all workers, as far as they could be read.
    """
    table = _Table(routing, launch, focus)
    same, unread, differing = table.split()
    wanted = [name for name in routing.names if table.matters(name)]
    if not focus.config.expectations:
        given = table.given()
        wanted = [name for name in routing.names if name in given or name in wanted]
        wanted = wanted or sorted((*same, *unread))

    def left_out(names: list[str]) -> tuple[str, ...]:
        return tuple(name for name in names if name not in wanted)

    columns = table.columns(wanted)
    return Matrix(
        columns=columns,
        rows=tuple(table.rows(wanted, columns)),
        same=left_out(same),
        unread=left_out(unread),
        differing=left_out(differing),
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
        self.heads = heads(self.shown, self.workers)
        self.unit = routing.snapshot.unit
        views = {process.pid: process.environment(View.LIBC) for process in self.shown}
        main = processes.get(self.unit.main_pid) if self.unit is not None else None
        self.declared = main is not None
        if main is not None:
            views[DECLARED] = main.environment(View.DECLARED)
        self.readings = {
            name: {pid: view.reading(name) for pid, view in views.items()} for name in routing.names
        }
        self.values = {name: self._value_of(name) for name in routing.names}
        self.letters = {name: self._letters_of(name) for name in routing.names}
        self.marks = {name: {pid: self._mark(pid, name) for pid in views} for name in routing.names}

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
            or (self.unit is not None and name in self.unit.names)
            or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
        )

    def given(self) -> frozenset[str]:
        """Return the names of the environment that the launcher, or the scan's root, started with.

        That is what the user set; what code in the server adds later is not.
        """
        snapshot = self.routing.snapshot
        tops = (snapshot.process(pid) for pid in (*snapshot.roots, self.launch.launcher))
        return frozenset(
            name
            for top in tops
            if top is not None
            for name in top.environment(View.EXEC).entries
            if redact.is_wanted(name, redact.DEFAULT_WANTED)
        )

    def split(self) -> tuple[list[str], list[str], list[str]]:
        """Return the names read and the same in all workers, those not read in all, the others."""
        same: list[str] = []
        unread: list[str] = []
        differing: list[str] = []
        for name in self.routing.names:
            marks = {self.marks[name][process.pid] for process in self.workers}
            known = marks - _UNKNOWN
            if marks <= {ABSENT}:
                continue
            if len(known) > 1:
                differing.append(name)
            else:
                (same if known == marks else unread).append(name)
        return same, unread, differing

    def _mark(self, pid: int, name: str) -> str:
        reading = self.readings[name][pid]
        if reading.value is None:
            return _MARKS.get(reading.state, ".")
        mark = SAME if reading.value == self.values[name] else self.letters[name][reading.value]
        route = self.routing.routes.get((pid, name))
        return mark + LATE if route is not None and route.in_time is InTime.NO else mark

    def columns(self, names: list[str]) -> tuple[Column, ...]:
        made = columns(self.shown, [self.marks[name] for name in names], self.heads)
        return (Column("declared", (), worker=False), *made) if self.declared else made

    def rows(self, names: list[str], columns: tuple[Column, ...]) -> Iterator[Row]:
        for name in names:
            marks = tuple(self.marks[name][(*column.pids, DECLARED)[0]] for column in columns)
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
        found = [*self._values(self.shown, name)]
        if self.declared and (declared := self.readings[name][DECLARED].value) is not None:
            found.insert(0, declared)
        others = dict.fromkeys(one for one in found if one != known)
        return {value: letter(number) for number, value in enumerate(others)}

    def _values(self, processes: Iterable[Process], name: str) -> Iterator[Value]:
        for process in processes:
            value = self.readings[name][process.pid].value
            if value is not None:
                yield value


def columns(
    shown: Iterable[Process], rows: Iterable[Mapping[int, str]], heads: Mapping[int, str]
) -> tuple[Column, ...]:
    """Fold the processes whose cells are alike; workers are never folded with helpers.

    `rows` are marks by pid, `heads` names by pid.
    """
    every = list(rows)
    alike: dict[tuple[object, ...], list[Process]] = {}
    for process in shown:
        cells = tuple(row[process.pid] for row in every)
        key = (cells, process.role.name) if process.role.worker else (process.pid,)
        alike.setdefault(key, []).append(process)
    return tuple(_column(group, heads) for group in alike.values())


def _column(group: list[Process], heads: Mapping[int, str]) -> Column:
    pids = tuple(process.pid for process in group)
    return Column(labels.together(heads[pid] for pid in pids), pids, worker=group[0].role.worker)


def heads(shown: Iterable[Process], workers: Iterable[Process]) -> dict[int, str]:
    """Return a name for each process; its pid is part of it where a name alone says too little.

    That is so for workers without a rank and for processes that would have the same name.
    """
    every = list(shown)
    one_role = len({process.role.name for process in workers}) == 1
    named = {process.pid: _name(process, one_role) for process in every}
    often = collections.Counter(named.values())
    for process in every:
        unranked = process.role.worker and not process.role.ranks
        if unranked or often[named[process.pid]] > 1:
            named[process.pid] += f" {process.pid}"
    return named


def _name(process: Process, one_role: bool) -> str:
    if not process.role.worker:
        return labels.process_label(process, 20)
    return labels.rank_label(process.role) if one_role else labels.process_label(process)


def letter(number: int) -> str:
    """Return what stands for another value than the one in the second column."""
    return chr(ord("a") + number) if number < 26 else f"#{number + 1}"
