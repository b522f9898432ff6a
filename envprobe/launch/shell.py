"""Shell text that only sets variables and starts something, read and never run.

What a shell makes of it is told only where nothing has to be run to know it: assignments, `export`,
`unset`, `source`, `cd`, `exec` and a last command, with words that are literal or variables. All
else is an OpaqueError with its line. The grammar is that of POSIX.1-2017, "Shell Command Language".
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Final

from envprobe.launch.options import OpaqueError

_BLANKS: Final = " \t"
_SEPARATORS: Final = (";", "\n", "&&")
_OPERATORS: Final = re.compile(r"&&|\|\||;;|[;&|()<>\n]")
_REDIRECTION: Final = re.compile(r"\d?(?:>>|>&|<&|>\||>|<(?![<(]))|&>>?")
_REFERENCE: Final = re.compile(
    r"\$(?:\{(?P<long>[A-Za-z_]\w*|[@*\d])(?:(?P<operator>:?[-+])(?P<other>(?:[^}$`\\\"']|\$\w+|\$\{\w+\})*))?\}"
    r"|(?P<short>[A-Za-z_]\w*|[@*\d]))"
)
_PATTERN: Final = frozenset("*?[~")


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A piece of a word: text, or (`reference`) a variable; quoted ones are not split."""

    text: str
    quoted: bool = False
    reference: re.Match[str] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """A simple command: its words, each of its parts, and the line on which it begins."""

    words: tuple[tuple[Part, ...], ...]
    line: int


class ShellOpaqueError(OpaqueError):
    """Shell text that has to be run to know what it does."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.line = line


def parse(text: str) -> list[Command]:
    """Return the simple commands of shell text; ShellOpaqueError at what is none."""
    return _Parser(text).commands()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.line = 1

    def commands(self) -> list[Command]:
        found: list[Command] = []
        words: list[tuple[Part, ...]] = []
        start = self.line
        while self.position < len(self.text):
            self.blanks()
            operator = _OPERATORS.match(self.text, self.position)
            redirection = _REDIRECTION.match(self.text, self.position)
            if redirection is not None:
                self.position = redirection.end()
                self.blanks()
                self.word()
            elif operator is not None:
                if operator[0] not in _SEPARATORS:
                    raise self.opaque(f"`{operator[0]}` joins or groups commands")
                if words:
                    found.append(Command(tuple(words), start))
                words = []
                self.advance(operator.end())
            elif self.position < len(self.text):
                if self.text[self.position] == "#":
                    end = self.text.find("\n", self.position)
                    self.position = len(self.text) if end < 0 else end
                    continue
                start = start if words else self.line
                words.append(self.word())
        if words:
            found.append(Command(tuple(words), start))
        return found

    def opaque(self, reason: str) -> ShellOpaqueError:
        return ShellOpaqueError(f"{reason}: it would have to be run", self.line)

    def advance(self, end: int) -> None:
        self.line += self.text.count("\n", self.position, end)
        self.position = end

    def blanks(self) -> None:
        while self.position < len(self.text):
            if self.text[self.position] in _BLANKS:
                self.position += 1
            elif self.text.startswith("\\\n", self.position):
                self.advance(self.position + 2)
            else:
                return

    def word(self) -> tuple[Part, ...]:
        parts: list[Part] = []
        while self.position < len(self.text):
            character = self.text[self.position]
            if character in _BLANKS or _OPERATORS.match(self.text, self.position):
                break
            parts += self.part(character)
        return tuple(parts)

    def part(self, character: str) -> list[Part]:
        if character == "'":
            end = self.text.find("'", self.position + 1)
            if end < 0:
                raise self.opaque("a quote is not closed")
            part = Part(self.text[self.position + 1 : end], quoted=True)
            self.advance(end + 1)
            return [part]
        if character == '"':
            self.position += 1
            return self.double()
        if character == "\\":
            escaped = self.text[self.position + 1 : self.position + 2]
            self.advance(self.position + 1 + len(escaped))
            return [] if escaped == "\n" else [Part(escaped, quoted=True)]
        if character in "$`":
            return [self.reference(quoted=False)]
        if character in _PATTERN:
            raise self.opaque(f"`{character}` tests something or stands for names of files")
        self.position += 1
        return [Part(character)]

    def double(self) -> list[Part]:
        parts = [Part("", quoted=True)]
        while self.position < len(self.text):
            character = self.text[self.position]
            if character == '"':
                self.position += 1
                return parts
            if character == "\\":
                escaped = self.text[self.position + 1 : self.position + 2]
                kept = escaped if escaped in '$`"\\' else "\\" + escaped
                parts.append(Part("" if escaped == "\n" else kept, quoted=True))
                self.advance(self.position + 2)
            elif character in "$`":
                parts.append(self.reference(quoted=True))
            else:
                parts.append(Part(character, quoted=True))
                self.advance(self.position + 1)
        raise self.opaque("a quote is not closed")

    def reference(self, *, quoted: bool) -> Part:
        found = _REFERENCE.match(self.text, self.position)
        if found is None:
            following = self.text[self.position + 1 : self.position + 2]
            if self.text[self.position] == "$" and (not following or following in ' \t\n"/.:,='):
                self.position += 1
                return Part("$", quoted)
            raise self.opaque("a command or an expression is replaced by what it gives")
        self.position = found.end()
        return Part(found[0], quoted, found)


Look = Callable[[str], "str | None"]
"""Gives a variable's value, "" if it is not set, None if it cannot be told."""


def expand(word: tuple[Part, ...], look: Look, arguments: tuple[str, ...]) -> list[str | None]:
    """Return the words that one word becomes; None stands for one that cannot be told.

    `arguments` are the positional parameters, $0 the first of them.
    """
    fields: list[str | None] = []
    current: str | None = ""
    begun = False
    for part in word:
        if part.reference is None:
            current = None if current is None else current + part.text
            begun = begun or part.quoted or bool(part.text)
            continue
        name = part.reference["long"] or part.reference["short"]
        if name in "@*":
            fields += [*([current] if begun and current else []), *arguments[1:]]
            current, begun = "", False
            continue
        value = _value(part.reference, name, look, arguments)
        if value is None:
            current, begun = None, True
        elif part.quoted:
            current, begun = (None if current is None else current + value), True
        else:
            split = value.split()
            for number, piece in enumerate(split):
                if number:
                    fields.append(current)
                    current = ""
                current, begun = (None if current is None else current + piece), True
    if begun:
        fields.append(current)
    return fields


def joined(word: tuple[Part, ...], look: Look, arguments: tuple[str, ...]) -> str | None:
    """Return a word as an assignment takes it: not split; None if it cannot be told."""
    whole = tuple(dataclasses.replace(part, quoted=True) for part in word)
    fields = expand(whole, look, arguments) or [""]
    known = [one for one in fields if one is not None]
    return " ".join(known) if len(known) == len(fields) else None


def _value(
    reference: re.Match[str], name: str, look: Look, arguments: tuple[str, ...]
) -> str | None:
    if name.isdecimal():
        value: str | None = "".join(arguments[int(name) : int(name) + 1])
    else:
        value = look(name)
    operator, other = reference["operator"], reference["other"] or ""
    if operator is None or value is None:
        return value
    # Without the colon an empty value counts as set: `look` does not tell the two apart.
    if not value and not operator.startswith(":"):
        return None
    if bool(value) is operator.endswith("-"):
        return value if value else ""
    return _inner(other, look, arguments)


def _inner(text: str, look: Look, arguments: tuple[str, ...]) -> str | None:
    """Return the other value of a reference, its own references replaced."""
    made, end = "", 0
    for found in _REFERENCE.finditer(text):
        value = _value(found, found["long"] or found["short"], look, arguments)
        if value is None:
            return None
        made += text[end : found.start()] + value
        end = found.end()
    return made + text[end:]
