"""The table data/causes.json: texts of failed starts, prefixes of lines, states of units."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from envprobe import tables

_TABLE: Final = "causes"
_OF_TRACEBACKS: Final = ("Traceback", 'File "', "Error", "Exception", "Exit", "Interrupt")
"""What stands in every traceback, and in the last line of most exceptions."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One text. `within` is "line", "exception", "frame" or "manager"; `then`, "line" or "raised".

    See the head of the table for what the fields mean; `source` names project, file and version.
    """

    cause: str
    has: tuple[str, ...]
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
    has: tuple[str, ...]
    pattern: re.Pattern[str]
    manager: bool


@functools.cache
def rows(within: str) -> tuple[Row, ...]:
    """Return the rows for one place. An exception's line is searched for those of lines too."""
    wanted = ("line", "exception") if within == "exception" else (within,)
    return tuple(row for row in _rows() if row.within in wanted)


def find(within: str, text: str) -> tuple[Row, re.Match[str]] | None:
    """Return the first row that fits, with where it does."""
    # A plain search takes a hundredth of a pattern's time, and most lines hold nothing.
    for one in telling(within):
        if one in text:
            break
    else:
        return None
    for row in rows(within):
        match = row.pattern.search(text)
        if match is not None:
            return row, match
    return None


@functools.cache
def _rows() -> tuple[Row, ...]:
    return tuple(map(_row, tables.load(_TABLE)["rows"]))


def _row(row: Mapping[str, Any]) -> Row:
    return Row(
        cause=row["cause"],
        has=tuple(row["has"]),
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
        MarkRow(
            kind=row["kind"],
            has=tuple(row["has"]),
            pattern=re.compile(row["pattern"], re.ASCII),
            manager=row.get("manager", False),
        )
        for row in tables.load(_TABLE)["marks"]
    )


@functools.cache
def telling(within: str) -> tuple[str, ...]:
    """Return what a line for one place holds at least one of, if a row fits it."""
    return tuple(dict.fromkeys(one for row in rows(within) for one in row.has))


@functools.cache
def _telling_bytes() -> tuple[bytes, ...]:
    found = [*_OF_TRACEBACKS, *telling("exception"), *telling("manager")]
    found += [one for row in marks() for one in row.has]
    return tuple(dict.fromkeys(one.encode() for one in found))


def tells(block: bytes) -> bool:
    """Return whether any line of a block, without colours, can tell something."""
    return any(one in block for one in _telling_bytes())


def prefixes() -> list[Mapping[str, Any]]:
    """Return what loggers write in front of their lines."""
    found: list[Mapping[str, Any]] = tables.load(_TABLE)["prefixes"]
    return found
