"""The table data/causes.json: texts of failed starts, prefixes of lines, states of units."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from envprobe import tables

_TABLE: Final = "causes"


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One text. `within` is "line", "exception" or "frame", `then` "", "line" or "raised".

    See the head of the table for what the fields mean; `source` names project, file and version.
    """

    cause: str
    pattern: re.Pattern[str]
    within: str
    effect: bool
    fatal: bool
    certain: bool
    then: str
    outermost: bool
    source: str


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """What a unit's result or exit status says without a log."""

    cause: str
    what: str
    effect: bool


@dataclasses.dataclass(frozen=True, slots=True)
class MarkRow:
    """A text that marks a start or that the server is ready; `manager`: of systemd's own lines."""

    kind: str
    pattern: re.Pattern[str]
    manager: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Rows:
    """The rows for one place; `any` fits where at least one of them does."""

    rows: tuple[Row, ...]
    any: re.Pattern[str]

    def find(self, text: str) -> tuple[Row, re.Match[str]] | None:
        """Return the first row that fits, with where it does."""
        if self.any.search(text) is None:
            return None
        fitting = ((row, row.pattern.search(text)) for row in self.rows)
        return next(((row, found) for row, found in fitting if found is not None), None)


@functools.cache
def rows(within: str) -> Rows:
    """Return the rows for one place. An exception's line is searched for those of lines too."""
    wanted = ("line", "exception") if within == "exception" else (within,)
    found = tuple(row for row in _rows() if row.within in wanted)
    every = "|".join(f"(?:{_NAMED.sub('(?:', row.pattern.pattern)})" for row in found)
    return Rows(found, re.compile(every, re.ASCII))


_NAMED: Final = re.compile(r"\(\?P<\w+>")


@functools.cache
def _rows() -> tuple[Row, ...]:
    return tuple(map(_row, tables.load(_TABLE)["rows"]))


def _row(row: Mapping[str, Any]) -> Row:
    return Row(
        cause=row["cause"],
        pattern=re.compile(row["pattern"], re.ASCII),
        within=row.get("in", "line"),
        effect=row.get("effect", False),
        fatal=row.get("fatal", True),
        certain=row.get("certain", False),
        then=row.get("then", ""),
        outermost=row.get("place") == "outermost",
        source=f"{row['project']}, {row['file']}, {row['version']}",
    )


def states(result: str, status: int | None) -> Iterator[State]:
    """Yield what a unit's Result= and the exit status of its main process say."""
    for row in tables.load(_TABLE)["states"]:
        if row.get("result") == result or (status is not None and row.get("status") == status):
            yield State(row["cause"], row["what"], row.get("effect", False))


@functools.cache
def marks() -> tuple[MarkRow, ...]:
    """Return the texts that mark a start, or that a server is ready."""
    return tuple(
        MarkRow(row["kind"], re.compile(row["pattern"], re.ASCII), row.get("manager", False))
        for row in tables.load(_TABLE)["marks"]
    )


def prefixes() -> list[Mapping[str, Any]]:
    """Return what loggers write in front of their lines."""
    found: list[Mapping[str, Any]] = tables.load(_TABLE)["prefixes"]
    return found
