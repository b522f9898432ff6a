"""Where `_PyRuntime` may lie in a process.

It is found by its symbol in memory, else in the executable's own symbol table, else (3.13 and
later) by the cookie that it starts with; a file's name plays no part.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from envprobe.cpython.layouts import COOKIE
from envprobe.process import symtab
from envprobe.process.elf import Image, NotElf
from envprobe.process.handle import MemoryFault, ProcessHandle
from envprobe.process.maps import AddressSpace
from envprobe.process.scope import Scope

RUNTIME: Final = b"_PyRuntime"  # Include/internal/pycore_runtime.h
VERSION: Final = b"Py_Version"  # Include/pylifecycle.h, 3.11 and later
_PYTHON: Final = b"Py_Initialize"  # Include/pylifecycle.h, since ever
_FROM_3_9: Final = b"PyModule_AddType"  # Include/modsupport.h, 3.9 and later
_SCAN_CHUNK: Final = 1 << 20
_MAX_SCAN: Final = 256 << 20
_DAMAGED: Final = (MemoryFault, NotElf)


class Site(NamedTuple):
    """A place where `_PyRuntime` may be: `name` of the object that holds it, and its symbols."""

    address: int
    name: str
    image: Image | None
    hexversion: int | None


def sites(handle: ProcessHandle, scope: Scope, space: AddressSpace) -> Iterator[Site]:
    """Yield the places to try, the likeliest first; AccessRefused."""
    found = False
    for site in _by_symbol(scope):
        found = True
        yield site
    if found:
        return
    in_file = _by_symbol_table(handle, scope, space)
    if in_file is not None:
        yield in_file
    else:
        yield from _by_cookie(scope, space)


def _by_symbol(scope: Scope) -> Iterator[Site]:
    try:
        loaded = list(scope.objects())
    except _DAMAGED:
        return
    for one in loaded:
        try:
            image = scope.image(one)
            symbol = image.lookup(RUNTIME)
            if symbol is None:
                continue
            version = image.lookup(VERSION)
            hexversion = scope.memory.word(version.address) & 0xFFFFFFFF if version else None
        except _DAMAGED:
            continue
        yield Site(symbol.address, _basename(one.name), image, hexversion)


def too_old(scope: Scope) -> str:
    """Return the name of the loaded object that holds a CPython older than 3.9, "" for none."""
    try:
        for one in scope.objects():
            image = scope.image(one)
            if image.lookup(_PYTHON) is not None and image.lookup(_FROM_3_9) is None:
                return _basename(one.name)
    except _DAMAGED:
        pass
    return ""


def _basename(path: str) -> str:
    return os.path.basename(path) or "the executable"


def _by_symbol_table(handle: ProcessHandle, scope: Scope, space: AddressSpace) -> Site | None:
    """Look in the executable's file: a static program need not export its symbols."""
    image = scope.executable
    if image is None:
        return None
    descriptor = symtab.open_mapped_file(handle, space, image)
    if descriptor is None:
        return None
    try:
        found = symtab.lookup(descriptor, {RUNTIME, VERSION}, image.bias)
        version = found.get(VERSION)
        hexversion = scope.memory.word(version.address) & 0xFFFFFFFF if version else None
    except (OSError, *_DAMAGED):
        return None
    finally:
        os.close(descriptor)
    runtime = found.get(RUNTIME)
    return Site(runtime.address, "the executable", None, hexversion) if runtime else None


def _by_cookie(scope: Scope, space: AddressSpace) -> Iterator[Site]:
    """Scan the writable parts of mapped files for the cookie of `_Py_DebugOffsets`."""
    left = _MAX_SCAN
    source = scope.memory.source
    for mapping in space.mappings():
        if "w" not in mapping.perms or not mapping.inode or not mapping.regular:
            continue
        for start in range(mapping.start, mapping.end, _SCAN_CHUNK):
            if left <= 0:
                return
            size = min(_SCAN_CHUNK, mapping.end - start)
            left -= size
            try:
                raw = source.read_some(start, size)
            except MemoryFault:
                continue
            place = raw.find(COOKIE)
            while place >= 0:
                if (start + place) % 8 == 0:
                    yield Site(start + place, _basename(mapping.path), None, None)
                place = raw.find(COOKIE, place + 1)
