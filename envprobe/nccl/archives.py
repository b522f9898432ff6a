"""Compressed logs: gzip, zstd, xz and bzip2, several parts one after the other, broken ones too."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from envprobe.errors import UsageError

_PIECE: Final = 1024
"""Compressed bytes taken at a time: even hostile ones become some MB, zstd's at most 32."""

_WINDOW: Final = 1 << 27
"""Most memory that a decompressor may ask for, in bytes: that of `zstd --ultra`, twice `xz -9`."""

LONGEST_MAGIC: Final = 6
"""Bytes of a file that tell its compression."""


class Damaged(Exception):  # noqa: N818 - it says what happened to the file, and is no failure
    """The compressed data break off, or make no sense; everything before was given out."""


def _gzip() -> Any:
    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)


def _zstd() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()


def _xz() -> Any:
    import lzma

    return lzma.LZMADecompressor(memlimit=_WINDOW)


def _bzip2() -> Any:
    import bz2

    return bz2.BZ2Decompressor()


_KINDS: Final[dict[bytes, tuple[str, Callable[[], Any]]]] = {
    b"\x1f\x8b": ("gzip", _gzip),
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd),
    b"\xfd7zXZ\0": ("xz", _xz),
    b"BZh": ("bzip2", _bzip2),
}
"""Formats by the first bytes of their files (RFC 1952, RFC 8878, xz-file-format 1.2, bzip2)."""


def kind_of(first: bytes) -> str:
    """Return the name of the compression that the first bytes of a file show, or ""."""
    return next((name for magic, (name, _) in _KINDS.items() if first.startswith(magic)), "")


def unpacked(kind: str, parts: Iterator[bytes], name: str, block: int) -> Iterator[bytes]:
    """Yield what compressed parts hold, in pieces of at least `block` bytes.

    Raises Damaged at the end, where the data are broken; UsageError where a library is missing.
    """
    make = next(make for known, make in _KINDS.values() if known == kind)
    ready: list[bytes] = []
    size = 0
    try:
        for piece in _decompressed(_maker(make, kind, name), parts):
            ready.append(piece)
            size += len(piece)
            if size >= block:
                yield b"".join(ready)
                ready, size = [], 0
    except Damaged:
        yield b"".join(ready)
        raise
    yield b"".join(ready)


def _decompressed(make: Callable[[], Any], parts: Iterator[bytes]) -> Iterator[bytes]:
    current = make()
    for part in parts:
        for at in range(0, len(part), _PIECE):
            piece = part[at : at + _PIECE]
            while piece:
                if current.eof:
                    # Zeros fill up the last block of a tape or a file system.
                    piece = piece.lstrip(b"\0")
                    if not piece:
                        break
                    current = make()
                try:
                    whole = current.decompress(piece)
                except Exception as error:  # each library has its own
                    raise Damaged(f"the compressed data are broken ({error})") from None
                yield whole
                piece = current.unused_data if current.eof else b""
    if not current.eof:
        raise Damaged("the compressed data break off")


def _maker(make: Callable[[], Any], kind: str, name: str) -> Callable[[], Any]:
    try:
        make()
    except ImportError:
        extra = "install envprobe[zstd], or " if kind == "zstd" else ""
        raise UsageError(
            f"{name} is compressed with {kind}, which needs a library that is not installed",
            f"{extra}pipe it in, with - for its name: {kind} -dc FILE | envprobe ...",
        ) from None
    return make
