"""The walk of sys.path: every candidate in order, and why all but one of them lose.

The rules are those of Lib/importlib/_bootstrap_external.py: the first entry of sys.path that holds
anything but a namespace portion wins; inside a directory a package comes before an extension
module, before source, before sourceless bytecode. Bytecode beside its source is no candidate.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from envprobe.startup.types import (
    MODULES,
    Bytecode,
    Candidate,
    Entry,
    EntryState,
    FileFacts,
    Kind,
    Launch,
    Origin,
    StartupFile,
    Walk,
    Wanted,
)

_ZIP: Final = re.compile(r"/python3\d+t?\.zip$")
_ERROR: Final = "error"
_READING: Final = "reading"
"""The key of the lines that come before the answer: a startup file that was begun with."""


def read(answer: bytes, launch: Launch) -> Walk:
    """Return what payload/startup_walk.py has answered; ValueError if it is not whole."""
    told: dict[str, Any] = json.loads(answer.rstrip().rpartition(b"\n")[2])
    if _READING in told:
        raise ValueError("a startup file has ended the interpreter")
    entries: tuple[Entry, ...] = ()
    candidates: list[Candidate] = []
    for module in MODULES:
        # Without site there is no moment at which a hook would be imported.
        found = told["hooks"].get(module, {"path": [], "candidates": [], "loaded": False})
        of_hook = tuple(_entries(found["path"], told, launch))
        entries = entries or of_hook
        candidates += _candidates(module, found["candidates"], of_hook)
    return Walk(
        version=tuple(told["version"]),
        implementation=told["implementation"],
        executable=told["executable"],
        prefix=told["prefix"],
        base_prefix=told["base_prefix"],
        stdlib=told["stdlib"],
        entries=entries,
        candidates=tuple(candidates),
        files=tuple(_startup_file(one) for one in told["files"]),
        user_site=told["user_site"] or "",
        user_site_enabled=told["user_site_enabled"],
        site_directories=tuple(told["site_directories"]),
        loaded=tuple(one for one in MODULES if told["hooks"].get(one, {}).get("loaded")),
        wanted=_wanted(told.get("wanted")),
    )


def last_read(lines: Iterable[Mapping[str, Any]]) -> str:
    """Return the startup file that was begun with last, "" if none, from all lines of an answer."""
    return next((one[_READING] for one in [*lines][::-1] if _READING in one), "")


def _wanted(told: Mapping[str, Any] | None) -> Wanted | None:
    if told is None:
        return None
    return Wanted(told["path"], EntryState(told["state"]), told["real"])


# --- candidates ----------------------------------------------------------------------------------


def _candidates(
    module: str, told: Iterable[Mapping[str, Any]], entries: tuple[Entry, ...]
) -> Iterator[Candidate]:
    found = [_candidate(module, one) for one in _in_order(told) if one["kind"] != _ERROR]
    winner = next((one for one in found if one.kind is not Kind.NAMESPACE), None)
    winner = winner or next(iter(found), None)
    for rank, one in enumerate(found):
        reason = "" if one is winner or winner is None else _why(one, winner, entries)
        yield dataclasses.replace(one, rank=rank, reason=reason)


def _in_order(told: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Put what other finders give before or after what that of sys.path gives."""

    def turn(one: Mapping[str, Any]) -> int:
        if one["entry"] is not None:
            return 1
        return 0 if one.get("before_path") else 2

    return sorted(told, key=turn)


def _candidate(module: str, told: Mapping[str, Any]) -> Candidate:
    return Candidate(
        module=module,
        file=_file(told),
        kind=Kind(told["kind"]),
        rank=0,
        entry=told["entry"],
        finder=told.get("finder", ""),
        cached=told.get("cached", ""),
        bytecode=Bytecode(told.get("bytecode", Bytecode.ABSENT)),
    )


def _why(loser: Candidate, winner: Candidate, entries: tuple[Entry, ...]) -> str:
    if loser.kind is Kind.NAMESPACE:
        return "it is a directory without code (a namespace package), which any module beats"
    if loser.entry is None:
        return f"{loser.finder} is asked after the entries of sys.path"
    if winner.entry is None:
        return f"{winner.finder} is asked before the entries of sys.path"
    if loser.entry == winner.entry:
        return f"in one directory {_named(winner.kind)} is taken before {_named(loser.kind)}"
    mine, before = entries[loser.entry], entries[winner.entry]
    return (
        f"its directory is entry {loser.entry + 1} of sys.path ({mine.origin.value}), after entry"
        f" {winner.entry + 1}, {before.path} ({before.origin.value}), where one is found first"
    )


def _named(kind: Kind) -> str:
    names = {
        Kind.PACKAGE: "a package",
        Kind.EXTENSION: "an extension module",
        Kind.SOURCE: "a source file",
        Kind.SOURCELESS: "bytecode without a source",
    }
    return names.get(kind, kind.value)


def _file(told: Mapping[str, Any]) -> FileFacts:
    return FileFacts(
        path=told["path"],
        real=told.get("real", ""),
        uid=told.get("uid"),
        mode=told.get("mode"),
        size=told.get("size"),
        modified=told.get("mtime"),
        changed=told.get("ctime"),
        readable=told.get("readable", True),
        owner=told.get("owner", ""),
    )


def _startup_file(told: Mapping[str, Any]) -> StartupFile:
    return StartupFile(
        file=_file(told),
        lines=tuple((number, text) for number, text in told["lines"]),
        suppressed=told["suppressed"],
        unreadable=told.get("error", ""),
    )


# --- the entries of sys.path ---------------------------------------------------------------------


def _entries(
    path: Iterable[Mapping[str, Any]], told: Mapping[str, Any], launch: Launch
) -> Iterator[Entry]:
    mine = {element.path for element in elements(launch)}
    for one in path:
        state = EntryState(one["state"])
        yield Entry(one["entry"], _origin(one["entry"], mine, told), state)


def _origin(path: str, of_python_path: set[str], told: Mapping[str, Any]) -> Origin:
    if path in of_python_path:
        return Origin.PYTHONPATH
    if _ZIP.search(path):
        return Origin.STDLIB_ZIP
    if path == told["stdlib"]:
        return Origin.STDLIB
    if path.endswith("/lib-dynload"):
        return Origin.DYNLOAD
    if path == told["user_site"]:
        return Origin.USER_SITE
    if path in told["site_directories"]:
        return Origin.SITE
    return Origin.ADDED


class Oddity(str, enum.Enum):
    """What is unusual about an element of PYTHONPATH."""

    EMPTY = "empty"
    TRAILING = "trailing"
    RELATIVE = "relative"


@dataclasses.dataclass(frozen=True, slots=True)
class Element:
    """One element of PYTHONPATH as it is written, and the directory it stands for."""

    text: str
    path: str
    oddity: Oddity | None


def elements(launch: Launch) -> tuple[Element, ...]:
    """Return the elements of PYTHONPATH, none where it does not count.

    An empty element, as a trailing colon makes one, is the current directory (Lib/site.py makes
    every entry absolute at start-up).
    """
    given = launch.python_path
    if not given:
        return ()
    texts = given.split(":")
    return tuple(_element(text, number, texts, launch.cwd) for number, text in enumerate(texts))


def _element(text: str, number: int, texts: list[str], cwd: str) -> Element:
    path = posixpath.normpath(posixpath.join(cwd, text))
    if not text:
        last = number in (0, len(texts) - 1)
        return Element(text, path, Oddity.TRAILING if last else Oddity.EMPTY)
    return Element(text, path, None if text.startswith("/") else Oddity.RELATIVE)
