"""Short names for processes, for many of them together, and for times."""

from __future__ import annotations

import datetime
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence

from envprobe import redact
from envprobe.model import Process, Role

_LAST_NUMBER = re.compile(r"(.*?)(\d+)\Z")


def process_label(process: Process, limit: int = 60) -> str:
    """Return what one process is: its role with its ranks, else its command line, never nothing.

    A process may have overwritten both its title and its name with blanks: then it is called by its
    program.
    """
    if process.role.name:
        return redact.show_text(process.role.label, limit)
    program = os.path.basename(process.exe or "")
    names = (process.title, (process.comm,), (program,), ("process",))
    return redact.show_command(next(one for one in names if "".join(one).strip()), limit)


def rank_label(role: Role) -> str:
    """Return the ranks alone, such as `DP0 TP1`; the role's name where there are none."""
    return redact.show_text(role.label.removeprefix(role.name).strip() or role.name, 40)


def together(labels: Iterable[str]) -> str:
    """Return several labels as one: `TP0`, `TP1`, `TP2`, `TP5` become `TP0-TP2, TP5`.

    Labels that are equal (two servers with the same ranks) are counted: `scheduler (2)`.
    """
    counts: dict[str, int] = {}
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
    parts: list[str] = []
    for run in _runs(list(counts)):
        if len(run) > 2 and all(counts[label] == 1 for label in run):
            parts.append(f"{run[0]}-{run[-1]}")
        else:
            parts += [_counted(label, counts[label]) for label in run]
    return ", ".join(parts)


def _counted(label: str, count: int) -> str:
    return label if count == 1 else f"{label} ({count})"


def _runs(labels: Sequence[str]) -> list[list[str]]:
    """Split labels where the text before their last number changes or the number skips."""
    runs: list[list[str]] = []
    previous: tuple[str, int] | None = None
    for label in sorted(labels, key=_sort_key):
        found = _LAST_NUMBER.match(label)
        here = (found.group(1), int(found.group(2))) if found else None
        if previous is not None and here == (previous[0], previous[1] + 1):
            runs[-1].append(label)
        else:
            runs.append([label])
        previous = here
    return runs


def _sort_key(label: str) -> tuple[tuple[int, int, str], ...]:
    pieces = re.split(r"(\d+)", label)
    return tuple((1, int(one), "") if one.isdecimal() else (0, 0, one) for one in pieces)


def width_of(text: str) -> int:
    """Return how many terminal cells a printable line takes: two for wide East Asian letters."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)


def pad(text: str, width: int) -> str:
    """Return `text` filled with blanks to `width` terminal cells."""
    return text + " " * max(width - width_of(text), 0)


def cut(text: str, width: int) -> str:
    """Return `text` cut to `width` terminal cells, the cut shown by three dots."""
    if width_of(text) <= width:
        return text
    kept = ""
    for one in text:
        if width_of(kept + one) > width - 3:
            break
        kept += one
    return kept + "..."


def clock(at: float) -> str:
    """Return a time in words, with the offset from UTC."""
    try:
        return datetime.datetime.fromtimestamp(at).astimezone().isoformat(" ", "seconds")
    except (OverflowError, OSError, ValueError):
        return "unknown time"
