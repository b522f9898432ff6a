"""The table of roles (`data/roles.json`): what a process is by its own title alone."""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import Any, Final

from envprobe import tables
from envprobe.process.tree import Member

_RANK: Final = re.compile(r"_([A-Za-z]+(?:_[A-Za-z]+)*?)(\d{1,6})(?=_|$)")
_NOTHING_MATCHES: Final = re.compile(r"(?!)")
_MAX_MATCHED: Final = 1 << 14
"""Arguments are matched in their first 16 KiB; what names a role stands at the front."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One row of the table of roles.

    `title` must match the whole first argument, `program` the whole base name of it, `arguments` a
    part of the rest joined by NULs; `comm` (cut by the kernel at 15 characters) counts only for a
    process without a title. `starts` says how its children that have no title yet come to be:
    "spawn", "fork", "forkserver" (they may still become workers), or "ranks" (they are workers).
    `launch` marks the process that stands for a whole launch, `neutral` a program whose children
    are not its own business (a shell, a wrapper, an unknown program), `adopts` one that becomes
    the parent of processes whose own has died.
    """

    framework: str
    role: str
    title: re.Pattern[str]
    program: re.Pattern[str]
    arguments: re.Pattern[str]
    comm: re.Pattern[str]
    titled: bool
    python: bool
    ranks: tuple[str, ...]
    worker: bool
    final: bool
    launch: bool
    starts: tuple[str, ...]
    worker_unless_parent_of: str
    tracker: bool
    forkserver: bool
    spawned: bool
    neutral: bool
    adopts: bool
    source: str


OTHER: Final = Row(
    framework="",
    role="other",
    title=_NOTHING_MATCHES,
    program=_NOTHING_MATCHES,
    arguments=_NOTHING_MATCHES,
    comm=_NOTHING_MATCHES,
    titled=False,
    python=False,
    ranks=(),
    worker=False,
    final=True,
    launch=False,
    starts=(),
    worker_unless_parent_of="",
    tracker=False,
    forkserver=False,
    spawned=False,
    neutral=True,
    adopts=False,
    source="",
)
PYTHON: Final = dataclasses.replace(OTHER, role="python", python=True)
_KERNEL_THREAD: Final = dataclasses.replace(OTHER, role="kernel thread")


def _row(raw: dict[str, Any]) -> Row:
    def pattern(key: str) -> re.Pattern[str]:
        return re.compile(raw[key]) if key in raw else _NOTHING_MATCHES

    return Row(
        framework=raw["framework"],
        role=raw["role"],
        title=pattern("title"),
        program=pattern("program"),
        arguments=pattern("arguments"),
        comm=pattern("comm"),
        titled="title" in raw,
        python=raw.get("python", False),
        ranks=tuple(raw.get("ranks", ())),
        worker=raw.get("worker", False),
        final=raw.get("final", True),
        launch=raw.get("launch", False),
        starts=tuple(raw.get("starts", ())),
        worker_unless_parent_of=raw.get("worker_unless_parent_of", ""),
        tracker=raw.get("tracker", False),
        forkserver=raw.get("forkserver", False),
        spawned=raw.get("spawned", False),
        neutral=raw.get("neutral", False),
        adopts=raw.get("adopts", False),
        source=raw["source"],
    )


@functools.cache
def rows() -> tuple[Row, ...]:
    """Return the table of roles, the row that wins first."""
    return tuple(_row(raw) for raw in tables.load("roles")["rows"])


def role_names() -> list[str]:
    """Return the names of all roles, sorted; no pattern is compiled for it, which takes 6 ms."""
    return sorted({raw["role"] for raw in tables.load("roles")["rows"]})


@functools.cache
def python_program() -> re.Pattern[str]:
    """Return the pattern of the base names under which a Python is started."""
    return re.compile(tables.load("roles")["python"])


def program(title: tuple[str, ...]) -> str:
    """Return the base name of the first argument, without a login shell's dash."""
    head = title[0].partition(": ")[0] if title else ""
    return head.rpartition("/")[2].lstrip("-")


def runs_python(member: Member) -> bool:
    """Return whether the process's executable or first argument names a Python."""
    names = [program(member.title), (member.exe or "").rpartition("/")[2]]
    return any(python_program().fullmatch(name.removesuffix(" (deleted)")) for name in names)


def row_of(member: Member) -> Row | None:
    """Return the first row of the table that recognises the process by itself, or None."""
    if member.kernel_thread:
        return _KERNEL_THREAD
    if not member.title:
        return next((row for row in rows() if row.comm.fullmatch(member.comm)), None)
    head, name = member.title[0][:_MAX_MATCHED], program(member.title)
    rest = "\0".join(("", *member.title[1:]))[:_MAX_MATCHED] + "\0"
    python = runs_python(member)
    for row in rows():
        if row.title.fullmatch(head) or row.program.fullmatch(name):
            return row
        if (python or not row.python) and row.arguments.search(rest):
            return row
    return None


def ranks_of(row: Row, title: tuple[str, ...]) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return the ranks that a title names, such as {"dp": 1, "tp": 3}, and the unknown parts."""
    match = row.title.fullmatch(title[0]) if title and row.ranks else None
    if match is None:
        return {}, ()
    parts = [(part.upper(), int(rank)) for part, rank in _RANK.findall(match["ranks"])]
    unknown = tuple(part for part, _ in parts if part not in row.ranks)
    return {part.lower(): rank for part, rank in parts}, unknown
