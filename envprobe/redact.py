"""What may be printed of a target: credentials masked, everything else made harmless.

Names, values, titles and paths come from processes that envprobe does not trust. What leaves this
module holds no control character, no terminal escape, no newline, no invisible or bidirectional
formatting character and no lone surrogate. What renderers print goes through `without_commands`.
"""

from __future__ import annotations

import fnmatch
import functools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from envprobe import tables
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


# --- what is a credential ------------------------------------------------------------------------

# Found anywhere in the name once its separators are gone: API_KEY, apiKey and MYAPIKEY alike.
_TELLING_PARTS: Final = re.compile(
    "SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|SERVICEACCOUNT|"
    "(?:API|ACCESS|PRIV|PRIVATE|SSH|AUTH|SIGNING|ENCRYPTION|ACCOUNT|MASTER|LICENSE)KEYS?"
)
# Found as a whole word of the name only: TOKENIZERS, MONKEY, AUTHOR and PATH are none of them.
_TELLING_WORDS: Final = re.compile(
    r"\w*TOKEN|TOKENS|KEYS?|O?AUTH|AUTHORIZATION|BEARER|COOKIES?|DSN|PWD|JWT|SAS|CONNSTR"
    r"|(?!(?:BY|COM|SUR|TRES|OVER|UNDER|MULTI|SINGLE|ONE|TWO)PASS)\w*PASS"
    r"|\w*PW|(?!SACRED)\w*CREDS?"
    r"|PATS?|SIG|SIGNATURE|PEM|NETRC|SALT|LICEN[SC]ES?"
)
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SETTING: Final = re.compile(
    rb"[-+]?\d{1,9}(?:\.\d{1,9})?|true|false|yes|no|on|off|none|auto", re.I
)

# Every alternative starts where a run of its characters starts, so that a hostile value of one
# megabyte costs one pass and no backtracking over the run.
_START: Final = rb"(?<![A-Za-z0-9_-])"
_TELLING_VALUES: Final = re.compile(
    rb"://[^/\s?#@]+@"
    # User and password without a scheme, as in a proxy's address; an image's digest is none.
    rb"|(?<![^\s,;=\"'])[A-Za-z0-9._~%+-]{1,128}:[^\s/@,;\"']{1,256}@(?!sha\d{3}:)"
    rb"[A-Za-z0-9\[][A-Za-z0-9.:-]{0,255}(?![^\s/,;\"'\]])"
    rb"|-----BEGIN "
    rb"|AGE-SECRET-KEY-1"
    rb"|" + _START + rb"(?:sk-[A-Za-z0-9_-]{8}|[srp]k_(?:live|test)_[A-Za-z0-9]{8})"
    rb"|" + _START + rb"(?:gh[pousr]_|github_pat_)[A-Za-z0-9_]{16}"
    rb"|" + _START + rb"glpat-[A-Za-z0-9_-]{16}"
    rb"|" + _START + rb"(?:hf|api_org)_[A-Za-z0-9]{16}"
    rb"|" + _START + rb"A(?:KI|SI)A[0-9A-Z]{12}"
    rb"|" + _START + rb"xox[abeoprs]-[A-Za-z0-9-]{8}"
    rb"|" + _START + rb"AIza[A-Za-z0-9_-]{30}"
    rb"|" + _START + rb"nvapi-[A-Za-z0-9_-]{16}"
    rb"|" + _START + rb"(?:npm_|pypi-|dckr_pat_|gsk_|xai-|r8_)[A-Za-z0-9_-]{16}"
    rb"|" + _START + rb"SG\.[A-Za-z0-9_-]{16}"
    rb"|" + _START + rb"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8}"
    rb"|hooks\.slack\.com/services/"
)
_TELLING_PAIRS: Final = re.compile(
    rb"(?i:\b(?:bearer|basic)\s{1,8}[A-Za-z0-9+/=._~-]{8}"
    rb"|(?:password|passwd|pwd|secret|(?:api|access|account|private)[_-]?key|authkey|signature)"
    rb"['\"]?\s{0,8}[=:]\s{0,8}['\"]?[^\s'\"&;,]"
    rb"|(?<![a-z])token['\"]?\s{0,8}[=:]\s{0,8}['\"]?(?!\d{1,9}(?![A-Za-z0-9]))[^\s'\"&;,]"
    rb"|--(?:api-key|password|token|secret|auth-token|hf-token)\s{1,8}\S"
    rb"|\bsshpass\s{1,8}-p\s{0,8}\S)"
    rb"|(?<![^\s\"'])(?:-[uU]|--(?:proxy-)?user[ =])\s{0,8}(?!\d{1,9}:\d{1,9}(?![^\s\"']))"
    rb"[^\s:\"'/]{1,128}:[^\s\"'/]"
)
_TELLING_RUN: Final = re.compile(rb"(?P<pair>" + _TELLING_PAIRS.pattern + rb")\S*")
_BEFORE_SECRET: Final = re.compile(rb".*\s|.*[=:'\"]", re.S)
# `-p 8080:80`, `-p 22` and `mkdir -p ./x`: a port, a number or a path, and no password.
_NO_PASSWORD: Final = re.compile(r"[\d.:/]+(?:tcp|udp)?|[./~].*", re.S)
_PASSWORD_PROGRAM: Final = re.compile(r"(?:mysql|mariadb)[\w-]*|sshpass")
_RUN: Final = re.compile(rb"(?<![A-Za-z0-9+_=-])[A-Za-z0-9+_=-]{24,}")
_BASE64: Final = re.compile(rb"[A-Za-z0-9+][A-Za-z0-9+/]{31,}={0,2}")
_HEX: Final = re.compile(rb"(?:[0-9a-f]{32,}|[0-9A-F]{32,})")
_HEX_VARIETY: Final = 8
_MAX_RUN: Final = 4096
_RANDOM_BITS: Final = 3.5
"""Shannon entropy per character above which a run of mixed characters counts as random."""


def is_secret(name: str, value: bytes) -> bool:
    """Return whether a variable looks like a credential, by its name or by its value.

    An empty value is none: that it is empty is what its reader needs to know.
    """
    if not value:
        return False
    setting = _is_tuning(name)
    if _TELLING_VALUES.search(value) or _TELLING_PAIRS.search(value):
        return True
    if not (setting and _SETTING.fullmatch(value)) and _is_telling_name(name):
        return True
    return not setting and _looks_random(value)


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


def _is_telling_name(name: str) -> bool:
    words = [word.upper() for word in _WORDS.findall(name)]
    if _TELLING_PARTS.search("".join(words)):
        return True
    # PWD and OLDPWD are directories, DB_PWD is none.
    if name in ("PWD", "OLDPWD"):
        return False
    return any(_TELLING_WORDS.fullmatch(word) for word in words)


@functools.lru_cache(maxsize=4096)
def _is_tuning(name: str) -> bool:
    rows = tables.load("relevant-names")["wanted"]
    return any(row["tuning"] and fnmatch.fnmatchcase(name, row["pattern"]) for row in rows)


def _looks_random(value: bytes) -> bool:
    if _BASE64.fullmatch(value) and _is_mixed(value):
        return True
    return any(
        (_HEX.fullmatch(run) is not None and len(set(run)) >= _HEX_VARIETY) or _is_mixed(run)
        for run in (found.group()[:_MAX_RUN] for found in _RUN.finditer(value))
    )


def _is_mixed(run: bytes) -> bool:
    """Return whether a run has digits, both cases, and as many different characters as chance."""
    run = run[:_MAX_RUN]
    digits = sum(48 <= byte <= 57 for byte in run)
    upper = sum(65 <= byte <= 90 for byte in run)
    lower = sum(97 <= byte <= 122 for byte in run)
    if digits < 1 or upper < 2 or lower < 2:
        return False
    counts = Counter(run).values()
    bits = -sum(count / len(run) * math.log2(count / len(run)) for count in counts)
    return bits >= _RANDOM_BITS


# --- how it is shown -----------------------------------------------------------------------------

_PLAIN_VALUE: Final = re.compile(r"[A-Za-z0-9_./:,+=@%^~*-]+")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.%()\[\]/:+-]+")
_COMMAND_FIRST: Final = re.compile(r"^([^\S\n]*)::", re.M)
_COMMAND_ANYWHERE: Final = re.compile(r"##(?=\w*\[)")
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
    if _tells(text):
        return _cut(_without_pairs(show_command(text.split(" "))), limit)
    return _cut(_escape(text), limit)


def show_command(argv: Iterable[str], limit: int | None = None) -> str:
    """Return a command line or title as one printable line, its credentials masked.

    `argv` are the words of /proc/PID/cmdline; `limit` is in characters.
    """
    return _cut(_escape(" ".join(_mask_words(word for word in argv if word))), limit)


def mask_words(argv: Iterable[str]) -> list[str]:
    """Return the words of a command line with their credentials masked, nothing else changed."""
    return _mask_words(argv)


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


def _mask_words(words: Iterable[str]) -> list[str]:
    """Mask words that tell, the word after an option such as --api-key, and what its `=` gives.

    So are the word after `-p`, unless it can be no password, what follows `-p` in the same word
    where the program takes a password there, and `USER:PASSWORD` after `-u`.
    """
    shown: list[str] = []
    before = ""
    joined = False
    for word in words:
        option, equals, given = word.partition("=")
        telling = option.startswith("-") and _is_telling_name(option)
        joined = joined or _PASSWORD_PROGRAM.fullmatch(word.rpartition("/")[2]) is not None
        if _is_hidden_by(before, word):
            shown.append("<masked>")
        elif joined and word.startswith("-p") and len(word) > 2:
            shown.append("-p<masked>")
        elif telling and equals and not _is_setting(given):
            shown.append(f"{option}=<masked>")
        else:
            shown.append("<masked>" if _tells(word) else word)
        before = word if shown[-1] == word else ""
    return shown


def _hides_words(words: Iterable[str]) -> list[bool]:
    """Return of each word of what may be a command line whether all or part of it is masked."""
    given = list(words)
    return [shown != word for shown, word in zip(_mask_words(given), given, strict=True)]


def _is_hidden_by(option: str, word: str) -> bool:
    """Return whether the option before a word of a command line makes it a credential."""
    if not option.startswith("-") or "=" in option or word.startswith("-"):
        return False
    if option == "-p":
        return not _is_setting(word) and _NO_PASSWORD.fullmatch(word) is None
    if _tells(f"{option} {word}"):
        return True
    return _is_telling_name(option) and not _is_setting(word)


def _is_setting(text: str) -> bool:
    return _SETTING.fullmatch(text.encode("utf-8", "surrogatepass")) is not None


def _tells(text: str) -> bool:
    raw = text.encode("utf-8", "surrogatepass")
    return bool(_TELLING_VALUES.search(raw) or _TELLING_PAIRS.search(raw))


def _without_pairs(text: str) -> str:
    """Return text without the credentials that follow their name as words of their own."""

    def masked_pair(found: re.Match[bytes]) -> bytes:
        before = _BEFORE_SECRET.match(found["pair"])
        return (before[0] if before else b"") + b"<masked>"

    raw = text.encode("utf-8", "surrogatepass")
    return _TELLING_RUN.sub(masked_pair, raw).decode("utf-8", "surrogatepass")


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
