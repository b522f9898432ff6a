"""NCCL's configuration files, read as NCCL reads them.

Source: github.com/NVIDIA/nccl, src/misc/param.cc initEnvFunc and setEnvFile, tags 2.18.1 to 2.30.7.
NCCL puts the values into the environment without overwriting, so that the log shows them as `set by
environment`; neither os.environ nor /proc/PID/environ shows them.
"""

from __future__ import annotations

import dataclasses
import enum
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from envprobe.nccl.params import Version
from envprobe.values import Value

SYSTEM: Final = "/etc/nccl.conf"
MAX_BYTES: Final = 1 << 20
"""A longer file is refused; NCCL itself has no limit."""

_COMMENTS: Final = (2, 26, 2)
_CHUNKS: Final = (2, 30, 3)
"""From here on lines are read with a buffer, and a carriage return at their end is removed."""
_HOME_VARIABLE: Final = (2, 30, 3)
_NAMED_FILE: Final = (2, 23, 4)
_BUFFER: Final = 4095
_LONGEST: Final = 1023

Open = Callable[[str], bytes]
"""Returns the bytes of a file of the process's own root; raises FileNotFoundError or OSError."""


class Oddity(str, enum.Enum):
    """What is remarkable about a line.

    IGNORED: no `=`, so it sets nothing. COMMENT: begins with `#` and sets a variable of that name
    all the same (before 2.26.2). EXPORT: `export` becomes a part of the name. BLANK_IN_NAME,
    TRAILING_BLANK, QUOTED, CARRIAGE_RETURN: taken as part of the name or value. TRAILING_COMMENT:
    `# ...` after a value is part of it. CUT: longer than NCCL's buffer. AGAIN: an earlier line
    already set this name, and the first one counts. EMPTY_NAME: nothing is set.
    """

    IGNORED = "ignored"
    COMMENT = "comment"
    EXPORT = "export"
    BLANK_IN_NAME = "blank_in_name"
    TRAILING_BLANK = "trailing_blank"
    TRAILING_COMMENT = "trailing_comment"
    QUOTED = "quoted"
    CARRIAGE_RETURN = "carriage_return"
    CUT = "cut"
    AGAIN = "again"
    EMPTY_NAME = "empty_name"


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """One line that is neither empty nor a comment: what it sets, and what is odd about it.

    `name` is the name that the environment gets, "" with `value` None where nothing is set;
    `meant` is the name without what does not belong to it.
    """

    number: int
    name: str
    value: Value | None
    meant: str
    oddities: tuple[Oddity, ...] = ()


class State(str, enum.Enum):
    """Whether a file could be read."""

    READ = "read"
    ABSENT = "absent"
    UNREADABLE = "unreadable"


@dataclasses.dataclass(frozen=True, slots=True)
class File:
    """One configuration file, in the order in which NCCL reads them."""

    path: str
    state: State
    lines: tuple[Line, ...] = ()
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """A value that a file puts into the environment."""

    name: str
    value: Value
    path: str
    line: int


def paths(version: Version | None, environment: Mapping[str, str], home: str | None) -> list[str]:
    """Return the files that this version reads, in its order.

    `environment` is that of the process, `home` its user's in the password database, which counts
    up to 2.29 (HOME does from 2.30.3 on). Without a version both homes are named.
    """
    named = environment.get("NCCL_CONF_FILE", "")
    if named and (version is None or version >= _NAMED_FILE):
        return [named, SYSTEM]
    homes = [home, environment.get("HOME")]
    if version is not None:
        homes = homes[1:] if version >= _HOME_VARIABLE else homes[:1]
    found = [f"{one}/.nccl.conf" for one in homes if one is not None]
    return [*dict.fromkeys(found), SYSTEM]


def load(files: Iterable[str], version: Version | None, opened: Open) -> tuple[File, ...]:
    """Return these files as NCCL reads them; what cannot be read is said and not taken for absent.

    Without a version the rules of the newest one that is known count.
    """
    return tuple(_load(path, version, opened) for path in files)


def _load(path: str, version: Version | None, opened: Open) -> File:
    try:
        data = opened(path)
    except FileNotFoundError:
        return File(path, State.ABSENT)
    except OSError as error:
        return File(path, State.UNREADABLE, reason=error.strerror or str(error))
    if len(data) > MAX_BYTES:
        return File(path, State.UNREADABLE, reason=f"it is longer than {MAX_BYTES} bytes")
    return File(path, State.READ, parse(data, version))


def settings(files: Iterable[File], environment: Mapping[str, str]) -> dict[str, Setting]:
    """Return what the files put into an environment that has these variables already."""
    found: dict[str, Setting] = {}
    for file in files:
        for line in file.lines:
            if line.value is not None and line.name not in environment and line.name not in found:
                found[line.name] = Setting(line.name, line.value, file.path, line.number)
    return found


# --- the grammar ---------------------------------------------------------------------------------


def parse(data: bytes, version: Version | None) -> tuple[Line, ...]:
    """Return the lines of a file, without empty lines and comments."""
    seen: set[str] = set()
    found = []
    for number, raw in _lines(data, version):
        line = _line(number, raw, version)
        if line is None:
            continue
        if line.value is not None and line.name in seen:
            line = dataclasses.replace(line, oddities=(*line.oddities, Oddity.AGAIN))
        seen.add(line.name)
        found.append(line)
    return tuple(found)


def _lines(data: bytes, version: Version | None) -> Iterator[tuple[int, bytes]]:
    """Yield what NCCL takes for lines, each with the number of the line in the file."""
    chunked = version is None or version >= _CHUNKS
    for number, whole in enumerate(data.split(b"\n"), 1):
        # A longer line than the buffer of fgets goes on as the next one.
        size = _BUFFER if chunked else max(len(whole), 1)
        for start in range(0, max(len(whole), 1), size):
            part = whole[start : start + size].split(b"\0", 1)[0]
            yield number, part.removesuffix(b"\r") if chunked else part


def _line(number: int, raw: bytes, version: Version | None) -> Line | None:
    comments = version is None or version >= _COMMENTS
    if not raw.strip() or (comments and raw.startswith(b"#")):
        return None
    if not comments and raw.lstrip().startswith(b"#") and b"=" not in raw:
        return None
    left, equals, right = raw.partition(b"=")
    name, value = left[:_LONGEST], right[:_LONGEST]
    oddities = tuple(_odd(name, value, equals=bool(equals), cut=(name, value) != (left, right)))
    text = os.fsdecode(name)
    meant = re.sub(r"\A#?\s*(?:export\s+)?|\s+\Z", "", text)
    if not equals or not name:
        return Line(number, "", None, meant, oddities)
    return Line(number, text, Value(value), meant, oddities)


def _odd(name: bytes, value: bytes, *, equals: bool, cut: bool) -> Iterator[Oddity]:
    if not equals:
        yield Oddity.IGNORED
        return
    if not name:
        yield Oddity.EMPTY_NAME
    yield from _odd_name(name)
    ends = value.rstrip(b" \t\r")
    if value.endswith(b"\r"):
        yield Oddity.CARRIAGE_RETURN
    if value.rstrip(b"\r") != ends:
        yield Oddity.TRAILING_BLANK
    if re.search(rb"\s#", value):
        yield Oddity.TRAILING_COMMENT
    if ends[:1] in (b"'", b'"') or ends[-1:] in (b"'", b'"'):
        yield Oddity.QUOTED
    if cut:
        yield Oddity.CUT


def _odd_name(name: bytes) -> Iterator[Oddity]:
    if name.startswith(b"#"):
        yield Oddity.COMMENT
    elif re.match(rb"\s*export\s", name):
        yield Oddity.EXPORT
    elif name != name.strip():
        yield Oddity.BLANK_IN_NAME
