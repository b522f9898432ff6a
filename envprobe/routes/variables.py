"""What is known of single variables: when they are read, their defaults, where they may differ."""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import os
from typing import Any, Final

from envprobe import tables
from envprobe.routes.types import ReadTime
from envprobe.values import Value


@dataclasses.dataclass(frozen=True, slots=True)
class ByDesign:
    """A variable that differs on purpose, and between what: `rank`, `host` or `launch`."""

    scope: str
    source: str


def read_time(name: str) -> ReadTime:
    """Return when a variable is read; UNKNOWN if `data/read-times.json` does not list it."""
    row = _row("read-times", name)
    return ReadTime.UNKNOWN if row is None else ReadTime(row["read"])


def by_design(name: str) -> ByDesign | None:
    """Return why a variable may differ between peers, None if nothing is known of it."""
    row = _row("by-design", name)
    return None if row is None else ByDesign(row["scope"], row["source"])


def rank_critical(name: str) -> str:
    """Return what breaks when ranks of one communicator differ in a variable, "" if unknown."""
    row = _row("rank-critical", name)
    return "" if row is None else str(row["consequence"])


def known_default(name: str) -> Value | None:
    """Return the value that means the same as a variable's absence, None if it is not definite."""
    row = _row("known-defaults", name)
    return None if row is None else Value(os.fsencode(row["default"]))


def set_by_library(name: str) -> str:
    """Return which C library sets a variable in its own process with setenv(3), "" if unknown."""
    row = _row("library-writers", name)
    return "" if row is None else f"{row['library']} sets it itself ({row['source']})"


def removed_when_secure(name: str) -> bool | None:
    """Return whether glibc's loader removes a variable in secure mode (AT_SECURE).

    None: that depends on the version of glibc or on the value. Source: ld.so(8).
    """
    row = _row("secure-names", name)
    if row is None:
        return False
    return True if row["always"] else None


def perhaps_meant(name: str) -> str:
    """Return the known variable whose name is so close that this one may be mistyped, else ""."""
    # Needed for few scans, and slow to import.
    import difflib

    known = _known()
    if name in known:
        return ""
    # Short words are close to too many others.
    near = difflib.get_close_matches(name[:_LONGEST].upper(), known, n=1, cutoff=_CLOSE)
    return near[0] if near and len(name) >= _SHORTEST else ""


_CLOSE: Final = 0.88
_SHORTEST, _LONGEST = 6, 100
_NAMES_IN: Final = ("read-times", "by-design", "rank-critical", "known-defaults")


@functools.cache
def _known() -> frozenset[str]:
    """Return all whole names that the tables hold."""
    listed = {name for table in _NAMES_IN for name in _rows(table)[0]}
    written: list[dict[str, Any]] = tables.load("framework-writers")["rows"]
    return frozenset(listed | {row["variable"] for row in written if "*" not in row["variable"]})


_WILD: Final = frozenset("*?[")


@functools.cache
def _row(table: str, name: str) -> dict[str, Any] | None:
    exact, patterns = _rows(table)
    if name in exact:
        return exact[name]
    for pattern, row in patterns:
        if fnmatch.fnmatchcase(name, pattern):
            return row
    return None


@functools.cache
def _rows(table: str) -> tuple[dict[str, dict[str, Any]], tuple[tuple[str, dict[str, Any]], ...]]:
    """Return the rows by exact name, and those with a pattern, the longest pattern first."""
    rows: list[dict[str, Any]] = tables.load(table)["rows"]
    exact = {row["name"]: row for row in rows if not _WILD.intersection(row["name"])}
    patterns = [(row["name"], row) for row in rows if _WILD.intersection(row["name"])]
    return exact, tuple(sorted(patterns, key=lambda pair: -len(pair[0])))
