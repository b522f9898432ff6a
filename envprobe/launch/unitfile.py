"""The lines of a unit file or drop-in: sections, keys, continuation (systemd.syntax(7))."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterator
from typing import Final

from envprobe.launch import words
from envprobe.launch.types import Kind, Place, Remark
from envprobe.values import Value

MAX_BYTES: Final = 4 << 20
_MAX_LINE: Final = 1 << 20
# systemd ends a line at any of the three, or at one of each in a row.
_END: Final = re.compile(rb"\n\r?\0?|\r\n?\0?|\0")
_MARK: Final = b"\xef\xbb\xbf"
SECTIONS: Final = ("Unit", "Service", "Install")

READ: Final = (
    "Environment",
    "EnvironmentFile",
    "PassEnvironment",
    "UnsetEnvironment",
    "ExecStart",
    "ExecSearchPath",
    "Type",
    "User",
    "Group",
    "WorkingDirectory",
    "RootDirectory",
    "PAMName",
)
"""The keys of [Service] that decide what is handed over."""

_ALSO_REAL: Final = (
    *("ExecStartPre", "ExecStartPost", "ExecStop", "ExecStopPost", "ExecReload", "ExecCondition"),
    *("RootImage", "RuntimeDirectory", "StateDirectory", "TTYPath"),
)
"""Keys of systemd that resemble those."""

_ALIKE: Final = 0.85


@dataclasses.dataclass(frozen=True, slots=True)
class Assignment:
    """One `key=value` of a section; the value is one line, its continuations joined."""

    section: str
    key: str
    value: str
    place: Place


@dataclasses.dataclass(frozen=True, slots=True)
class UnitFile:
    """What one file says."""

    path: str
    assignments: tuple[Assignment, ...]
    remarks: tuple[Remark, ...]


def parse(path: str, raw: bytes) -> UnitFile:
    """Parse a unit file; what is ignored becomes a remark.

    Where systemd stops reading (a broken section header, no UTF-8) it refuses a unit, and keeps
    what came before in a drop-in (measured with systemd 252).
    """
    parser = _Parser(path)
    for number, line in _logical(raw):
        if not parser.take(line, Place(path, number)):
            break
    return UnitFile(path, tuple(parser.assignments), tuple(parser.remarks))


def _logical(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield each line with its number, that of the first one where several are joined.

    Comments between joined lines are left out; the backslash at a line's end becomes a blank.
    """
    lines = _END.split(raw.removeprefix(_MARK))
    if lines and not lines[-1]:
        lines.pop()
    joined, first = b"", 0
    for number, line in enumerate(lines, 1):
        if line.lstrip(b" \t\n\r").startswith((b"#", b";")):
            continue
        first = first or number
        joined += line
        if (len(joined) - len(joined.rstrip(b"\\"))) % 2:
            joined = joined[:-1] + b" "
            continue
        yield first, joined
        joined, first = b"", 0
    # systemd 252 does parse a last line that ends with a backslash.
    if joined:
        yield first, joined


class _Parser:
    def __init__(self, path: str) -> None:
        self.path = path
        self.section = ""
        self.ignored = False
        self.assignments: list[Assignment] = []
        self.remarks: list[Remark] = []

    def take(self, raw: bytes, place: Place) -> bool:
        """Take one line; False where systemd stops reading the file."""
        if len(raw) > _MAX_LINE:
            self.remark(Kind.LINE_TOO_LONG, place, "a line is longer than 1 MiB")
            return False
        stripped = raw.strip(b" \t\n\r")
        if not stripped:
            return True
        if not words.is_text(stripped):
            about = "the line is no UTF-8: neither it nor anything after it is read"
            self.remark(Kind.LINE_NOT_UTF8, place, about)
            return False
        line = stripped.decode("utf-8")
        if line.startswith("["):
            return self.header(line, place)
        self.assign(line, place)
        return True

    def header(self, line: str, place: Place) -> bool:
        if not line.endswith("]"):
            about = "a section header without its closing bracket: nothing after it is read"
            self.remark(Kind.SECTION_BROKEN, place, about)
            return False
        self.section = line[1:-1]
        known = self.section in SECTIONS
        self.ignored = not known
        if not known and not self.section.startswith("X-"):
            about = "the section does not exist in a service, and all its lines are ignored"
            self.remark(Kind.SECTION_UNKNOWN, place, about, text=line)
        return True

    def assign(self, line: str, place: Place) -> None:
        if self.ignored:
            return
        if not self.section:
            about = "the line stands before any section, and is ignored"
            self.remark(Kind.LINE_OUTSIDE_SECTION, place, about, text=line.partition("=")[0])
            return
        key, equals, value = line.partition("=")
        key = key.strip(words.BLANKS)
        if not equals or not key:
            about = "the line is no KEY=VALUE, and is ignored"
            self.remark(Kind.LINE_WITHOUT_EQUALS, place, about)
            return
        if self.section == "Service":
            self.known(key, place)
        elif key in READ:
            about = f"{key}= counts in [Service] only; in [{self.section}] it is ignored"
            self.remark(Kind.LINE_IN_OTHER_SECTION, place, about)
        value = value.strip(words.BLANKS)
        self.assignments.append(Assignment(self.section, key, value, place))

    def known(self, key: str, place: Place) -> None:
        """Remark on a key that resembles one of those read here and does not exist."""
        if key in READ or key in _ALSO_REAL:
            return
        by_case = [one for one in READ if one.lower() == key.lower()]
        near = by_case or difflib.get_close_matches(key, READ, n=1, cutoff=_ALIKE)
        if near:
            about = f"there is no key of this name, and the line is ignored; {near[0]}= is meant?"
            self.remark(Kind.KEY_UNKNOWN, place, about, text=key)

    def remark(self, kind: Kind, place: Place, about: str, text: str | None = None) -> None:
        made = None if text is None else Value(text.encode("utf-8", "surrogateescape"))
        self.remarks.append(Remark(kind, place, about, text=made))
