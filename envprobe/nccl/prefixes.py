"""What stands in front of `NCCL INFO`: read backwards, from NCCL's own prefix to the launcher's.

NCCL writes `HOST:PID:TID [DEVICE]`, for a warning also its file, line and function (src/debug.cc
ncclDebugLog, 2.14 to 2.30). A time stamp before it is free text, and launchers put their own words
before all of it: data/nccl-prefixes.json lists them.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from typing import Final

from envprobe import tables
from envprobe.nccl.facts import Witness

_CORE: Final = re.compile(
    rb"(?P<host>[^\s:|\]>)}`\x22\x27]{0,255}):(?P<pid>\d{1,10}):(?P<tid>\d{1,10})"
    rb"(?: ?\[(?P<device>-?\d{1,10})\])?(?: \d+\.\d+)?"
    rb"(?: (?P<where>[^\s:]+:\d+)(?: \((?P<function>[^()\n]*)\))?)?\s*$"
)
MARK: Final = re.compile(rb"NCCL(?<![^ ]NCCL) (INFO|WARN|ATTN|CALL|TRACE)(?: |$)")
"""The mark of a message, with the blank behind it. ATTN is new in 2.32.

It begins with its letters, which makes it ten times as fast as with the blank before them.
"""

STAMPED: Final = re.compile(
    rb"(?:(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,]*(?:Z|[+-]\d\d:?\d\d)?) "
    rb"(?:std(?:out|err) [FP] )?|\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[\d.]*)\] )"
)
"""The usual times in front of a line: of containers, of CRI, and of NCCL itself."""

_STAMP: Final = re.compile(rb"\d[^\s]*\d")


@dataclasses.dataclass(frozen=True, slots=True)
class Prefix:
    """What one prefix says; `host` is None where NCCL's own part is missing.

    `start` is where NCCL's part begins in the bytes that were read. `identity` are the launcher's
    fields that tell processes apart. `lasting` is false if the bytes change from line to line,
    apart from a time that STAMPED matches. `launchers` names the rows of the table that were found.
    """

    start: int
    host: str | None = None
    pid: int = 0
    tid: int = 0
    device: int | None = None
    where: str = ""
    function: str = ""
    stamp: str = ""
    witnesses: tuple[Witness, ...] = ()
    identity: tuple[str, ...] = ()
    quoted: bool = False
    stray: bytes = b""
    lasting: bool = True
    launchers: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Launchers:
    """What launchers wrote at the start of a line; `rest` is what no row explains."""

    witnesses: tuple[Witness, ...]
    identity: tuple[str, ...]
    stamp: str
    rest: bytes
    quoted: bool
    names: tuple[str, ...] = ()


@functools.cache
def _rows() -> tuple[tuple[str, re.Pattern[bytes], tuple[str, ...]], ...]:
    rows = tables.load("nccl-prefixes")["rows"]
    return tuple(
        (row["name"], re.compile(row["pattern"].encode()), tuple(row.get("identity", ())))
        for row in rows
    )


def launchers(left: bytes) -> Launchers:
    """Return what the rows of the table find, one after the other, from the start of `left`."""
    witnesses: list[Witness] = []
    identity: list[str] = []
    stamp = ""
    quoted = False
    names: list[str] = []
    rest = left.lstrip()
    while rest and (found := _row(rest)) is not None:
        name, match, telling = found
        fields = {key: os.fsdecode(value) for key, value in match.groupdict().items() if value}
        stamp = fields.pop("stamp", stamp)
        quoted = quoted or name == "markdown code"
        names.append(name)
        if fields:
            witnesses.append(Witness(name, tuple(fields.items())))
        identity += [f"{name} {key} {fields[key]}" for key in telling if key in fields]
        rest = rest[match.end() :]
    return Launchers(tuple(witnesses), tuple(identity), stamp, rest, quoted, tuple(names))


def _row(rest: bytes) -> tuple[str, re.Match[bytes], tuple[str, ...]] | None:
    for name, pattern, telling in _rows():
        match = pattern.match(rest)
        if match is not None:
            return name, match, telling
    return None


def read(head: bytes, inside: Prefix | None = None) -> Prefix:
    """Return what the bytes in front of a mark say.

    `inside` is the prefix of the line, if the mark is a later one in it: the launcher's words are
    then those of the line, and what stands before NCCL's own part is another message's text.
    """
    # NCCL's own prefix is far shorter than its whole line of 1024 bytes.
    core = _CORE.search(head, max(0, len(head) - 1024))
    if inside is not None:
        found = Launchers(inside.witnesses, inside.identity, inside.stamp, b"", inside.quoted)
    else:
        found = launchers(head[:1024] if core is None else head[: core.start()])
    rest = found.rest.strip()
    stamp = found.stamp
    if not stamp and rest and _STAMP.search(rest):
        stamp = os.fsdecode(rest.strip(b"[]() "))
    if core is None:
        return Prefix(
            len(head),
            stamp=stamp,
            witnesses=found.witnesses,
            identity=found.identity,
            quoted=found.quoted,
            lasting=False,
            launchers=found.names,
        )
    device = core["device"]
    only_time = not found.stamp or STAMPED.match(head) is not None
    lasting = not found.rest and core["where"] is None and only_time
    return Prefix(
        core.start(),
        os.fsdecode(core["host"]),
        int(core["pid"]),
        int(core["tid"]),
        None if device is None else int(device),
        os.fsdecode(core["where"] or b""),
        os.fsdecode(core["function"] or b""),
        stamp,
        found.witnesses,
        found.identity,
        found.quoted,
        found.rest,
        lasting,
        found.names,
    )
