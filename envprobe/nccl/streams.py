"""The bytes of log files, in blocks of whole lines: plain, compressed, globs, the standard input.

What stands in a message's way is undone here, and line numbers stay those of the file: terminal
colours, carriage returns, non-breaking blanks, the JSON of docker, the parts of CRI.
"""

from __future__ import annotations

import dataclasses
import errno
import glob
import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from typing import IO, Any, Final

from envprobe.errors import UsageError
from envprobe.nccl import archives

BLOCK: Final = 1 << 17
"""Bytes read at a time: a block and the objects of its lines stay in the processor's cache."""

MAX_LINE: Final = 1 << 20
"""A longer line is handed on in pieces."""

_REMEDY: Final = "Name log files of NCCL, or - for the standard input."
_ANSI: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_RETURNS: Final = re.compile(rb"\r+(?=\n|\Z)")
_JSON_TEXTS: Final = ("log", "message", "msg", "line", "text")
_JSON_TIMES: Final = ("time", "timestamp", "ts", "@timestamp")
_CRI: Final = re.compile(
    rb"(\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) std(?:out|err)) ([FP])(?::\w+)* (.*)", re.DOTALL
)


@dataclasses.dataclass(slots=True)
class Stream:
    """An open log: what was found while its `blocks` were taken.

    `size` counts the bytes as stored. `broken` says why it could not be read to its end.
    """

    name: str
    handle: IO[bytes]
    size: int = 0
    lines: int = 0
    compression: str = ""
    envelope: str = ""
    broken: str = ""
    _begun: bool = False
    _carried: dict[bytes, bytes] = dataclasses.field(default_factory=dict)

    def blocks(self) -> Iterator[tuple[bytes, int, int]]:
        """Yield bytes with the bounds of the whole lines in them; the last line may be cut.

        Bounds, so that what was read is not copied: most of a server's log is only searched.
        """
        rest = b""
        for part in self._parts():
            start = part.find(b"\n") + 1
            if not start and len(rest) + len(part) < MAX_LINE:
                rest += part
                continue
            if rest or not start:
                start = start or len(part)
                yield from self._unwrapped(rest + part[:start])
            else:
                start = 0
            end = max(part.rfind(b"\n") + 1, start)
            rest = part[end:]
            if end == start:
                continue
            if self.envelope or not self._begun:
                yield from self._unwrapped(part[start:end])
            else:
                yield part, start, end
        if rest:
            yield from self._unwrapped(rest)

    def _unwrapped(self, block: bytes) -> Iterator[tuple[bytes, int, int]]:
        if not self._begun:
            self._begun = True
            self.envelope = _envelope(block)
        if self.envelope in ("docker json-file", "JSON"):
            block = b"\n".join(map(_from_json, block.split(b"\n")))
        elif self.envelope == "CRI":
            lines = block.split(b"\n")
            block = b"\n".join(_from_cri(line, self._carried) for line in lines)
        yield block, 0, len(block)

    def close(self) -> None:
        """Close the file, but never the standard input."""
        if self.name != "-":
            self.handle.close()

    def _parts(self) -> Iterator[bytes]:
        first = self._read()
        while 0 < len(first) < archives.LONGEST_MAGIC and (more := self._read()):
            first += more
        self.compression = archives.kind_of(first)
        parts = self._from(first)
        if not self.compression:
            yield from parts
            return
        try:
            yield from archives.unpacked(self.compression, parts, self.name, BLOCK)
        except archives.Damaged as damaged:
            self.broken = self.broken or str(damaged)

    def _from(self, part: bytes) -> Iterator[bytes]:
        while part:
            yield part
            part = self._read()

    def _read(self) -> bytes:
        try:
            part = self.handle.read(BLOCK)
        except OSError as error:
            reason = os.strerror(error.errno or errno.EIO)
            if not self.size:
                raise UsageError(f"{self.name} cannot be read: {reason}", _REMEDY) from None
            self.broken = reason
            return b""
        self.size += len(part)
        return part


def clean(text: bytes) -> bytes:
    """Return text without terminal colours, carriage returns and non-breaking blanks."""
    if b"\x1b" in text:
        text = _ANSI.sub(b"", text)
    if b"\r" in text:
        text = _RETURNS.sub(b"", text)
    if b"\xc2" in text:
        text = text.replace(b"\xc2\xa0", b" ")
    return text


def _envelope(block: bytes) -> str:
    first = block.partition(b"\n")[0]
    if (entry := _entry(first)) is not None:
        return "docker json-file" if {"log", "stream", "time"} <= entry.keys() else "JSON"
    return "CRI" if _CRI.match(block) else ""


def _entry(line: bytes) -> dict[str, Any] | None:
    """Return what a line of JSON holds; None if it is no object with a text."""
    if not line.startswith(b"{"):
        return None
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if any(isinstance(entry.get(name), str) for name in _JSON_TEXTS) else None


def _from_json(line: bytes) -> bytes:
    """Return time and text of one line of a container runtime; the line itself if it is none."""
    entry = _entry(line)
    if entry is None:
        return line
    text = next(entry[name] for name in _JSON_TEXTS if isinstance(entry.get(name), str))
    stamp = next((entry[name] for name in _JSON_TIMES if isinstance(entry.get(name), str)), "")
    whole = f"{stamp} {text}".encode("utf-8", "replace")
    return whole.rstrip(b"\r\n").replace(b"\n", b" ")


def _from_cri(line: bytes, carried: dict[bytes, bytes]) -> bytes:
    """Return a line without its parts: a P line is held back for the F line of its stream."""
    match = _CRI.match(line)
    if match is None:
        return line
    stamp, tag, text = match.groups()
    stream = stamp.rpartition(b" ")[2]
    joined = carried.pop(stream, b"") + text
    if tag == b"P" and len(joined) < MAX_LINE:
        carried[stream] = joined
        return b""
    return stamp + b" F " + joined


def expand(names: Iterable[str]) -> list[str]:
    """Return the files that names and globs stand for, each once; `-` is the standard input.

    Raises UsageError where there is no such file.
    """
    found: dict[Any, str] = {}
    for name in names:
        paths = [name] if name == "-" or os.path.lexists(name) else _matching(name)
        if not paths:
            raise UsageError(f"there is no file {name}", _REMEDY)
        for path in paths:
            found.setdefault(_identity(path), path)
    return list(found.values())


def _matching(pattern: str) -> list[str]:
    # `*` also finds the directories beside the logs; to name one is a mistake.
    found = glob.glob(pattern, recursive=True)
    return sorted(path for path in found if not os.path.isdir(path))


def _identity(path: str) -> Any:
    if path == "-":
        return path
    try:
        status = os.stat(path)
    except OSError:
        return path
    return (status.st_dev, status.st_ino)


def open_stream(name: str) -> Stream:
    """Open one log; raises UsageError if it cannot be read or is neither a file nor a pipe.

    A FIFO is read to its end, as the standard input is.
    """
    if name == "-":
        return Stream(name, sys.stdin.buffer)
    try:
        handle = open(name, "rb", buffering=0)  # noqa: SIM115 (Stream.close closes it)
    except (OSError, ValueError) as error:
        reason = os.strerror(getattr(error, "errno", None) or errno.EINVAL)
        raise UsageError(f"{name} cannot be read: {reason}", _REMEDY) from None
    mode = os.fstat(handle.fileno()).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        handle.close()
        raise UsageError(f"{name} is neither a file nor a pipe", _REMEDY)
    return Stream(name, handle)
