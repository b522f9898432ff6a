"""The last resort for a stripped static program: find the environ array by its shape.

The executable's writable segments are searched for pointers to a NULL-terminated array of strings
`NAME=...`. Stripped static glibc and musl programs hold two of them, `environ` and the library's
private note of it, with one value (measured). Only agreement counts, and it proves nothing.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from typing import Final

from envprobe.model import Confidence
from envprobe.process.decode import MAX_NAME_BYTES, MAX_SECONDS, Decoder, TooMuch
from envprobe.process.elf import PT_LOAD, WORD_MASK
from envprobe.process.handle import MemoryFault
from envprobe.process.maps import AddressSpace
from envprobe.process.scope import Scope
from envprobe.process.slots import Slot

MAX_SCAN_BYTES: Final = 16 << 20
_BLOCK: Final = 1 << 18
_WORD: Final = struct.Struct("<Q")


class Ambiguous(Exception):  # noqa: N818 - an outcome of looking, not a fault of the run
    """Several arrays look like an environment."""


def scan(scope: Scope, space: AddressSpace) -> Slot | None:
    """Return the slot whose array is the only one of its shape, None if there is no such array.

    Raises Ambiguous, TooMuch, AccessRefused.
    """
    deadline = time.thread_time() + MAX_SECONDS
    slots: dict[int, int] = {}
    refused: set[int] = set()
    for address, pointer in _pointers(scope, space):
        if pointer in refused or pointer in slots:
            continue
        if time.thread_time() > deadline:
            raise TooMuch(f"searching it takes more than {MAX_SECONDS:g} s")
        if _is_environment(scope, space, pointer, deadline):
            slots[pointer] = address
        else:
            refused.add(pointer)
    if len(slots) > 1:
        raise Ambiguous(f"{len(slots)} different arrays look like an environment")
    for address in slots.values():
        return Slot(address, "vector scan of the executable", Confidence.INFERRED, lambda _: None)
    return None


def _pointers(scope: Scope, space: AddressSpace) -> Iterator[tuple[int, int]]:
    """Yield each aligned word of the writable segments that could be a pointer, and its place."""
    if scope.executable is None:
        return
    left = MAX_SCAN_BYTES
    for segment in scope.executable.segments:
        if segment.type != PT_LOAD or not segment.writable:
            continue
        start = segment.address + scope.executable.bias + 7 & WORD_MASK & ~7
        end = start + min(segment.size, left) & ~7
        left -= end - start
        while start < end:
            limit = space.regular_end(start, min(_BLOCK, end - start))
            try:
                raw = scope.source.read_some(start, limit - start)
            except MemoryFault:
                break
            for number, (word,) in enumerate(_WORD.iter_unpack(raw[: len(raw) & ~7])):
                if word and not word & 7 and not word >> 63:
                    yield start + 8 * number, word
            start += max(len(raw) & ~7, 8)
    if not left:
        raise TooMuch(f"its writable segments are larger than {MAX_SCAN_BYTES >> 20} MiB")


def _is_environment(scope: Scope, space: AddressSpace, pointer: int, deadline: float) -> bool:
    """Return whether a NULL-terminated array of named strings lies at `pointer`.

    Tables of functions pass for arrays of strings with odd names now and then (measured), so the
    names must be printable and the strings must not lie in code.
    """
    decoder = Decoder(scope.source, space, lambda _: False, deadline)
    try:
        first = scope.memory.word(pointer)
        if not first or b"=" not in scope.memory.cstring(first, MAX_NAME_BYTES)[1:]:
            return False
        array = decoder.array(pointer)
        contents = decoder.contents(array)
    except MemoryFault:
        return False
    named = all(name.isascii() and name.isprintable() for name in contents.entries)
    return bool(array) and named and not contents.oddities and not _in_code(space, array)


def _in_code(space: AddressSpace, pointers: tuple[int, ...]) -> bool:
    mappings = (space.at(pointer) for pointer in pointers)
    return any(mapping is not None and "x" in mapping.perms for mapping in mappings)
