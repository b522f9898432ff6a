"""Where a process keeps its pointer to the live C environ: the slot that getenv(3) follows.

getenv follows `__environ`, so that name is looked up through the whole scope first; `environ` alone
counts only where nobody defines `__environ` (an LD_PRELOAD library may define `environ` for
itself). The executable's slot wins over the C library's, which a copy relocation leaves dead.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, NamedTuple

from envprobe.model import Confidence
from envprobe.process import symtab
from envprobe.process.elf import NotElf, Symbol
from envprobe.process.handle import MemoryFault, ProcessHandle
from envprobe.process.maps import AddressSpace
from envprobe.process.scope import Scope

SLOT_NAMES: Final = (b"__environ", b"environ")
STARTED_NAMES: Final = (b"__progname_full", b"program_invocation_name")
"""Set right after the slot by glibc's `_init_first` and musl's `__init_libc`; see `started`."""


class Slot(NamedTuple):
    """The address of the pointer, where it was found, and how to find its neighbours' addresses.

    `find` gives the address of another data symbol of the same C library, None if it has none.
    """

    address: int
    source: str
    confidence: Confidence
    find: Callable[[bytes], int | None]


def find_slot(handle: ProcessHandle, scope: Scope, space: AddressSpace) -> Slot | None:
    """Return the slot, None where no symbol tells (a stripped static program, or no C library).

    Raises ProcessGone, AccessRefused, and MemoryFault or NotElf for damaged tables.
    """
    return _dynamic_slot(scope) or _static_slot(handle, scope, space)


def _dynamic_slot(scope: Scope) -> Slot | None:
    for name in SLOT_NAMES:
        found = scope.lookup(name)
        if found is None:
            continue
        where = os.path.basename(found.name) or "the executable"
        if not found.name and scope.interpreted:
            where += " (copy relocation)"
        confidence = Confidence.PROVED if scope.ordered else Confidence.INFERRED

        def find(other: bytes) -> int | None:
            neighbour = scope.lookup(other)
            return neighbour.symbol.address if neighbour else None

        return Slot(found.symbol.address, f"{name.decode()} in {where}", confidence, find)
    return None


def _static_slot(handle: ProcessHandle, scope: Scope, space: AddressSpace) -> Slot | None:
    """Look into the file's .symtab: a static program has no other symbols."""
    if scope.executable is None or scope.interpreted:
        return None
    descriptor = symtab.open_mapped_file(handle, space, scope.executable)
    if descriptor is None:
        return None
    try:
        names = (*SLOT_NAMES, *STARTED_NAMES)
        symbols = symtab.lookup(descriptor, names, scope.executable.bias)
    except (NotElf, OSError):
        return None
    finally:
        os.close(descriptor)

    def find(other: bytes) -> int | None:
        symbol: Symbol | None = symbols.get(other)
        return symbol.address if symbol else None

    for name in SLOT_NAMES:
        if name in symbols:
            source = f"{name.decode()} in the executable (.symtab)"
            return Slot(symbols[name].address, source, Confidence.PROVED, find)
    return None


def started(slot: Slot, scope: Scope, space: AddressSpace) -> bool:
    """Return whether the C library has started, which tells an emptied slot from an unset one.

    The program's own name is the witness. At first it is NULL (musl) or an empty string among the
    library's constants (glibc); once set it lies on the stack, and it is set after the slot.
    """
    for name in STARTED_NAMES:
        try:
            address = slot.find(name)
            if address is None:
                continue
            text = scope.memory.word(address)
            if not text:
                return False
            mapping = space.at(text)
            if mapping is None:  # the loader has not relocated it yet
                return False
            return "w" in mapping.perms or scope.memory.read(text, 1) != b"\0"
        except (MemoryFault, NotElf):
            continue
    return False
