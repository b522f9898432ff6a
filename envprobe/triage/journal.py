"""The journal of one start of a unit, asked of journalctl.

journalctl(1) -o json: one object a line; a field is a string, a list of byte values if it is no
text, a list of both if it is there several times. systemd.journal-fields(7) says which fields are
there: those that begin with `_` are journald's own, all others are the process's and may lie.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from typing import Any, Final

from envprobe.errors import UndeterminedError
from envprobe.launch.manager import Manager
from envprobe.runner import supervised
from envprobe.runner.started import Bounds
from envprobe.triage.facts import Kind, Line, Log
from envprobe.triage.peeling import peel
from envprobe.triage.reading import MAX_TEXT
from envprobe.triage.scan import Scanner

_BOUNDS: Final = Bounds(seconds=60.0, output_bytes=64 << 20, processes=8)
_LAST: Final = "20000"
"""Entries of a journal beyond the bound that are read at its end."""

_NEEDED: Final = ("HOME", "PATH", "XDG_RUNTIME_DIR", "LD_LIBRARY_PATH")
_FIELDS: Final = "MESSAGE,SYSLOG_IDENTIFIER,_PID,_COMM"
_INVOCATION: Final = re.compile(r"[0-9a-f]{32}")
_HIDDEN: Final = re.compile(r"not seeing messages|insufficient permissions|[Pp]ermission denied")
_REMEDY: Final = "Run envprobe as root or as a member of the group systemd-journal."
_SPARE: Final = 60.0
"""Seconds by which the clock may have been set back since the start."""

_MOST_LINES: Final = 10_000
"""Lines of one message."""


@dataclasses.dataclass(slots=True)
class _Read:
    """What was read so far."""

    order: int = 0
    entries: int = 0
    last: int = 0
    of_processes: bool = False


def read(manager: Manager, unit: str, invocation: str, began: int) -> Log:
    """Return what the journal has of one start, whose main process began at `began`.

    That is in microseconds of CLOCK_MONOTONIC, which journald notes for each entry; 0: unknown.

    Where no line of a process has the id of the start (journald finds it only as long as the unit's
    control group is where systemd puts it), it is all that the unit wrote since. Raises
    UndeterminedError if there is no journalctl, if it fails or does not answer, if the journal may
    not be read, or if it has nothing of this start.
    """
    if _INVOCATION.fullmatch(invocation) is None:
        raise UndeterminedError(
            f"the manager remembers no start of {unit}",
            "It never was, or it was stopped and forgotten: give its log as a file, or start it.",
        )
    fields = ("_SYSTEMD_INVOCATION_ID", "+", "INVOCATION_ID", "+", "USER_INVOCATION_ID")
    by_id = tuple(one if one == "+" else f"{one}={invocation}" for one in fields)
    found = _found(manager, unit, by_id)
    if (found is None or not found.of_processes) and began:
        option = "--user-unit" if manager.user else "--unit"
        since = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC) + began / 1e6 - _SPARE
        matches = (f"{option}={unit}", f"--since=@{int(since)}")
        found = _found(manager, unit, matches, began) or found
    if found is None:
        raise _nothing(unit, _ask(manager, by_id).stderr)
    return found.log


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    log: Log
    of_processes: bool


def _found(manager: Manager, unit: str, matches: tuple[str, ...], began: int = 0) -> _Found | None:
    """Return the entries that fit and are not older than `began`, None if there are none."""
    ended = _ask(manager, matches)
    parts = [ended.stdout]
    if ended.cut:
        parts.append(_ask(manager, (f"--lines={_LAST}", *matches)).stdout)
    scanner, done, gap = Scanner(), _Read(), 0
    for number, part in enumerate(parts):
        for line in _lines(part, done, began, skip=number > 0):
            gap = gap or (line.order if number else 0)
            done.of_processes = done.of_processes or not line.manager
            scanner.feed(line)
    if not done.entries:
        return None
    log = _log(unit, parts, scanner, done, gap)
    return _Found(log, done.of_processes)


def _log(unit: str, parts: list[bytes], scanner: Scanner, done: _Read, gap: int) -> Log:
    return Log(
        name=f"the journal of {unit}",
        kind=Kind.JOURNAL,
        lines=done.order,
        size=sum(map(len, parts)),
        occurrences=scanner.occurrences(),
        marks=tuple(scanner.marks),
        strange=tuple(scanner.strange),
        counts=dict(scanner.counts),
        gap=gap,
        broken="it is longer than is read: only its beginning and its end were" if gap else "",
    )


def _ask(manager: Manager, matches: tuple[str, ...]) -> supervised.Ended:
    path = shutil.which("journalctl", path=manager.variables.get("PATH", os.defpath))
    if path is None:
        raise UndeterminedError(
            "there is no journalctl on PATH", "Give the log of the server as a file, or through -."
        )
    given = {name: manager.variables[name] for name in _NEEDED if name in manager.variables}
    options = ("--no-pager", "--all", "--output=json", f"--output-fields={_FIELDS}")
    ended = supervised.run(
        supervised.Command(path, (path, *options, *matches), {**given, "LC_ALL": "C.UTF-8"}),
        _BOUNDS,
        name="journalctl",
    )
    if ended.stopped:
        raise UndeterminedError(
            "journalctl does not answer", "Give the log of the server as a file, or through -."
        )
    return ended


def _nothing(unit: str, stderr: bytes) -> UndeterminedError:
    said = " ".join(stderr.decode("utf-8", "replace").split())
    if _HIDDEN.search(said):
        return UndeterminedError(f"the journal of {unit} may not be read", _REMEDY)
    told = f": {said[:200]}" if said else ""
    return UndeterminedError(
        f"the journal has nothing of the last start of {unit}{told}",
        "Give the log of the server as a file, or through -.",
    )


def _lines(part: bytes, done: _Read, began: int, *, skip: bool) -> Iterator[Line]:
    """Yield the lines of entries; with `skip` only those after the last one that was taken."""
    before = done.last
    for raw in part.split(b"\n"):
        entry = _entry(raw)
        if entry is None or _microseconds(entry, "__MONOTONIC_TIMESTAMP") < began:
            continue
        at = _microseconds(entry, "__REALTIME_TIMESTAMP")
        if skip and at <= before:
            continue
        done.last = at or done.last
        done.entries += 1
        for text in _text(entry.get("MESSAGE")).split("\n")[:_MOST_LINES]:
            done.order += 1
            yield _line(text[:MAX_TEXT], entry, at, done)


def _entry(raw: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _microseconds(entry: dict[str, Any], field: str) -> int:
    given = entry.get(field)
    return int(given) if isinstance(given, str) and given.isdecimal() and len(given) < 20 else 0


def _text(field: Any) -> str:
    """Return a field as text: of several values the first."""
    if isinstance(field, list) and field and not isinstance(field[0], int):
        return _text(field[0])
    if isinstance(field, list):
        numbers = (one & 255 for one in field if isinstance(one, int))
        return bytes(numbers).decode("utf-8", "surrogateescape")
    return field if isinstance(field, str) else ""


def _line(text: str, entry: dict[str, Any], at: int, done: _Read) -> Line:
    pid = _text(entry.get("_PID"))
    name = _text(entry.get("SYSLOG_IDENTIFIER")) or _text(entry.get("_COMM"))
    own = peel(text.rstrip("\r"))
    label = f"{name}[{pid}]" if pid else name
    return Line(
        text=own.text,
        number=done.entries,
        offset=0,
        order=done.order,
        stamp=_time(at),
        stream=("journal", pid, *own.stream),
        label=f"{label} {own.label}".strip(),
        manager=_text(entry.get("_COMM")) == "systemd",
        level=own.level,
    )


def _time(microseconds: int) -> str:
    if not microseconds:
        return ""
    try:
        moment = datetime.datetime.fromtimestamp(microseconds / 1e6, datetime.timezone.utc)
    except (ValueError, OverflowError, OSError):
        return ""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
