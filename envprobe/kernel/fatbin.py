"""The images in a fat binary: for which architectures a GPU library has code, and of what kind.

Only headers are read: no image is decompressed. The layout is not documented by NVIDIA. It was read
from what `fatbinary` 13.5 writes for known images, and the tests compare the result with
`cuobjdump -lelf -lptx`:

    header   u32 magic, u16 version, u16 its own size, u64 size of all entries
    entry    u16 kind, u16 version, u32 its own size, u64 size of the image, u32, u32, u16, u16,
             u32 architecture, u32, u32, u64 flags, ...
"""

from __future__ import annotations

import dataclasses
import enum
import struct
from typing import BinaryIO, Final

from envprobe.kernel.architecture import Architecture

MAGIC: Final = 0xBA55ED50
_HEADER: Final = struct.Struct("<IHHQ")
_ENTRY: Final = struct.Struct("<HHIQIIHHIIIQ")
_KINDS: Final = {1: "ptx", 2: "sass", 8: "lto"}
_ARCHITECTURE_ONLY: Final = 0x100000
_FAMILY_ONLY: Final = 0x200000
_HIGHEST: Final = 999
_MAX_PADDING: Final = 1 << 16
_MAX_ENTRIES: Final = 1 << 17
_MAX_HEADER: Final = 1 << 12


class Kind(str, enum.Enum):
    """What an image is: machine code, PTX, code that is still to be linked, something else."""

    SASS = "sass"
    PTX = "ptx"
    LTO = "lto"
    OTHER = "other"


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Image:
    """One image; equal images of different units are equal."""

    architecture: Architecture
    kind: Kind


@dataclasses.dataclass(frozen=True, slots=True)
class Units:
    """The fat binaries of one section, each a translation unit or a linked whole: its images.

    `damaged` says where reading had to end and why, "" if all was read.
    """

    units: tuple[frozenset[Image], ...]
    damaged: str = ""


def read(file: BinaryIO, offset: int, size: int) -> Units:
    """Return the images of all fat binaries in `size` bytes of a file from `offset` on.

    Whatever the bytes say, at most 131072 entries are read, and nothing beyond the range.
    """
    units: list[frozenset[Image]] = []
    at, end, entries = offset, offset + size, 0
    try:
        while at < end:
            begin = _next(file, at, end)
            if begin is None:
                break
            images, at, read_entries = _unit(file, begin, end)
            units.append(images)
            entries += read_entries
            if entries > _MAX_ENTRIES:
                raise _Damaged(at, "there are too many images")
    except _Damaged as damaged:
        return Units(tuple(units), str(damaged))
    return Units(tuple(units))


class _Damaged(Exception):  # noqa: N818 - an outcome of looking, not a fault of the run
    def __init__(self, at: int, why: str) -> None:
        super().__init__(f"at byte {at}: {why}")


def _next(file: BinaryIO, at: int, end: int) -> int | None:
    """Return where the next fat binary begins, after zeros; None if only zeros follow."""
    file.seek(at)
    padding = file.read(min(end - at, _MAX_PADDING))
    skipped = len(padding) - len(padding.lstrip(b"\0"))
    if skipped == len(padding):
        if at + skipped < end:
            raise _Damaged(at, "there is nothing but zeros")
        return None
    return at + skipped // 8 * 8


def _unit(file: BinaryIO, at: int, end: int) -> tuple[frozenset[Image], int, int]:
    """Return the images of one fat binary, where it ends, and how many entries it has."""
    magic, _, header_size, size = _HEADER.unpack(_exactly(file, at, _HEADER.size, end))
    if magic != MAGIC:
        raise _Damaged(at, "no fat binary begins here")
    entry, unit_end = at + header_size, at + header_size + size
    if header_size < _HEADER.size or unit_end > end:
        raise _Damaged(at, "a fat binary is longer than its section")
    images: set[Image] = set()
    count = 0
    while entry < unit_end and count <= _MAX_ENTRIES:
        raw = _exactly(file, entry, _ENTRY.size, unit_end)
        kind, _, own_size, image_size, _, _, _, _, number, _, _, flags = _ENTRY.unpack(raw)
        following = entry + own_size + image_size
        if not _ENTRY.size <= own_size <= _MAX_HEADER or following > unit_end:
            raise _Damaged(entry, "an image is longer than its fat binary")
        if not 10 <= number <= _HIGHEST:
            raise _Damaged(entry, f"{number} is no architecture")
        suffix = "a" if flags & _ARCHITECTURE_ONLY else "f" if flags & _FAMILY_ONLY else ""
        images.add(Image(Architecture(number, suffix), Kind(_KINDS.get(kind, "other"))))
        entry, count = following, count + 1
    return frozenset(images), unit_end, count


def _exactly(file: BinaryIO, at: int, size: int, end: int) -> bytes:
    file.seek(at)
    raw = file.read(size) if at + size <= end else b""
    if len(raw) != size:
        raise _Damaged(at, "it ends in the middle of a header")
    return raw
