"""From a pointer to the entries of an `environ` array: fast for honest ones, bounded for all.

Strings mostly lie side by side (the kernel's block, or one heap), so that runs of them are read at
once. Nothing here trusts the target: each address is looked up in the maps before it is read.
"""

from __future__ import annotations

import bisect
import dataclasses
import hashlib
import os
import struct
import time
from collections.abc import Callable
from typing import Final, TypeAlias

from envprobe.process.checked import Source, Space
from envprobe.process.handle import MemoryFault
from envprobe.values import MAX_VALUE_BYTES, Value

MAX_ENTRIES: Final = 200_000
MAX_TOTAL_BYTES: Final = 16 << 20
MAX_NAME_BYTES: Final = 4096
MAX_SECONDS: Final = 1.0
_FIRST_BLOCK: Final = 4096
_MAX_BLOCK: Final = 1 << 20
_MAX_GAP: Final = 1024
_TAIL: Final = 256
_ENTRIES_PER_LOOK_AT_THE_CLOCK: Final = 1024

_Entry: TypeAlias = tuple[str | None, Value | None]
"""A name and its value (None: not wanted); without a name, the string itself as the value."""


class TooMuch(Exception):  # noqa: N818 - an outcome of looking, not a fault of the run
    """The array goes beyond what an environment can reasonably be; the text says in what."""


@dataclasses.dataclass(slots=True)
class Contents:
    """What an array holds; the fields are those of `model.Environment`."""

    entries: dict[str, Value | None] = dataclasses.field(default_factory=dict)
    duplicates: dict[str, tuple[Value | None, ...]] = dataclasses.field(default_factory=dict)
    oddities: tuple[Value, ...] = ()


class Decoder:
    """One reading of one array, with its budget of bytes and time."""

    __slots__ = ("_bytes_left", "_deadline", "_source", "_space", "_wanted")

    def __init__(
        self, source: Source, space: Space, wanted: Callable[[str], bool], deadline: float
    ) -> None:
        """Take where to read, which names' values to keep, and the end in time.thread_time().

        That is computing time: a busy machine makes no difference, and a read that blocks must be
        ended from outside.
        """
        self._source = source
        self._space = space
        self._wanted = wanted
        self._bytes_left = MAX_TOTAL_BYTES
        self._deadline = deadline

    def _look_at_the_clock(self) -> None:
        if time.thread_time() > self._deadline:
            raise TooMuch(f"decoding it takes more than {MAX_SECONDS:g} s")

    def _read_some(self, address: int, size: int) -> bytes:
        """Read regular memory afresh, up to its end; MemoryFault, TooMuch."""
        end = self._space.regular_end(address, size)
        if end <= address:
            raise MemoryFault(address)
        self._bytes_left -= end - address
        if self._bytes_left < 0:
            raise TooMuch(f"it holds more than {MAX_TOTAL_BYTES >> 20} MiB")
        self._look_at_the_clock()
        return self._source.read_some(address, end - address)

    def array(self, pointer: int) -> tuple[int, ...]:
        """Return the pointers from `pointer` on, up to the first NULL; MemoryFault, TooMuch."""
        if pointer % 8:
            raise MemoryFault(pointer)
        found: tuple[int, ...] = ()
        block = _FIRST_BLOCK
        while len(found) <= MAX_ENTRIES:
            raw = self._read_some(pointer + 8 * len(found), block)
            words = struct.unpack(f"<{len(raw) // 8}Q", raw[: len(raw) & ~7])
            if 0 in words:
                found += words[: words.index(0)]
                break
            if not words:
                raise MemoryFault(pointer + 8 * len(found))
            found += words
            block = min(2 * block, _MAX_BLOCK)
        if len(found) > MAX_ENTRIES:
            raise TooMuch(f"it has more than {MAX_ENTRIES:,} entries")
        return found

    def contents(self, pointers: tuple[int, ...]) -> Contents:
        """Return the strings that the pointers lead to; MemoryFault, TooMuch."""
        known = self._entries(pointers)
        contents = Contents()
        later: dict[str, list[Value | None]] = {}
        oddities: list[Value] = []
        for pointer in pointers:
            name, value = known[pointer]
            if name is None:
                oddities.append(value or Value(b""))
            elif name in contents.entries:
                later.setdefault(name, []).append(value)
            else:
                contents.entries[name] = value
        contents.oddities = tuple(oddities)
        contents.duplicates = {name: tuple(values) for name, values in later.items()}
        return contents

    def _entries(self, pointers: tuple[int, ...]) -> dict[int, _Entry]:
        """Decode each string once, however often the array points to it."""
        runs = self._runs(pointers)
        starts = [start for start, _ in runs]
        known: dict[int, _Entry] = {}
        for number, pointer in enumerate(pointers):
            if number % _ENTRIES_PER_LOOK_AT_THE_CLOCK == 0:
                self._look_at_the_clock()
            if pointer not in known:
                start, run = runs[bisect.bisect_right(starts, pointer) - 1]
                known[pointer] = self._entry(pointer, run, pointer - start)
        return known

    def _runs(self, pointers: tuple[int, ...]) -> list[tuple[int, bytes]]:
        """Read the neighbourhoods of all pointers, one read for those that lie side by side."""
        runs: list[tuple[int, bytes]] = []
        ordered = sorted(set(pointers))
        first = 0
        for number, pointer in enumerate(ordered):
            last = number + 1 == len(ordered)
            if last or not self._neighbours(ordered[first], pointer, ordered[number + 1]):
                start = ordered[first]
                runs.append((start, self._read_some(start, pointer + _TAIL - start)))
                first = number + 1
        return runs

    @staticmethod
    def _neighbours(start: int, pointer: int, following: int) -> bool:
        return following - pointer <= _MAX_GAP and following - start <= _MAX_BLOCK

    def _entry(self, pointer: int, run: bytes, offset: int) -> _Entry:
        end = run.find(0, offset)
        if end < 0:
            return self._long_entry(pointer, run[offset:])
        equals = run.find(b"=", offset, min(end, offset + MAX_NAME_BYTES + 1))
        if equals <= offset:
            return None, Value(run[offset : min(end, offset + MAX_NAME_BYTES)])
        name = os.fsdecode(run[offset:equals])
        return name, Value(run[equals + 1 : end]) if self._wanted(name) else None

    def _long_entry(self, pointer: int, head: bytes) -> _Entry:
        """Read on where a run ended before the string did."""
        while len(head) <= MAX_NAME_BYTES and b"=" not in head and b"\0" not in head:
            head += self._read_some(pointer + len(head), MAX_NAME_BYTES)
        name_bytes, equals, _ = head[: MAX_NAME_BYTES + 1].partition(b"\0")[0].partition(b"=")
        if not name_bytes or not equals:
            return None, Value(name_bytes[:MAX_NAME_BYTES])
        name = os.fsdecode(name_bytes)
        if not self._wanted(name):
            return name, None
        return name, self._long_value(pointer + len(name_bytes) + 1)

    def _long_value(self, address: int) -> Value:
        """Read a value to its end: its first MiB is kept, all of it is hashed."""
        digest = hashlib.sha256()
        kept = b""
        length = 0
        while True:
            block = min(max(length, _FIRST_BLOCK), _MAX_BLOCK)
            data = self._read_some(address + length, block)
            piece, terminator, _ = data.partition(b"\0")
            digest.update(piece)
            kept += piece[: MAX_VALUE_BYTES - len(kept)]
            length += len(piece)
            if terminator:
                return Value(kept, length=length, digest=digest.hexdigest())
