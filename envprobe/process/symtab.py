"""The full symbol table (.symtab) of a program's file, for static programs without other symbols.

The file must be the one that is mapped: a replaced file has the same name and other contents.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Collection, Iterator
from typing import Final

from envprobe.process.elf import HEADER, SYMBOL, Image, NotElf, Symbol, defined, program_headers
from envprobe.process.handle import AccessRefused, ProcessHandle, Unsupported
from envprobe.process.maps import AddressSpace, Mapping
from envprobe.process.rootfs import open_regular, reopen_regular

MAX_TABLE_BYTES: Final = 64 << 20
_SECTION: Final = struct.Struct("<2I4Q2I2Q")
_NAME_ONLY: Final = struct.Struct("<I20x")
_SHT_SYMTAB: Final = 2
_MAX_SECTIONS: Final = 4096
_DATA_KINDS: Final = (0, 1)  # STT_NOTYPE, STT_OBJECT


def open_mapped_file(handle: ProcessHandle, space: AddressSpace, image: Image) -> int | None:
    """Return a descriptor of the file that `image` was mapped from; the caller closes it.

    None when no file can be opened that is the mapped one by its inode. Raises ProcessGone,
    AccessRefused when the maps cannot be read.
    """
    mapping = _mapping_of(space, image)
    if mapping is None or not mapping.inode:
        return None
    span = f"{mapping.start:x}-{mapping.end:x}"
    for name in ("exe", f"map_files/{span}"):
        try:
            place = handle.open_file(name, os.O_PATH)
        except AccessRefused:
            continue
        try:
            # The link leads to the file itself. Its device is not compared: on btrfs and overlayfs
            # fstat and the maps give different numbers for one file.
            if os.fstat(place).st_ino == mapping.inode:
                return reopen_regular(place, name)
        except (AccessRefused, Unsupported):
            continue
        finally:
            os.close(place)
    return _open_by_path(handle, mapping)


def _mapping_of(space: AddressSpace, image: Image) -> Mapping | None:
    first = next((segment for segment in image.segments if segment.file_size), None)
    return space.at(first.address + image.bias) if first else None


def _open_by_path(handle: ProcessHandle, mapping: Mapping) -> int | None:
    if mapping.deleted:
        return None
    try:
        descriptor = open_regular(handle, mapping.path)
    except (AccessRefused, Unsupported):
        return None
    status = os.fstat(descriptor)
    device = (os.major(status.st_dev), os.minor(status.st_dev))
    if (device, status.st_ino) == (mapping.device, mapping.inode):
        return descriptor
    os.close(descriptor)
    return None


def lookup(descriptor: int, names: Collection[bytes], bias: int) -> dict[bytes, Symbol]:
    """Return the data symbols among `names` that the file's .symtab defines.

    A name that stands for several addresses is left out, unless one of them is not local. Raises
    NotElf for a damaged file, OSError.
    """
    matches: dict[bytes, list[Symbol]] = {}
    for symbols, strings in _tables(descriptor):
        named = {offset: name for name in names for offset in _offsets(strings, name)}
        for number, (offset,) in enumerate(_NAME_ONLY.iter_unpack(symbols)):
            if offset in named:
                place = number * SYMBOL.size
                entry = defined(symbols[place : place + SYMBOL.size], bias)
                if entry is not None and entry[1].kind in _DATA_KINDS:
                    matches.setdefault(named[offset], []).append(entry[1])
    chosen = {name: _unique(symbols) for name, symbols in matches.items()}
    return {name: symbol for name, symbol in chosen.items() if symbol is not None}


def _tables(descriptor: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield each symbol table with its strings."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise NotElf("not a regular file")
    raw = os.pread(descriptor, HEADER.size, 0)
    program_headers(raw)
    _, _, _, _, _, _, table, _, _, _, _, entry_size, count, _ = HEADER.unpack(raw)
    if not table or entry_size != _SECTION.size or count > _MAX_SECTIONS:
        return
    sections = list(_SECTION.iter_unpack(_read(descriptor, table, count * _SECTION.size)))
    for _, kind, _, _, offset, size, link, _, _, _ in sections:
        if kind == _SHT_SYMTAB and link < count:
            _, _, _, _, text_offset, text_size, *_ = sections[link]
            symbols = _read(descriptor, offset, size - size % SYMBOL.size)
            yield symbols, _read(descriptor, text_offset, text_size)


def _read(descriptor: int, offset: int, size: int) -> bytes:
    if size > MAX_TABLE_BYTES or offset >= 1 << 63:
        raise NotElf("a table too long to be read")
    raw = os.pread(descriptor, size, offset)
    if len(raw) != size:
        raise NotElf("a table beyond the end of the file")
    return raw


def _offsets(strings: bytes, name: bytes) -> set[int]:
    """Return where the strings end in `name`: linkers let names share their tails."""
    offsets: set[int] = set()
    place = strings.find(name + b"\0")
    while place >= 0:
        offsets.add(place)
        place = strings.find(name + b"\0", place + 1)
    return offsets


def _unique(matches: list[Symbol]) -> Symbol | None:
    shared = [symbol for symbol in matches if symbol.binding] or matches
    return shared[0] if len({symbol.address for symbol in shared}) == 1 else None
