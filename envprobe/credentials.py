"""What counts as a credential: by its name, by its value, in a text, in a command line."""

from __future__ import annotations

import fnmatch
import functools
import math
import re
from collections import Counter
from typing import Final

from envprobe import tables

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
    rb"|\b(?:set-)?cookie:\s{0,8}\S"
    rb"|\bsshpass\s{1,8}-p\s{0,8}\S)"
    rb"|(?<![^\s\"'])(?:-[uU]|--(?:proxy-)?user[ =])\s{0,8}(?!\d{1,9}:\d{1,9}(?![^\s\"']))"
    rb"[^\s:\"'/]{1,128}:[^\s\"'/]"
)
_TELLING_RUN: Final = re.compile(rb"(?P<pair>" + _TELLING_PAIRS.pattern + rb")\S*")
# A cookie is several words: all of its line is masked.
_COOKIE: Final = re.compile(rb"(?i)(\b(?:set-)?cookie['\"]?:\s{0,8})[^\r\n]+")
_BEFORE_SECRET: Final = re.compile(rb".*\s|.*[=:'\"]", re.S)
# `-p 8080:80`, `-p 22` and `mkdir -p ./x`: a port, a number or a path, and no password.
_NO_PASSWORD: Final = re.compile(r"[\d.:/]+(?:tcp|udp)?|[./~].*", re.S)
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
    if not (setting and _SETTING.fullmatch(value)) and is_telling_name(name):
        return True
    return not setting and _looks_random(value)


def is_telling_name(name: str) -> bool:
    """Return whether a name, of a variable or of an option, says that it holds a credential."""
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


def is_hidden_by(option: str, word: str) -> bool:
    """Return whether the option before a word of a command line makes it a credential."""
    if not option.startswith("-") or "=" in option or word.startswith("-"):
        return False
    if option == "-p":
        return not is_setting(word) and _NO_PASSWORD.fullmatch(word) is None
    if tells(f"{option} {word}"):
        return True
    return is_telling_name(option) and not is_setting(word)


def is_setting(text: str) -> bool:
    """Return whether a text is a number or a switch, which is no credential."""
    return _SETTING.fullmatch(text.encode("utf-8", "surrogatepass")) is not None


def tells(text: str) -> bool:
    """Return whether something in a text looks like a credential by itself."""
    raw = text.encode("utf-8", "surrogatepass")
    return bool(_TELLING_VALUES.search(raw) or _TELLING_PAIRS.search(raw))


def without_pairs(text: str) -> str:
    """Return text without the credentials that follow their name as words of their own."""

    def masked_pair(found: re.Match[bytes]) -> bytes:
        before = _BEFORE_SECRET.match(found["pair"])
        return (before[0] if before else b"") + b"<masked>"

    raw = _COOKIE.sub(rb"\1<masked>", text.encode("utf-8", "surrogatepass"))
    return _TELLING_RUN.sub(masked_pair, raw).decode("utf-8", "surrogatepass")
