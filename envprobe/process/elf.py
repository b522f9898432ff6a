"""Symbols of an ELF image as it lies in memory: no file is opened.

So deleted or replaced libraries, other mount namespaces and renamed programs make no difference.
Sources: elf(5), the System V gABI (dynamic section, DT_HASH); DT_GNU_HASH as GNU ld writes it.
Little-endian ELF64 only.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from typing import Final

from envprobe.process.checked import CheckedMemory

PT_LOAD: Final = 1
PT_DYNAMIC: Final = 2
PT_INTERP: Final = 3
PT_PHDR: Final = 6
DT_NULL: Final = 0
DT_HASH: Final = 4
DT_STRTAB: Final = 5
DT_SYMTAB: Final = 6
DT_DEBUG: Final = 21
DT_GNU_HASH: Final = 0x6FFFFEF5
SHN_UNDEF: Final = 0
SHN_ABS: Final = 0xFFF1
STT_TLS: Final = 6
WORD_MASK: Final = (1 << 64) - 1

HEADER: Final = struct.Struct("<16s2HI3QI6H")
SEGMENT: Final = struct.Struct("<2I6Q")
SYMBOL: Final = struct.Struct("<I2BH2Q")
_DYNAMIC: Final = struct.Struct("<2Q")

_PROGRAM_TYPES: Final = (2, 3)  # ET_EXEC, ET_DYN
_PAGE: Final = 4096
_MAX_SEGMENTS: Final = 1024
_MAX_DYNAMIC: Final = 1024
_MAX_CHAIN: Final = 1 << 14


class NotElf(Exception):  # noqa: N818 - an outcome of looking, not a fault of the run
    """There is no little-endian ELF64 image here, or its tables are damaged."""


@dataclasses.dataclass(frozen=True, slots=True)
class Segment:
    """One program header; addresses as in the file, without the bias."""

    type: int
    flags: int
    offset: int
    address: int
    file_size: int
    size: int

    @property
    def writable(self) -> bool:
        """Whether the program may write to it (PF_W)."""
        return bool(self.flags & 2)


@dataclasses.dataclass(frozen=True, slots=True)
class Symbol:
    """A defined symbol; `address` is where it lies in the process, `binding` and `kind` raw."""

    address: int
    size: int
    binding: int
    kind: int


def program_headers(raw: bytes) -> tuple[int, int]:
    """Return the file offset and the number of the program headers of an ELF header; NotElf."""
    if len(raw) < HEADER.size or raw[:4] != b"\x7fELF":
        raise NotElf("no ELF header")
    ident, kind, _, _, _, offset, _, _, _, entry_size, count, *_ = HEADER.unpack_from(raw)
    if ident[4] != 2 or ident[5] != 1:
        raise NotElf("not a little-endian ELF64 image")
    if kind not in _PROGRAM_TYPES or entry_size != SEGMENT.size:
        raise NotElf("neither a program nor a shared library")
    return offset, count


def segments_at(memory: CheckedMemory, address: int, count: int) -> tuple[Segment, ...]:
    """Return the `count` program headers at `address`; MemoryFault, NotElf."""
    if not 0 < count <= _MAX_SEGMENTS:
        raise NotElf("an impossible number of program headers")
    raw = memory.read(address, count * SEGMENT.size)
    return tuple(
        Segment(kind, flags, offset, virtual, file_size, size)
        for kind, flags, offset, virtual, _, file_size, size, _ in SEGMENT.iter_unpack(raw)
    )


def defined(raw: bytes, bias: int) -> tuple[int, Symbol] | None:
    """Return the name's offset and the symbol of one entry of a symbol table, if it is defined."""
    name, info, _, section, value, size = SYMBOL.unpack(raw)
    if section == SHN_UNDEF or info & 15 == STT_TLS:
        return None
    address = value if section == SHN_ABS else value + bias & WORD_MASK
    return name, Symbol(address, size, info >> 4, info & 15)


class Image:
    """A program or library in memory: its segments, if they are known, and its dynamic symbols.

    `bias` is what the loader added to the addresses in the file (0 for ET_EXEC); `dynamic` maps the
    tags of the dynamic section, at `dynamic_address`, to their first values.
    """

    __slots__ = ("_memory", "bias", "dynamic", "dynamic_address", "segments")

    def __init__(
        self,
        memory: CheckedMemory,
        bias: int,
        dynamic: int | None,
        segments: tuple[Segment, ...] = (),
    ) -> None:
        """Take the image whose dynamic section lies at `dynamic`, None if it has none.

        Raises MemoryFault, NotElf.
        """
        self._memory = memory
        self.bias = bias
        self.segments = segments
        self.dynamic_address = dynamic
        self.dynamic = {} if dynamic is None else self._read_dynamic(dynamic)

    @classmethod
    def at_header(cls, memory: CheckedMemory, base: int) -> Image:
        """Take the image whose ELF header lies at `base`; MemoryFault, NotElf."""
        offset, count = program_headers(memory.read(base, HEADER.size))
        segments = segments_at(memory, base + offset, count)
        for segment in segments:
            if segment.type == PT_LOAD and segment.offset < _PAGE:
                return cls.of_segments(memory, segments, base + segment.offset - segment.address)
        raise NotElf("no segment holds the ELF header")

    @classmethod
    def of_segments(cls, memory: CheckedMemory, segments: tuple[Segment, ...], bias: int) -> Image:
        """Take the image with these program headers; MemoryFault, NotElf."""
        bias &= WORD_MASK
        dynamic = (s.address + bias & WORD_MASK for s in segments if s.type == PT_DYNAMIC)
        return cls(memory, bias, next(dynamic, None), segments)

    def _read_dynamic(self, address: int) -> dict[int, int]:
        found: dict[int, int] = {}
        limit = address + _MAX_DYNAMIC * _DYNAMIC.size
        while address < limit:
            size = _PAGE - address % _PAGE & -_DYNAMIC.size or _DYNAMIC.size
            for tag, value in _DYNAMIC.iter_unpack(self._memory.read(address, size)):
                if tag == DT_NULL:
                    return found
                found.setdefault(tag, value)
            address += size
        raise NotElf("a dynamic section without end")

    @property
    def interpreted(self) -> bool:
        """Whether it asks for a loader (PT_INTERP): a dynamically linked executable."""
        return any(segment.type == PT_INTERP for segment in self.segments)

    def _table(self, tag: int) -> int | None:
        """Return where a table lies: glibc writes addresses back, musl and the vDSO do not."""
        value = self.dynamic.get(tag)
        if value is None:
            return None
        return value if value >= self.bias else value + self.bias

    def lookup(self, name: bytes) -> Symbol | None:
        """Return the symbol `name` if this image defines it.

        Thread-local symbols are left out. Raises MemoryFault and NotElf for damaged tables.
        """
        symbols, strings = self._table(DT_SYMTAB), self._table(DT_STRTAB)
        if symbols is None or strings is None:
            return None
        wanted = name + b"\0"
        for index in self._candidates(name):
            raw = self._memory.read(symbols + index * SYMBOL.size, SYMBOL.size)
            found = defined(raw, self.bias)
            if found and self._memory.read(strings + found[0], len(wanted)) == wanted:
                return found[1]
        return None

    def _candidates(self, name: bytes) -> Iterator[int]:
        if (table := self._table(DT_GNU_HASH)) is not None:
            return self._gnu_candidates(table, gnu_hash(name))
        if (table := self._table(DT_HASH)) is not None:
            return self._sysv_candidates(table, sysv_hash(name))
        return iter(())

    def _uint(self, address: int) -> int:
        return int.from_bytes(self._memory.read(address, 4), "little")

    def _gnu_candidates(self, table: int, value: int) -> Iterator[int]:
        """Yield the symbols whose hash agrees; the filter words come first, as they say no."""
        raw = self._memory.read(table, 16)
        buckets, first, filters, shift = struct.unpack("<4I", raw)
        if not buckets or not filters:
            return
        word = self._memory.word(table + 16 + value // 64 % filters * 8)
        if not (word >> value % 64 & 1 and word >> (value >> shift % 32) % 64 & 1):
            return
        bucket_table = table + 16 + filters * 8
        index = self._uint(bucket_table + value % buckets * 4)
        if index < first:
            return
        chain = bucket_table + buckets * 4
        for position in range(index, index + _MAX_CHAIN):
            link = self._uint(chain + (position - first) * 4)
            if link | 1 == value | 1:
                yield position
            if link & 1:
                return
        raise NotElf("a hash chain without end")

    def _sysv_candidates(self, table: int, value: int) -> Iterator[int]:
        buckets = self._uint(table)
        if not buckets:
            return
        index = self._uint(table + 8 + value % buckets * 4)
        for _ in range(_MAX_CHAIN):
            if index == 0:
                return
            yield index
            index = self._uint(table + 8 + (buckets + index) * 4)
        raise NotElf("a hash chain without end")


def gnu_hash(name: bytes) -> int:
    """Return the hash of DT_GNU_HASH."""
    value = 5381
    for byte in name:
        value = value * 33 + byte & 0xFFFFFFFF
    return value


def sysv_hash(name: bytes) -> int:
    """Return the hash of DT_HASH (gABI)."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high & 0xFFFFFFFF
    return value
