"""What may be printed of a target: credentials masked, everything else made harmless.

Names, values, titles and paths come from processes that envprobe does not trust. What leaves this
module holds no control character, no terminal escape, no newline, no invisible or bidirectional
formatting character and no lone surrogate. What renderers print goes through `without_commands`.
"""

from __future__ import annotations

import fnmatch
import functools
import glob
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

from envprobe import tables
from envprobe.credentials import (
    is_hidden_by,
    is_secret,
    is_setting,
    is_telling_name,
    tells,
    without_pairs,
)
from envprobe.model import Sentence, Shown
from envprobe.pythonfacts import Datum, name_of, text_of
from envprobe.values import Value

VALUE_LIMIT: Final = 200
"""How many characters of one value a sentence or a table shows at most."""

NAME_LIMIT: Final = 120

DEFAULT_WANTED: Final[tuple[str, ...]] = tuple(
    row["pattern"] for row in tables.load("relevant-names")["wanted"]
)
"""Patterns (fnmatch) of the names that are read and shown by default: data/relevant-names.json."""


def is_wanted(name: str, patterns: Iterable[str]) -> bool:
    """Return whether `name` matches one of the patterns, upper and lower case told apart."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def pattern_of(name: str) -> str:
    """Return the pattern (fnmatch) that only this name matches, whatever characters are in it."""
    return glob.escape(name)


# --- what is masked ------------------------------------------------------------------------------


@functools.lru_cache(maxsize=16384)
def holds_secret(name: str, value: Value) -> bool:
    """Return `is_secret` of a Value, worked out once for equal values of one name."""
    return is_secret(name, value.reveal())


class Covered(Value):
    """A value that compares as ever and is shown by its length only."""

    __slots__ = ()

    @property
    def hidden(self) -> bool:
        """Always true."""
        return True

    def __eq__(self, other: object) -> bool:
        # Other kinds of values have a comparison of their own with a plain one.
        return Value(self.reveal(), length=self.length, digest=self.digest) == other

    __hash__ = Value.__hash__


# --- how it is shown -----------------------------------------------------------------------------

_PLAIN_VALUE: Final = re.compile(r"[A-Za-z0-9_./:,+=@%^~*-]+")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.%()\[\]/:+-]+")
_COMMAND_FIRST: Final = re.compile(r"^([^\S\n]*)::", re.M)
_COMMAND_ANYWHERE: Final = re.compile(r"##(?=\w*\[)")
_PASSWORD_PROGRAM: Final = re.compile(r"(?:mysql|mariadb)[\w-]*|sshpass")
_HIDDEN: Final = "SECRET"
"""The name of what the word before it makes a credential."""
_REORDERING: Final = frozenset(("R", "AL", "AN"))


def masked(length: int) -> str:
    """Return what stands for a masked value of `length` bytes; it says nothing about equality."""
    return f"<masked, {length} bytes>"


def show(name: str, value: Value, *, unmask: bool = False, limit: int | None = VALUE_LIMIT) -> str:
    """Return `value` as one printable line: bare if it is plain, else in double quotes.

    A credential gives `masked`; no value can look like it, since `<` is never bare. `limit` is in
    characters; None shows all that was read.
    """
    if value.hidden or (not unmask and holds_secret(name, value)):
        return masked(value.length)
    text = value.reveal().decode("utf-8", "surrogateescape")
    if not value.truncated and _PLAIN_VALUE.fullmatch(text) and _fits(text, limit):
        return text
    shown = text if limit is None else text[:limit]
    quoted = '"' + _escape(shown.replace("\\", "\\\\").replace('"', '\\"')) + '"'
    if value.truncated or not _fits(text, limit):
        return f"{quoted}... ({value.length} bytes)"
    return quoted


def show_name(name: str) -> str:
    """Return a variable's name as printable ASCII, in double quotes unless it is plain.

    Letters of other scripts are escaped: a Cyrillic A in NCCL_ALGO must be seen.
    """
    if len(name) <= NAME_LIMIT and _PLAIN_NAME.fullmatch(name):
        return name
    escaped = _escape(name[:NAME_LIMIT].replace("\\", "\\\\").replace('"', '\\"'), ascii_only=True)
    more = "" if len(name) <= NAME_LIMIT else f"... ({len(name)} characters)"
    return f'"{escaped}"{more}'


@functools.lru_cache(maxsize=16384)
def show_text(text: str, limit: int | None = None) -> str:
    """Return text from a target (a path, a state, a sentence's words) as one printable line.

    Words that look like credentials are masked. `limit` is in characters.
    """
    if tells(text):
        return _cut(without_pairs(show_command(text.split(" "))), limit)
    return _cut(_escape(text), limit)


def show_command(argv: Iterable[str], limit: int | None = None) -> str:
    """Return a command line or title as one printable line, its credentials masked.

    `argv` are the words of /proc/PID/cmdline; `limit` is in characters.
    """
    return _cut(_escape(" ".join(mask_words(word for word in argv if word))), limit)


def mask_words(words: Iterable[str]) -> list[str]:
    """Return the words of a command line with their credentials masked, nothing else changed.

    Masked are words that tell, the word after an option such as --api-key, and what its `=` gives,
    so are the word after `-p`, unless it can be no password, what follows `-p` in the same word
    where the program takes a password there, and `USER:PASSWORD` after `-u`.
    """
    shown: list[str] = []
    before = ""
    joined = False
    for word in words:
        option, equals, given = word.partition("=")
        telling = option.startswith("-") and is_telling_name(option)
        joined = joined or _PASSWORD_PROGRAM.fullmatch(word.rpartition("/")[2]) is not None
        if is_hidden_by(before, word):
            shown.append("<masked>")
        elif joined and word.startswith("-p") and len(word) > 2:
            shown.append("-p<masked>")
        elif telling and equals and not is_setting(given):
            shown.append(f"{option}=<masked>")
        else:
            shown.append("<masked>" if tells(word) else word)
        before = word if shown[-1] == word else ""
    return shown


def members_of(datum: Datum, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Datum]]:
    """Yield the members of a container, and the names that lead to each; both tell credentials.

    A name is a dict's key, a field's name, or the first of a pair. After an option such as
    --password, and for what tells by itself as a word, it is the option's.
    """
    keys: tuple[Datum | None, ...] = datum.keys or (None,) * len(datum.items)
    if datum.kind == "dict":
        for key, item in zip(keys, datum.items, strict=True):
            yield (*names, *name_of(key)), item
        return
    if len(datum.items) == 2 and not datum.keys and datum.items[0].kind in ("str", "bytes"):
        keys = (None, datum.items[0])
    hidden = _hides_words(text_of(item) or "" for item in datum.items)
    for key, item, hide in zip(keys, datum.items, hidden, strict=True):
        yield (*names, *name_of(key), *((_HIDDEN,) if hide else ())), item


def show_sentence(sentence: Sentence, *, unmask: bool = False) -> str:
    """Return a sentence as one printable line, its values shown or masked."""
    return "".join(
        show(part.name, part.value, unmask=unmask) if isinstance(part, Shown) else show_text(part)
        for part in sentence.parts
    )


def without_commands(lines: str) -> str:
    """Return lines of output in which no CI system finds a command to itself.

    GitHub's runner obeys a line that begins with `::`, blanks apart, and `##[` anywhere in a line
    (actions/runner src/Runner.Common/ActionCommand.cs); Azure Pipelines obeys `##vso[`, TeamCity
    `##teamcity[`. A line may have been broken in the middle of a value.
    """
    return _COMMAND_ANYWHERE.sub(r"#\\x23", _COMMAND_FIRST.sub(r"\1\\x3a:", lines))


def _fits(text: str, limit: int | None) -> bool:
    return limit is None or len(text) <= limit


def _hides_words(words: Iterable[str]) -> list[bool]:
    """Return of each word of what may be a command line whether all or part of it is masked."""
    given = list(words)
    return [shown != word for shown, word in zip(mask_words(given), given, strict=True)]


def _cut(text: str, limit: int | None) -> str:
    return text if limit is None or len(text) <= limit else text[: max(limit - 3, 0)] + "..."


def _escape(text: str, *, ascii_only: bool = False) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape_character(character, ascii_only) for character in text)


def _escape_character(character: str, ascii_only: bool) -> str:
    code = ord(character)
    if " " <= character <= "~":
        return character
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if not ascii_only and _is_harmless(character):
        return character
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    if named is not None:
        return named
    if code <= 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _is_harmless(character: str) -> bool:
    """Return whether a character beyond ASCII stays in its own cell, in reading order."""
    return (
        character.isprintable()
        and not unicodedata.category(character).startswith("M")
        and unicodedata.bidirectional(character) not in _REORDERING
    )
