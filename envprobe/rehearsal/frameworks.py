"""The table of how frameworks start their processes (`data/rehearsals.json`), and its questions."""

from __future__ import annotations

import dataclasses
import os
import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from envprobe import tables
from envprobe.launch.steps import Mode, Python

NONE: Final = "none"
"""The framework of what is no known one: its workers are children of the first process."""

METHODS: Final = ("spawn", "fork", "forkserver")
_DIGITS: Final = re.compile(r"\d+")
_LONGEST: Final = 9
"""So many digits of a number count: int() refuses thousands of them."""

_FALSE: Final = ("", "0", "false", "no", "off")


def names() -> tuple[str, ...]:
    """Return the frameworks that are known, and `NONE`."""
    return (*_table()["frameworks"], NONE)


def most_workers() -> int:
    """Return how many workers a rehearsal starts at most."""
    return int(_table()["most"])


def default_workers() -> int:
    """Return how many workers are started where nothing tells."""
    return int(_table()["default_workers"])


def told_by(python: Python) -> str:
    """Return the framework that a command line starts, `NONE` if it is no known one."""
    for name, row in _table()["frameworks"].items():
        if any(_is_command(one, python) for one in row["commands"]):
            return str(name)
    return NONE


def _is_command(command: Mapping[str, str], python: Python) -> bool:
    if "word" in command and python.arguments[:1] != (command["word"],):
        return False
    if "module" in command:
        return python.mode is Mode.MODULE and _is(command["module"], python.target)
    return python.mode is Mode.SCRIPT and _is(command["program"], posixpath.basename(python.target))


def _is(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None


@dataclasses.dataclass(frozen=True, slots=True)
class Framework:
    """One row of the table with the command line that it is asked about."""

    name: str
    row: Mapping[str, Any]
    python: Python

    @property
    def distribution(self) -> str:
        """What is asked for its version, "" for nothing."""
        return str(self.row.get("distribution", ""))

    @property
    def newest(self) -> str:
        """The version that is taken where none is installed."""
        return str(self.row.get("newest", ""))

    def size(self, name: str) -> int | None:
        """Return the number that an option of the command line gives, None if none does."""
        options = self.row.get("sizes", {}).get(name, ())
        found = [
            _number(text) for text in _values(self.python.arguments, options) if text.isdecimal()
        ]
        return found[-1] if found else None

    def is_on(self, name: str) -> bool:
        """Return whether a switch stands in the command line."""
        return has_option(self.python.arguments, self.row.get("switches", {}).get(name, ()))

    def method(self, environment: Mapping[str, str]) -> tuple[str, str]:
        """Return the start method and what tells it; ("", "") for the interpreter's own."""
        variable = self.row.get("method_variable", "")
        if environment.get(variable) in METHODS:
            return environment[variable], variable
        word = self.python.arguments[:1] in [
            (one["word"],) for one in self.row.get("commands", ()) if "word" in one
        ]
        if word and "method_of_word" in self.row:
            return str(self.row["method_of_word"]), f"what {self.name} does"
        return str(self.row.get("method", "")), f"what {self.name} does"

    def starts_through_shell(self, environment: Mapping[str, str]) -> bool:
        """Return whether each worker's interpreter is started by a shell script."""
        variables = self.row.get("shell_variables", ())
        return any(environment.get(one, "").lower() not in _FALSE for one in variables)

    def is_before(self, version: str, key: str) -> bool:
        """Return whether a version is before the one that the table has under `key`."""
        return key in self.row and numbers(version) < numbers(str(self.row[key]))


def of(name: str, python: Python) -> Framework:
    """Return the framework of this name; `NONE` has an empty row."""
    return Framework(name, _table()["frameworks"].get(name, {}), python)


def has_option(arguments: Iterable[str], options: Iterable[str]) -> bool:
    """Return whether one of these options stands among the arguments."""
    return bool({word.partition("=")[0] for word in arguments}.intersection(options))


def _values(arguments: tuple[str, ...], options: Iterable[str]) -> list[str]:
    known = set(options)
    found = []
    for number, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name in known and equals:
            found.append(value)
        elif name in known:
            found += arguments[number + 1 : number + 2]
    return found


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version up to the first part that is none, for comparison."""
    found = []
    for part in version.split("."):
        match = _DIGITS.match(part)
        if match is None:
            break
        found.append(_number(match[0]))
        if match[0] != part:
            break
    return tuple(found)


def _number(digits: str) -> int:
    """Return a number as it is written; of one that is too long to be any, the largest."""
    digits = digits.lstrip("0")
    return int(digits or "0") if len(digits) <= _LONGEST else 10**_LONGEST


def words_of(python: Python) -> tuple[str, ...]:
    """Return the words behind the interpreter as they stand in its command line, without `-c`."""
    if python.mode is Mode.MODULE:
        return ("-m", python.target, *python.arguments)
    if python.mode is Mode.SCRIPT:
        return (os.fsdecode(python.target), *python.arguments)
    return python.arguments


def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = tables.load("rehearsals")
    return table
