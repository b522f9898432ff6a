"""The grammar of EnvironmentFile= (systemd.exec(5)), which is not that of a shell.

Measured with systemd 252. Since 254 a backslash at the end of a comment no longer continues it
(NEWS of 254); for what follows such a line the version decides.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Final

from envprobe.launch import words
from envprobe.launch.types import Kind, Place, Remark
from envprobe.values import Value

MAX_BYTES: Final = 4 << 20
COMMENT_ENDS_SINCE: Final = 254
_COMMENTS: Final = "#;"
_NEWLINES: Final = "\n\r"
_IN_DOUBLE_QUOTES: Final = '"\\`$'
_DOLLAR: Final = re.compile(r"\$(?:\{?[A-Za-z_]|\()|`")
_EXPORT: Final = re.compile(r"(?:export|set|declare|setenv)\s+(?:-\w+\s+)*([A-Za-z_]\w*)")


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """One assignment that counts."""

    name: str
    value: Value
    place: Place


@dataclasses.dataclass(frozen=True, slots=True)
class EnvFile:
    """What one file says; `refused` tells why systemd takes none of it, and then fails the start.

    `unsure` is set where the version of systemd decides what counts.
    """

    lines: tuple[Line, ...]
    remarks: tuple[Remark, ...]
    refused: str = ""
    unsure: str = ""


def parse(path: str, raw: bytes, version: int | None = None) -> EnvFile:
    """Parse an environment file for a version of systemd; None: it is not known."""
    if b"\0" in raw:
        return EnvFile((), (), "it holds a NUL byte")
    return _Reader(path, raw.decode("utf-8", "surrogateescape"), version).read()


class _Reader:
    def __init__(self, path: str, text: str, version: int | None) -> None:
        self.path = path
        self.text = text
        self.version = version
        self.position = 0
        self.line = 1
        self.lines: list[Line] = []
        self.remarks: list[Remark] = []
        self.refused = ""
        self.unsure = ""

    def read(self) -> EnvFile:
        while not self.refused and (character := self.next()):
            if character in _COMMENTS:
                self.comment()
            elif character not in words.BLANKS:
                self.assignment(character)
        return EnvFile(tuple(self.lines), tuple(self.remarks), self.refused, self.unsure)

    def next(self) -> str:
        """Return the next character, "" at the end; lines are counted as an editor does."""
        character = self.text[self.position : self.position + 1]
        self.position += 1
        following = self.text[self.position : self.position + 1]
        if character == "\n" or (character == "\r" and following != "\n"):
            self.line += 1
        return character

    def comment(self) -> None:
        start = self.line
        while (character := self.next()) and character not in _NEWLINES:
            if character != "\\":
                continue
            escaped = self.next()
            if escaped and escaped in _NEWLINES:
                about = "the comment ends with a backslash: before systemd 254 the next line is"
                about += " part of it, since then it is not"
                self.remark(Kind.FILE_COMMENT_CONTINUED, start, about)
                if self.version is None:
                    self.unsure = f"{self.path}:{start} depends on the version of systemd"
                elif self.version >= COMMENT_ENDS_SINCE:
                    return

    def assignment(self, first: str) -> None:
        start = self.line
        key = first
        while (character := self.next()) and character != "=":
            if character in _NEWLINES:
                break
            key += character
        key = key.rstrip(words.BLANKS)
        if character != "=":
            about = "the line has no `=`, and is ignored"
            self.remark(Kind.FILE_WITHOUT_EQUALS, start, about)
            return
        value = _Value(self)
        made = value.read()
        self.take(key, made, value, start)

    def take(self, key: str, made: str, value: _Value, start: int) -> None:
        raw = made.encode("utf-8", "surrogateescape")
        if not words.is_text(key.encode("utf-8", "surrogateescape")) or not words.is_text(raw):
            self.refused = f"line {start} is no UTF-8"
            return
        if not words.is_name(key):
            exported = _EXPORT.match(key)
            kind = Kind.FILE_EXPORT if exported else Kind.FILE_BAD_NAME
            about = "the line is ignored: "
            about += "this is no shell file" if exported else "this is no name of a variable"
            name = exported[1] if exported else ""
            self.remark(kind, start, about, name=name, text=key)
            return
        self.lines.append(Line(key, Value(raw), Place(self.path, start)))
        for kind, about in value.oddities(made, start):
            self.remark(kind, start, about, name=key, text=made)

    def remark(
        self, kind: Kind, line: int, about: str, *, name: str = "", text: str | None = None
    ) -> None:
        raw = None if text is None else Value(text.encode("utf-8", "surrogateescape"))
        self.remarks.append(Remark(kind, Place(self.path, line), about, name, raw))


class _Value:
    """Reads one value, and remembers what in it is not as a shell would have it."""

    def __init__(self, reader: _Reader) -> None:
        self.reader = reader
        self.made: list[str] = []
        self.kept = 0
        self.single: list[str] = []
        self.bare_backslash = False
        self.after_quote = False
        self.inside = False
        self.comment = False
        self.unclosed = False
        self.runs_on = False

    def read(self) -> str:
        bare, closed = False, False
        while character := self.reader.next():
            if character in _NEWLINES:
                break
            if character == "\\":
                self.backslash()
                bare = True
            elif character in "'\"" and not bare:
                self.quoted(character)
                closed = True
            elif bare:
                self.inside |= character in "'\""
                self.plain(character)
            elif character not in words.BLANKS:
                self.after_quote |= closed
                self.comment |= character == "#" and closed
                bare = True
                self.plain(character)
        return "".join(self.made[: self.kept])

    def plain(self, character: str) -> None:
        """Take a character outside of quotes; blanks count only if something follows."""
        if character == "#" and self.made and self.made[-1] in words.BLANKS:
            self.comment = True
        self.made.append(character)
        if character not in words.BLANKS:
            self.kept = len(self.made)

    def literal(self, text: str) -> None:
        self.made += text
        self.kept = len(self.made)

    def backslash(self) -> None:
        following = self.reader.next()
        if following and following not in _NEWLINES:
            self.bare_backslash = True
            self.literal(following)
        self.kept = len(self.made)

    def quoted(self, quote: str) -> None:
        start = self.reader.line
        while character := self.reader.next():
            if character == quote:
                self.runs_on |= self.reader.line != start
                return
            if character == "\\" and quote == '"':
                character = self.escaped()
            elif quote == "'":
                self.single.append(character)
            self.literal(character)
        self.unclosed = True

    def escaped(self) -> str:
        following = self.reader.next()
        if following in ("", "\n"):
            return ""
        return following if following in _IN_DOUBLE_QUOTES else "\\" + following

    def oddities(self, made: str, start: int) -> list[tuple[Kind, str]]:
        """Return what a reader who knows shells would take for something else."""
        found = []
        if self.unclosed:
            lines = self.reader.line - start
            about = "the quote is never closed: the rest of the file"
            about += f" ({lines} more lines) is part of this value"
            found.append((Kind.FILE_QUOTE_RUNS_ON, about))
        elif self.runs_on:
            about = "the quotes hold several lines, and line breaks are part of the value"
            found.append((Kind.FILE_QUOTE_RUNS_ON, about))
        if self.comment:
            about = "what looks like a comment is part of the value"
            found.append((Kind.FILE_COMMENT_IN_VALUE, about))
        elif self.after_quote:
            about = "what follows the closing quote is part of the value, blanks before it are not"
            found.append((Kind.FILE_TEXT_AFTER_QUOTE, about))
        if self.inside:
            about = "quotes inside of a value that begins without one are part of it"
            found.append((Kind.FILE_QUOTE_INSIDE, about))
        if self.bare_backslash:
            about = "a backslash outside of quotes is dropped, and keeps what follows it"
            found.append((Kind.FILE_BACKSLASH, about))
        if _DOLLAR.search(made) and not _DOLLAR.search("".join(self.single)):
            about = "variables and commands are not expanded here: the text is handed over as it is"
            found.append((Kind.FILE_DOLLAR, about))
        if "%%" in made:
            about = "there are no specifiers in this file: both percent signs are handed over"
            found.append((Kind.FILE_DOUBLED_PERCENT, about))
        return found
