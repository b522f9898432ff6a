"""The bytes of log files, in blocks of whole lines: plain, .gz, .zst, globs, the standard input.

What stands in a message's way is undone here, and line numbers stay those of the file: terminal
colours, carriage returns, non-breaking blanks, the JSON of docker, the parts of CRI.
"""

from __future__ import annotations

import dataclasses
import errno
import glob
import gzip
import json
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Any, Final

from envprobe.errors import UsageError

BLOCK: Final = 1 << 17
"""Bytes read at a time: a block and the objects of its lines stay in the processor's cache."""

MAX_LINE: Final = 1 << 20
"""A longer line is handed on in pieces."""

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ANSI: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_RETURNS: Final = re.compile(rb"\r+(?=\n|\Z)")
_DOCKER: Final = re.compile(rb'\{"log": ?"')
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
        if self.envelope == "docker json-file":
            block = b"\n".join(map(_from_docker, block.split(b"\n")))
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
        if first.startswith(_GZIP_MAGIC):
            self.compression = "gzip"
            yield from self._gunzipped(first)
        elif first.startswith(_ZSTD_MAGIC):
            self.compression = "zstd"
            yield from self._unzstd(first)
        else:
            while first:
                yield first
                first = self._read()

    def _read(self) -> bytes:
        try:
            part = self.handle.read(BLOCK)
        except OSError as error:
            self.broken = os.strerror(error.errno or errno.EIO)
            return b""
        self.size += len(part)
        return part

    def _gunzipped(self, first: bytes) -> Iterator[bytes]:
        whole: Any = _Joined(first, self._read)
        try:
            with gzip.GzipFile(fileobj=whole, mode="rb") as opened:
                while part := opened.read(BLOCK):
                    yield part
        except (OSError, EOFError, zlib.error) as error:
            self.broken = str(error)

    def _unzstd(self, first: bytes) -> Iterator[bytes]:
        whole: Any = _Joined(first, self._read)
        library = _zstandard(self.name)
        reader = library.ZstdDecompressor(max_window_size=1 << 27).stream_reader(
            whole, read_size=BLOCK, read_across_frames=True
        )
        try:
            while part := reader.read(BLOCK):
                yield part
        except library.ZstdError as error:
            self.broken = str(error)


class _Joined:
    """What was read already, and then the rest: a file object for a decompressor."""

    def __init__(self, first: bytes, read: Any) -> None:
        self._buffer = first
        self._more = read

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes; b"" at the end."""
        if not self._buffer:
            self._buffer = self._more()
        part, self._buffer = self._buffer[:size], self._buffer[size:]
        return part


def _zstandard(name: str) -> Any:
    try:
        import zstandard
    except ImportError:
        raise UsageError(
            f"{name} is compressed with zstd, which needs a library that is not installed",
            "install envprobe[zstd], or pipe it in: zstd -dc FILE | envprobe nccl -",
        ) from None
    return zstandard


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
    if _DOCKER.match(block):
        return "docker json-file"
    return "CRI" if _CRI.match(block) else ""


def _from_docker(line: bytes) -> bytes:
    """Return the text of one line of docker's json-file; the line itself if it is none."""
    if _DOCKER.match(line) is None:
        return line
    try:
        entry = json.loads(line)
        text = f"{entry.get('time', '')} {entry['log']}"
    except (ValueError, KeyError, RecursionError):
        return line
    return text.encode("utf-8", "replace").rstrip(b"\r\n").replace(b"\n", b" ")


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
        paths = [name] if name == "-" or os.path.lexists(name) else sorted(glob.glob(name))
        if not paths:
            raise UsageError(f"there is no file {name}", "name log files of NCCL, or - for a pipe")
        for path in paths:
            found.setdefault(_identity(path), path)
    return list(found.values())


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
    remedy = "name log files of NCCL, or - for the standard input"
    if name == "-":
        return Stream(name, sys.stdin.buffer)
    try:
        handle = open(name, "rb", buffering=0)  # noqa: SIM115 (Stream.close closes it)
    except (OSError, ValueError) as error:
        reason = os.strerror(getattr(error, "errno", None) or errno.EINVAL)
        raise UsageError(f"{name} cannot be read: {reason}", remedy) from None
    mode = os.fstat(handle.fileno()).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        handle.close()
        raise UsageError(f"{name} is neither a file nor a pipe", remedy)
    return Stream(name, handle)
