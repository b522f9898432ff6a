"""Words as systemd splits them: systemd.syntax(7), systemd.service(5) "COMMAND LINES".

Quotes may stand anywhere in a word, and C escapes count inside and outside of both kinds of quotes.
What was measured beyond the manual pages is measured with systemd 252.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from typing import Final

BLANKS: Final = " \t\n\r"
_SIMPLE: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    '"': '"',
    "'": "'",
    "s": " ",
}
_NUMBERED: Final = re.compile(
    r"x(?P<x>[0-9A-Fa-f]{2})|u(?P<u>[0-9A-Fa-f]{4})|U(?P<U>[0-9A-Fa-f]{8})|(?P<o>[0-7]{3})"
)
_LAST: Final = 0x10FFFF
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class Word:
    """One word as bytes; `quoted` tells whether quotes or escapes were in it, `start` its place."""

    raw: bytes
    quoted: bool
    start: int

    @property
    def text(self) -> str:
        """The word as text, bytes that are no UTF-8 kept as surrogates."""
        return self.raw.decode("utf-8", "surrogateescape")


@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """The words of a line up to its end, or up to what cannot be read, which `broken` names."""

    words: tuple[Word, ...]
    broken: str = ""


class Escapes(enum.Enum):
    """What a backslash does: C escapes, or nothing but keep the character after it.

    RELAXED is how command lines are read: where an escape does not exist the backslash stays.
    """

    C = enum.auto()
    RELAXED = enum.auto()
    PLAIN = enum.auto()


def split(line: str, escapes: Escapes = Escapes.C) -> Split:
    """Split a line into words."""
    words: list[Word] = []
    position = 0
    while True:
        while position < len(line) and line[position] in BLANKS:
            position += 1
        if position == len(line):
            return Split(tuple(words))
        found = _Reader(line, position, escapes).word()
        if isinstance(found, str):
            return Split(tuple(words), found)
        word, position = found
        words.append(word)


class _Reader:
    """Reads one word that begins at `start`."""

    def __init__(self, line: str, start: int, escapes: Escapes) -> None:
        self.line = line
        self.start = start
        self.escapes = escapes
        self.made = bytearray()
        self.quoted = False

    def word(self) -> tuple[Word, int] | str:
        quote = ""
        position = self.start
        while position < len(self.line):
            character = self.line[position]
            if character == "\\":
                self.quoted = True
                taken = self.escape(position + 1)
                if not taken and self.escapes is Escapes.RELAXED:
                    self.add(self.line[position : position + 2])
                    taken = len(self.line[position + 1 : position + 2])
                elif not taken:
                    return "an escape that does not exist"
                position += 1 + taken
                continue
            if quote:
                quote = self.inside(character, quote)
            elif character in "'\"":
                quote, self.quoted = character, True
            elif character in BLANKS:
                break
            else:
                self.add(character)
            position += 1
        if quote:
            return "a quote that is not closed"
        return Word(bytes(self.made), self.quoted, self.start), position

    def inside(self, character: str, quote: str) -> str:
        if character == quote:
            return ""
        self.add(character)
        return quote

    def add(self, character: str) -> None:
        self.made += character.encode("utf-8", "surrogateescape")

    def escape(self, position: int) -> int:
        """Take what follows a backslash; return how many characters, 0 if it is no escape."""
        following = self.line[position : position + 1]
        if not following:
            return 0
        if self.escapes is Escapes.PLAIN:
            self.add(following)
            return 1
        if following in _SIMPLE:
            self.add(_SIMPLE[following])
            return 1
        found = _NUMBERED.match(self.line, position)
        if found is None:
            return 0
        digits = found[found.lastgroup or 0]
        code = int(digits, 8 if found.lastgroup == "o" else 16)
        as_byte = found.lastgroup in ("x", "o")
        if code == 0 or (as_byte and code > 0xFF) or not (as_byte or is_character(code)):
            return 0
        self.made += bytes([code]) if as_byte else chr(code).encode()
        return len(found[0])


def is_character(code: int) -> bool:
    """Return whether systemd takes a code point for text: no surrogate and no noncharacter."""
    surrogate = 0xD800 <= code <= 0xDFFF
    return code <= _LAST and not (surrogate or 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE)


def is_text(raw: bytes) -> bool:
    """Return whether systemd takes bytes for UTF-8."""
    try:
        return all(is_character(ord(one)) for one in raw.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def is_name(name: str) -> bool:
    """Return whether systemd takes this for the name of a variable."""
    return _NAME.fullmatch(name) is not None


def brief(raw: bytes) -> str:
    """Return the word up to its first `=`: what may be said of it where the rest is a secret."""
    return raw.partition(b"=")[0].decode("utf-8", "replace")
