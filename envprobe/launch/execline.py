"""ExecStart= as systemd reads it (systemd.service(5), "COMMAND LINES")."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Final

from envprobe.launch import specifiers, words
from envprobe.launch.specifiers import Scope
from envprobe.launch.types import Kind, Place, Remark
from envprobe.launch.unitfile import Assignment
from envprobe.values import Value

_PREFIXES: Final = "@-:+!|"
_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\$")

SEARCHED: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where systemd looks for a command without a slash: fixed when it is built, not PATH."""


@dataclasses.dataclass(frozen=True, slots=True)
class ExecLine:
    """One command: its prefixes (`-`, `@`, ...), and its words before variables are replaced.

    `unknown` says why a word cannot be told: a specifier that only the manager knows.
    """

    prefixes: str
    words: tuple[str, ...]
    place: Place
    unknown: str = ""

    @property
    def program(self) -> str:
        """The path that is executed."""
        return self.words[0] if self.words else ""

    @property
    def argv(self) -> tuple[str, ...]:
        """The words that the program gets, its own name first: with `@` the second one."""
        return self.words[1:] if "@" in self.prefixes else self.words

    @property
    def replaces(self) -> bool:
        """Whether variables are replaced: not with the prefix `:`."""
        return ":" not in self.prefixes


def parse_exec(one: Assignment, scope: Scope) -> tuple[list[ExecLine], list[Remark]]:
    """Return the commands of one ExecStart= line; several are separated by a word `;`."""
    split = words.split(one.value, words.Escapes.RELAXED)
    remarks = []
    if split.broken:
        about = f"{split.broken}: systemd ignores the line"
        remarks.append(Remark(Kind.EXEC_IGNORED, one.place, about))
        return [], remarks
    found = []
    for command in _commands(split.words):
        first, *rest = command
        prefixes = first[: len(first) - len(first.lstrip(_PREFIXES))]
        texts, unknown = [], ""
        for text in (first[len(prefixes) :], *rest):
            try:
                texts.append(specifiers.expand(text, scope))
            except (specifiers.UnknownError, specifiers.RefusedError) as error:
                texts.append(text)
                unknown = str(error)
        if not unknown and (why := _refused(texts[0])):
            told = "systemd ignores the line" if "-" in prefixes else "systemd refuses the unit"
            named = Value(texts[0].encode("utf-8", "surrogateescape"))
            remarks.append(Remark(Kind.EXEC_IGNORED, one.place, f"{why}: {told}", text=named))
        else:
            found.append(ExecLine(prefixes, tuple(texts), one.place, unknown))
    return found, remarks


def _refused(program: str) -> str:
    """Return why systemd takes a word for no program, "" if it does.

    systemd 252, src/core/load-fragment.c, config_parse_exec.
    """
    if not program:
        return "the program's name is empty"
    if program.endswith("/"):
        return "the program is a directory"
    if "/" in program and not program.startswith("/"):
        return "the program is neither an absolute path nor a name without a slash"
    return ""


def _commands(all_words: tuple[words.Word, ...]) -> Iterator[list[str]]:
    """Yield the words of each command; a semicolon behind a backslash is an ordinary word."""
    command: list[str] = []
    for word in all_words:
        if word.text == ";" and not word.quoted and command:
            yield command
            command = []
        else:
            command.append(";" if word.text == "\\;" else word.text)
    if command:
        yield command


@dataclasses.dataclass(frozen=True, slots=True)
class Replaced:
    """A command's words with variables replaced; `unknown` names those that cannot be told."""

    argv: tuple[str, ...]
    unknown: tuple[str, ...]
    remarks: tuple[Remark, ...]


def replaced(line: ExecLine, known: Mapping[str, str | None], *, complete: bool) -> Replaced:
    """Replace `$NAME` (a word of its own, split at blanks) and `${NAME}` (inside a word).

    `known` maps names to values, None for one that cannot be told; without `complete` a name that
    is not among them cannot be told either. The program itself is never replaced.
    """
    maker = _Replacer(line, known, complete)
    if not line.replaces:
        return Replaced(line.argv, (), ())
    argv = list(line.argv[:1])
    for word in line.argv[1:]:
        argv += maker.word(word)
    return Replaced(tuple(argv), tuple(maker.unknown), tuple(maker.remarks))


class _Replacer:
    def __init__(self, line: ExecLine, known: Mapping[str, str | None], complete: bool) -> None:
        self.line = line
        self.known = known
        self.complete = complete
        self.unknown: list[str] = []
        self.remarks: list[Remark] = []

    def value(self, name: str) -> str | None:
        found = self.known.get(name)
        if found is None and (name in self.known or not self.complete):
            self.unknown.append(name)
            return None
        return found or ""

    def word(self, word: str) -> list[str]:
        if word.startswith("$") and word[1:2] not in ("$", "{", ""):
            return self.alone(word)
        if re.search(r"\$[A-Za-z_]", word.replace("$$", "")):
            about = "$NAME inside of a word stays as it is; write ${NAME}"
            self.remark(about, word)
        return [_REFERENCE.sub(self.reference, word)]

    def alone(self, word: str) -> list[str]:
        name = word[1:]
        if not words.is_name(name):
            about = "the whole word is taken for a variable's name, which no variable has: it"
            self.remark(f"{about} vanishes; write ${{NAME}}", word)
            return []
        value = self.value(name)
        if value is None:
            return [word]
        return [one.text for one in words.split(value, words.Escapes.PLAIN).words]

    def reference(self, match: re.Match[str]) -> str:
        if match[1] is None:
            return "$"
        value = self.value(match[1])
        return match[0] if value is None else value

    def remark(self, about: str, word: str) -> None:
        text = Value(word.encode("utf-8", "surrogateescape"))
        self.remarks.append(Remark(Kind.EXEC_DOLLAR, self.line.place, about, text=text))
