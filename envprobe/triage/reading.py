"""Reading a log file or the standard input: whole, or of a very large one its head and its tail."""

from __future__ import annotations

import codecs
import collections
import dataclasses
import errno
import os
import stat
import sys
from collections.abc import Iterator
from typing import IO, Any, Final, cast

from envprobe.errors import UndeterminedError, UsageError
from envprobe.nccl import archives, streams
from envprobe.triage import table
from envprobe.triage.facts import Kind, Line, Log
from envprobe.triage.peeling import peel
from envprobe.triage.scan import Scanner

HEAD: Final = 32 << 20
"""Bytes read at the beginning of a log that is larger than both bounds together."""

TAIL: Final = 64 << 20
"""Bytes read at its end."""

MAX_TEXT: Final = 8192
"""Bytes of one line that are looked at."""

_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_REMEDY: Final = "Name the log of the server, --unit NAME, or - for the standard input."


@dataclasses.dataclass(frozen=True, slots=True)
class _Chunk:
    """Bytes of a log; `number` is that of its first line, 0 if unknown, `offset` where it begins.

    `continued` says that its first bytes belong to a line that began before.
    """

    data: bytes
    number: int
    offset: int
    continued: bool
    behind_gap: bool = False


class _Window:
    """The bytes of a file from one place to another, read as from a file of their own."""

    def __init__(self, handle: IO[bytes], start: int, end: int) -> None:
        handle.seek(start)
        self._handle = handle
        self._left = end - start

    def read(self, size: int) -> bytes:
        part = self._handle.read(min(size, self._left))
        self._left -= len(part)
        return part

    def close(self) -> None:
        self._left = 0


class _Utf8:
    """A file as UTF-8: one that begins with the mark of UTF-16 is decoded on the way."""

    def __init__(self, handle: IO[bytes]) -> None:
        self._handle = handle
        self._decoder: codecs.IncrementalDecoder | None = None
        self._begun = False

    def read(self, size: int) -> bytes:
        part = self._handle.read(size)
        if not self._begun and part:
            self._begun = True
            if part.startswith(_UTF_16):
                self._decoder = codecs.getincrementaldecoder("utf-16")("replace")
        if self._decoder is None:
            return part
        while part and not (text := self._decoder.decode(part)):
            part = self._handle.read(size)
        return text.encode("utf-8", "replace") if part else b""

    def close(self) -> None:
        self._handle.close()


def read(name: str, *, kind: Kind = Kind.FILE) -> Log:
    """Return what a log file says; `-` is the standard input.

    Raises UsageError if there is no such file or it is no file, UndeterminedError if it may not be
    read. A FIFO is read to its end.
    """
    if name == "-":
        if sys.stdin is None:
            raise UsageError("the standard input is closed", _REMEDY)
        return _scanned("the standard input", Kind.STDIN, sys.stdin.buffer, 0)
    handle, size = _opened(name)
    with handle:
        return _scanned(name, kind, handle, size)


def _opened(name: str) -> tuple[IO[bytes], int]:
    try:
        # O_NONBLOCK: a device that a log's name leads to must not be waited for.
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except PermissionError:
        raise UndeterminedError(
            f"{name} may not be read", "Run envprobe as root, or as a user who may read it."
        ) from None
    except (OSError, ValueError) as error:
        reason = os.strerror(getattr(error, "errno", None) or errno.EINVAL)
        raise UsageError(f"{name} cannot be read: {reason}", _REMEDY) from None
    status = os.fstat(descriptor)
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)):
        os.close(descriptor)
        raise UsageError(f"{name} is neither a file nor a pipe", _REMEDY)
    os.set_blocking(descriptor, True)
    return open(descriptor, "rb", buffering=0), status.st_size


def _scanned(name: str, kind: Kind, handle: IO[bytes], size: int) -> Log:
    scanner = Scanner()
    reader = _Reader(name, handle, size)
    gap = 0
    for chunk in reader.chunks():
        if chunk.behind_gap:
            gap = reader.order + 1
        if scanner.idle and not table.tells(streams.clean(chunk.data)):
            reader.order += _begun(chunk)
            scanner.skip()
            continue
        for line in reader.lines(chunk):
            scanner.feed(line)
    return Log(
        name=name,
        kind=kind,
        lines=reader.order,
        size=reader.size,
        occurrences=scanner.occurrences(),
        marks=tuple(scanner.marks),
        strange=tuple(scanner.strange),
        counts=dict(scanner.counts),
        left_out=reader.left_out,
        gap=gap,
        binary=reader.binary,
        envelope=reader.envelope,
        broken=reader.broken,
    )


class _Reader:
    """Takes a log apart into lines; what was found on the way is in its attributes."""

    def __init__(self, name: str, handle: IO[bytes], size: int) -> None:
        self._name = name
        self._handle = handle
        self._file_size = size
        self.size = 0
        self.left_out = 0
        self.binary = False
        self.envelope = ""
        self.broken = ""
        self.order = 0

    def lines(self, chunk: _Chunk) -> Iterator[Line]:
        """Yield the lines of a chunk."""
        for number, offset, raw in _split(chunk):
            self.order += 1
            yield _line(raw, number, offset, self.order)

    def chunks(self) -> Iterator[_Chunk]:
        """Yield all of the log, or its head and its tail."""
        large = self._file_size > HEAD + TAIL and not self._is_encoded()
        for chunk in self._head_and_tail() if large else self._streamed():
            self.binary = self.binary or b"\0" in chunk.data
            yield chunk

    def _is_encoded(self) -> bool:
        """Return whether only its beginning tells how to read the rest."""
        first = self._handle.read(archives.LONGEST_MAGIC)
        self._handle.seek(0)
        return bool(archives.kind_of(first)) or first.startswith(_UTF_16)

    def _head_and_tail(self) -> Iterator[_Chunk]:
        end = self._file_size
        self.size, self.left_out = end, end - HEAD - TAIL
        yield from self._blocks(self._stream(_Window(self._handle, 0, HEAD)), 1, 0)
        first = True
        tail = self._stream(_Window(self._handle, end - TAIL, end))
        for chunk in self._blocks(tail, 0, end - TAIL):
            # The first line of the tail is the rest of one.
            yield dataclasses.replace(chunk, continued=chunk.continued or first, behind_gap=first)
            first = False

    def _streamed(self) -> Iterator[_Chunk]:
        """Yield what comes, from HEAD bytes on only the last TAIL bytes of it."""
        stream = self._stream(_Utf8(self._handle))
        seen = 0
        kept: collections.deque[_Chunk] = collections.deque()
        held = 0
        for chunk in self._blocks(stream, 1, 0):
            seen += len(chunk.data)
            if seen <= HEAD:
                yield chunk
                continue
            kept.append(chunk)
            held += len(chunk.data)
            while held > TAIL:
                dropped = len(kept.popleft().data)
                held -= dropped
                self.left_out += dropped
        self.size = stream.size
        if kept and self.left_out:
            kept[0] = dataclasses.replace(kept[0], behind_gap=True)
        while kept:
            yield kept.popleft()

    def _stream(self, handle: Any) -> streams.Stream:
        return streams.Stream(self._name, cast("IO[bytes]", handle))

    def _blocks(self, stream: streams.Stream, number: int, offset: int) -> Iterator[_Chunk]:
        continued = False
        for block, start, end in stream.blocks():
            data = block[start:end]
            if not data:
                continue
            yield _Chunk(data, number, offset, continued)
            continued = not data.endswith(b"\n")
            offset += len(data)
            number = number and number + data.count(b"\n")
        self.envelope = self.envelope or stream.envelope
        self.broken = self.broken or stream.broken


def _split(chunk: _Chunk) -> Iterator[tuple[int, int, bytes]]:
    """Yield the lines of a chunk with their numbers and offsets, each cut to MAX_TEXT bytes."""
    start, number, data = 0, chunk.number, chunk.data
    skip = chunk.continued
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        if not skip:
            yield number, chunk.offset + start, data[start : min(end, start + MAX_TEXT)]
        skip = False
        start = end + 1
        number = number and number + 1


def _begun(chunk: _Chunk) -> int:
    """Return how many lines begin in a chunk, as `_split` yields them."""
    return chunk.data.count(b"\n") + (not chunk.continued) - chunk.data.endswith(b"\n")


def _line(raw: bytes, number: int, offset: int, order: int) -> Line:
    peeled = peel(streams.clean(raw).decode("utf-8", "surrogateescape"))
    return Line(
        peeled.text,
        number,
        offset,
        order,
        peeled.stamp,
        peeled.stream,
        peeled.label,
        peeled.manager,
        peeled.level,
    )
