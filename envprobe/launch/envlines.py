"""The words of Environment=, PassEnvironment= and UnsetEnvironment= (systemd.exec(5))."""

from __future__ import annotations

import re
from typing import Final

from envprobe.launch import specifiers, words
from envprobe.launch.specifiers import Scope
from envprobe.launch.types import Kind, Remark, Setting, Source
from envprobe.launch.unitfile import Assignment
from envprobe.values import Value

_DOLLAR: Final = re.compile(r"\$(?:\{?[A-Za-z_]|\()|`")
_SHELL_WORDS: Final = ("export", "set", "declare", "setenv")


class _Line:
    """One line, its words and what is remarkable about them."""

    def __init__(
        self, one: Assignment, scope: Scope, escapes: words.Escapes = words.Escapes.C
    ) -> None:
        self.one = one
        self.scope = scope
        self.split = words.split(one.value, escapes)
        self.remarks: list[Remark] = []
        if self.split.broken:
            about = f"{self.split.broken}: this word and the rest of the line are ignored"
            self.remark(Kind.WORDS_BROKEN, about)

    def remark(self, kind: Kind, about: str, *, name: str = "", text: bytes | None = None) -> None:
        value = None if text is None else Value(text)
        self.remarks.append(Remark(kind, self.one.place, about, name, value))

    def after(self, word: words.Word) -> str:
        """Return what follows a word that holds no quotes, without the blanks before it."""
        return self.one.value[word.start + len(word.text) :].lstrip(words.BLANKS)

    def resolved(self, word: words.Word) -> str | specifiers.UnknownError | None:
        """Return a word with its specifiers resolved; None where systemd drops it."""
        try:
            return specifiers.expand(word.text, self.scope)
        except specifiers.UnknownError as unknown:
            return unknown
        except specifiers.RefusedError as refused:
            about = f"{refused}, so the word is ignored; write %% for a percent sign"
            name = words.brief(word.raw)
            self.remark(Kind.SPECIFIER_REFUSED, about, name=name if words.is_name(name) else "")
            return None


def assignments(one: Assignment, scope: Scope) -> tuple[list[Setting], list[Remark]]:
    """Return what an Environment= line sets, and what of it is ignored or odd."""
    line = _Line(one, scope)
    found: list[Setting] = []
    before = ""
    for word in line.split.words:
        made = _assignment(line, word, before)
        if made is not None:
            found.append(made)
        before = _owner(line, word, before)
    return found, line.remarks


def _owner(line: _Line, word: words.Word, before: str) -> str:
    """Return the variable that the words after this one may have been meant for."""
    name, equals, _ = word.text.partition("=")
    if words.is_name(name) and (equals or line.after(word).startswith("=")):
        return name
    return before


def _assignment(line: _Line, word: words.Word, before: str) -> Setting | None:
    resolved = line.resolved(word)
    if resolved is None:
        return None
    name, equals, value = word.text.partition("=")
    if isinstance(resolved, specifiers.UnknownError):
        if not equals or not words.is_name(name):
            return None
        return Setting(name, None, Source.ENVIRONMENT, line.one.place, str(resolved))
    name, equals, value = resolved.partition("=")
    if not equals:
        line.remark(Kind.WORD_WITHOUT_EQUALS, _why(line, word, before), name=before, text=word.raw)
        return None
    if not words.is_name(name):
        about = "blanks around `=` make other words" if not name else "this is no variable's name"
        text = words.brief(word.raw).encode("utf-8", "surrogateescape")
        line.remark(Kind.WORD_BAD_NAME, f"the word is ignored: {about}", name=before, text=text)
        return None
    raw = value.encode("utf-8", "surrogateescape")
    if not words.is_text(raw):
        about = "the word is ignored: its value is no UTF-8"
        line.remark(Kind.WORD_BAD_VALUE, about, name=name, text=raw)
        return None
    _look(line, word, name, raw)
    return Setting(name, Value(raw), Source.ENVIRONMENT, line.one.place)


def _why(line: _Line, word: words.Word, before: str) -> str:
    """Say why a word without `=` may have got there."""
    if word.text in _SHELL_WORDS:
        return "the word is ignored: this is no shell line, and what follows counts without it"
    if word.raw.startswith(b"#"):
        return "a comment needs a line of its own: its words are ignored, or set variables"
    if words.is_name(word.text) and line.after(word).startswith("="):
        return "blanks around `=` make other words, all of them without meaning: nothing is set"
    if words.is_name(before):
        return (
            f"the word is ignored: a blank ends the value of {before}, unless the whole"
            " assignment is in quotes"
        )
    return "the word is ignored: it is no NAME=VALUE"


def _look(line: _Line, word: words.Word, name: str, raw: bytes) -> None:
    """Remark on a value that is handed over and may not be what was meant."""
    if _DOLLAR.search(raw.decode("utf-8", "replace")):
        about = "variables and commands are not expanded here: the text is handed over as it is"
        line.remark(Kind.DOLLAR, about, name=name, text=raw)
    found = specifiers.used(word.text)
    if found:
        about = f"systemd replaces {', '.join(found)} (write %% for a percent sign)"
        line.remark(Kind.SPECIFIER, f"{about}; handed over is", name=name, text=raw)


def names(one: Assignment, scope: Scope) -> tuple[list[str], list[Remark]]:
    """Return the names that a PassEnvironment= line passes on."""
    line = _Line(one, scope, words.Escapes.PLAIN)
    found = []
    for word in line.split.words:
        resolved = line.resolved(word)
        if isinstance(resolved, str) and words.is_name(resolved):
            found.append(resolved)
        elif isinstance(resolved, str):
            about = "the word is ignored: PassEnvironment= takes names only"
            line.remark(Kind.WORD_BAD_NAME, about, text=words.brief(word.raw).encode())
    return found, line.remarks


def removals(one: Assignment, scope: Scope) -> tuple[list[tuple[str, Value | None]], list[Remark]]:
    """Return what an UnsetEnvironment= line removes: names, or names with one value."""
    line = _Line(one, scope)
    found: list[tuple[str, Value | None]] = []
    for word in line.split.words:
        resolved = line.resolved(word)
        if not isinstance(resolved, str):
            continue
        name, equals, value = resolved.partition("=")
        if words.is_name(name):
            raw = Value(value.encode("utf-8", "surrogateescape"))
            found.append((name, raw if equals else None))
        else:
            about = "the word is ignored: UnsetEnvironment= takes names and assignments"
            line.remark(Kind.WORD_BAD_NAME, about, text=words.brief(word.raw).encode())
    return found, line.remarks
