"""Taking from a line what launchers, containers and loggers wrote in front of it.

The rows are those of data/nccl-prefixes.json (launchers) and of data/causes.json (loggers). One of
the former is left out, pdsh's `NODE: `: `RuntimeError: ` looks the same. Blanks behind a prefix
stay, since the indentation of a traceback tells its end.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import Any, Final

from envprobe import tables
from envprobe.triage import table

_LEFT_OUT: Final = frozenset(("markdown quote", "markdown code", "pdsh"))
_MOST: Final = 8
_NO_IDENTITY: Final = frozenset(("stamp", "stream", "level", "ranks"))
_MANAGERS: Final = frozenset(("systemd",))


@dataclasses.dataclass(frozen=True, slots=True)
class Peeled:
    """A line's own text; `stream` and `label` say which process wrote it, as far as is known.

    `level` is that of the last logger in front of it, "" where none says one.
    """

    text: str
    stamp: str
    stream: tuple[str, ...]
    label: str
    manager: bool
    level: str = ""


@functools.cache
def _rows() -> tuple[tuple[str, re.Pattern[str]], ...]:
    launchers: list[Any] = tables.load("nccl-prefixes")["rows"]
    kept = [one for one in launchers if one["name"] not in _LEFT_OUT]
    every = [*table.prefixes(), *kept]
    return tuple((row["name"], re.compile(row["pattern"], re.ASCII)) for row in every)


def peel(text: str) -> Peeled:
    """Return a line without its prefixes, at most eight of them."""
    stamp, level, labels, manager = "", "", [], False
    stream: list[str] = []
    for _ in range(_MOST):
        found = _first(text)
        if found is None:
            break
        name, match = found
        fields = {key: value for key, value in match.groupdict().items() if value}
        stamp = stamp or fields.get("stamp", "")
        level = fields.get("level", level)
        told = {key: value for key, value in fields.items() if key not in _NO_IDENTITY}
        manager = manager or told.get("unit") in _MANAGERS
        if told:
            stream += (name, *told.values())
        labels += [fields["ranks"].strip()] if fields.get("ranks") else [*told.values()]
        text = text[match.end() :]
    return Peeled(text, stamp, tuple(stream), " ".join(dict.fromkeys(labels)), manager, level)


def _first(text: str) -> tuple[str, re.Match[str]] | None:
    if not text or text[0] in " \t":
        return None
    for name, pattern in _rows():
        match = pattern.match(text)
        if match is not None and match.end():
            return name, match
    return None
