"""Reads that follow pointers found in a target: only regular memory, in whole pages, remembered.

Every address comes from the target and may be wild or hostile. A read that strays into a mapped
device could change it, so each page is looked up in the maps before it is read.
"""

from __future__ import annotations

import struct
from typing import Final, Protocol

from envprobe.process.handle import MemoryFault
from envprobe.process.memory import ADDRESS_LIMIT

PAGE_BYTES: Final = 4096
_AHEAD: Final = 4 * PAGE_BYTES
_MAX_PAGES: Final = 4096


class Source(Protocol):
    """What gives bytes at an address (`Memory`)."""

    def read_some(self, address: int, size: int) -> bytes:
        """Return 1 to `size` bytes, or raise MemoryFault."""


class Space(Protocol):
    """What knows which addresses may be read (`AddressSpace`)."""

    def regular_end(self, address: int, size: int) -> int:
        """Return where readable regular memory ends, from `address` on."""


class CheckedMemory:
    """A process's regular memory as it was when each page was first read."""

    __slots__ = ("_pages", "source", "space")

    def __init__(self, source: Source, space: Space) -> None:
        self.source = source
        self.space = space
        self._pages: dict[int, bytes] = {}

    def forget(self) -> None:
        """Drop what was read, so that the next reads show the present."""
        self._pages.clear()

    def _page(self, number: int) -> bytes:
        page = self._pages.get(number)
        if page is not None:
            return page
        address = number * PAGE_BYTES
        if not 0 <= address < ADDRESS_LIMIT:
            raise MemoryFault(address)
        end = self.space.regular_end(address, _AHEAD)
        if end <= address:
            raise MemoryFault(address)
        data = self.source.read_some(address, end - address)
        if len(self._pages) >= _MAX_PAGES:
            self._pages.clear()
        for offset in range(0, len(data), PAGE_BYTES):
            self._pages[number + offset // PAGE_BYTES] = data[offset : offset + PAGE_BYTES]
        return self._pages[number]

    def read(self, address: int, size: int) -> bytes:
        """Return exactly `size` bytes, or raise MemoryFault."""
        number, offset = divmod(address, PAGE_BYTES)
        page = self._pages.get(number)
        if page is not None and offset + size <= len(page):  # nearly always: kept to one call
            return page[offset : offset + size]
        data = self._page(number)[offset : offset + size]
        while len(data) < size:
            if (offset + len(data)) % PAGE_BYTES:  # the page itself was short
                raise MemoryFault(address + len(data))
            number += 1
            data += self._page(number)[: size - len(data)]
        return data

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Return `count` little-endian 64-bit words, or raise MemoryFault."""
        return struct.unpack(f"<{count}Q", self.read(address, 8 * count))

    def word(self, address: int) -> int:
        """Return the little-endian 64-bit word at `address`, or raise MemoryFault."""
        return int.from_bytes(self.read(address, 8), "little")

    def cstring(self, address: int, limit: int) -> bytes:
        """Return the bytes up to the next NUL, without it.

        Raises MemoryFault when there is no NUL among the first `limit` + 1 bytes.
        """
        number, offset = divmod(address, PAGE_BYTES)
        data = self._page(number)[offset:]
        while (end := data.find(0)) < 0 and len(data) <= limit:
            if (offset + len(data)) % PAGE_BYTES:
                break
            number += 1
            data += self._page(number)
        if not 0 <= end <= limit:
            raise MemoryFault(address + len(data))
        return data[:end]
