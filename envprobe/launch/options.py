"""Options of other programs' command lines, as getopt_long(3) takes them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Sequence
from typing import Any

from envprobe import tables


class OpaqueError(Exception):
    """A command line that cannot be taken apart: `reason` is a sentence without its end."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclasses.dataclass(frozen=True, slots=True)
class Taken:
    """The options in their order, each with its value or "", and the words after them."""

    options: tuple[tuple[str, str], ...]
    rest: tuple[str, ...]

    def values(self, *names: str) -> list[str]:
        """Return the values of the options with these names, in their order."""
        return [value for name, value in self.options if name in names]

    def has(self, *names: str) -> bool:
        """Return whether one of these options is given."""
        return any(name in names for name, _ in self.options)


@functools.cache
def rows() -> dict[str, dict[str, Any]]:
    """Return the rows of data/wrappers.json by program."""
    return {row["program"]: row for row in tables.load("wrappers")["rows"]}


def of(program: str, words: Sequence[str]) -> Taken:
    """Take the options of a program of the table; OpaqueError for one that it does not list."""
    row = rows()[program]
    return take(words, row["values"], row["flags"])


def take(words: Sequence[str], values: Collection[str] = (), flags: Collection[str] = ()) -> Taken:
    """Take the options up to the first word that is none, or up to `--`.

    `values` are the options that take a value, `flags` those that take none; a long one with `=` is
    taken in any case. Raises OpaqueError for another one: whether it takes a value is not known.
    """
    found: list[tuple[str, str]] = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        name, equals, given = word.partition("=")
        if word.startswith("--") and equals:
            found.append((name, given))
        elif word in values:
            if not rest:
                raise OpaqueError(f"the option {word} lacks its value")
            found.append((word, rest.pop(0)))
        elif word in flags:
            found.append((word, ""))
        elif not word.startswith("--"):
            found += _cluster(word, rest, values, flags)
        else:
            raise OpaqueError(f"the option {name} is not known to envprobe")
    return Taken(tuple(found), tuple(rest))


def _cluster(
    word: str, rest: list[str], values: Collection[str], flags: Collection[str]
) -> list[tuple[str, str]]:
    """Return the short options that one word holds, the last perhaps with its value."""
    found = []
    for number, letter in enumerate(word[1:], 1):
        option = f"-{letter}"
        if option in values:
            value = word[number + 1 :]
            if not value and not rest:
                raise OpaqueError(f"the option {option} lacks its value")
            found.append((option, value or rest.pop(0)))
            return found
        if option not in flags:
            raise OpaqueError(f"the option {option} is not known to envprobe")
        found.append((option, ""))
    return found
