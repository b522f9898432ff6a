"""Which shared objects a process has loaded: copies of libnccl, their versions, and named ones.

They come from the loader's own list, not from /proc/PID/maps: reading that text costs milliseconds
in a process of torch. A version is what the image itself says in its constants (`NCCL version
2.28.9+cuda13.0`, in the binaries from 2.14 to 2.32), so that deleted and replaced files make no
difference.
"""

from __future__ import annotations

import dataclasses
import errno
import fnmatch
import os
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from envprobe.model import Process
from envprobe.ncclfacts import Libraries, Library
from envprobe.process import rootfs
from envprobe.process.elf import NotElf
from envprobe.process.handle import (
    AccessRefused,
    MemoryFault,
    ProcessGone,
    ProcessHandle,
    Unsupported,
)
from envprobe.process.maps import AddressSpace, Mapping
from envprobe.process.memory import Memory
from envprobe.process.scope import LoadedObject, Scope, walk_link_map
from envprobe.runner.forked import run_each

MAX_COPIES: Final = 8
"""Copies of libnccl in one process that are kept; more would be a forged list."""

MAX_NAMED: Final = 16
MAX_IMAGE_BYTES: Final = 32 << 20
"""How far into an image its version is looked for: it lies behind the code, at 1 to 4 MiB."""

_BLOCK: Final = 1 << 20
_NAME: Final = re.compile(r"libnccl\.so(\.[0-9.]+)?")
_PLUGIN: Final = re.compile(r"libnccl-[^/]*\.so[0-9.]*")
_VERSION: Final = re.compile(rb"NCCL version (\d{1,4}\.\d{1,4}\.\d{1,4}[-+.\w]{0,40})\0")
_OVERLAP: Final = 128
_STRING: Final = 160
_DAMAGED: Final = (
    "the loader's list of libraries is damaged or being changed",
    "Run envprobe again; if it happens again, look in a debugger for what wrote over its memory.",
)


def loaded(scope: Scope, space: AddressSpace, patterns: Iterable[str] = ()) -> Libraries:
    """Return the copies of libnccl, NCCL's plugins, and what matches the patterns (fnmatch).

    A pattern is matched with an object's path, as the loader and as the kernel have it, and with
    its file name. Never raises for what the target is.
    """
    copies: dict[tuple[object, ...], Library] = {}
    plugins: dict[str, None] = {}
    named: dict[str, dict[str, None]] = {pattern: {} for pattern in patterns}
    whole = True
    try:
        for one in _objects(scope, space):
            base = os.path.basename(one.name)
            ours = _NAME.fullmatch(base)
            if not (ours or named or _PLUGIN.fullmatch(base)):
                continue
            mapping = _mapping(one, space)
            path = mapping.path if mapping is not None and mapping.path else one.name
            if ours and mapping is not None and len(copies) < MAX_COPIES:
                copies.setdefault((*_identity(mapping), one.bias), _library(one, mapping))
            elif _PLUGIN.fullmatch(base):
                plugins[path] = None
            for pattern, found in named.items():
                if len(found) < MAX_NAMED and _matches(pattern, one.name, path):
                    found[path] = None
    except (AccessRefused, MemoryFault, NotElf):
        whole = False
    return Libraries(
        tuple(copies.values()),
        tuple(plugins),
        {pattern: tuple(found) for pattern, found in named.items()},
        whole,
        *(("", "") if whole else _DAMAGED),
    )


class _SmallReads:
    """Reads of a few bytes, which are not kept: an entry of the list shares its page with no other.

    In whole pages, as `CheckedMemory` reads, the walk takes three times as long (measured).
    """

    def __init__(self, memory: Memory, space: AddressSpace) -> None:
        self._memory = memory
        self._space = space

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Return `count` little-endian 64-bit words, or raise MemoryFault."""
        if not self._space.readable_regular(address, 8 * count):
            raise MemoryFault(address)
        return self._memory.words(address, count)

    def cstring(self, address: int, limit: int) -> bytes:
        """Return the bytes up to the next NUL among the first `limit`, or raise MemoryFault."""
        text = b""
        while len(text) <= limit:
            here = address + len(text)
            size = self._space.regular_end(here, _STRING) - here
            text += self._memory.read_some(here, size)
            end = text.find(0)
            if end >= 0:
                return text[:end]
        raise MemoryFault(address)


def _objects(scope: Scope, space: AddressSpace) -> Iterator[LoadedObject]:
    if scope.head is None:
        return scope.objects()
    return walk_link_map(_SmallReads(scope.source, space), scope.head)


def unread(reason: str, remedy: str, patterns: Iterable[str] = ()) -> Libraries:
    """Return what is said of a process whose memory could not be read."""
    return Libraries(named=dict.fromkeys(patterns, ()), whole=False, reason=reason, remedy=remedy)


def _mapping(one: LoadedObject, space: AddressSpace) -> Mapping | None:
    return space.at(one.bias if one.dynamic is None else one.dynamic)


def _identity(mapping: Mapping) -> tuple[object, ...]:
    return (mapping.device, mapping.inode, mapping.path)


def _library(one: LoadedObject, mapping: Mapping) -> Library:
    path = mapping.path or one.name
    return Library(path, mapping.device, mapping.inode, one.bias, mapping.deleted)


def _matches(pattern: str, *paths: str) -> bool:
    names = (*paths, *map(os.path.basename, paths))
    return any(fnmatch.fnmatchcase(name, pattern) for name in names if name)


# --- the second look: versions, and what became of deleted files ----------------------------------


class _Told(NamedTuple):
    version: str
    replaced: bool | None = None
    reason: str = ""


def with_versions(processes: tuple[Process, ...], deadline: float) -> tuple[Process, ...]:
    """Return the processes, each copy of libnccl with its version and what became of its file.

    Each file is looked at once, in a child that can be killed, through one of the processes that
    have it; `deadline` is in seconds for each.
    """
    holders: dict[object, tuple[Process, Library]] = {}
    for process in processes:
        for library in _copies(process):
            holders.setdefault((library.identity, library.path), (process, library))
    if not holders:
        return processes
    late = _Told("", None, f"its memory does not answer within {deadline:g} s")
    dead = _Told("", None, "reading it ended the child that read it")
    work = run_each(
        list(holders.values()),
        _look,
        deadline=deadline,
        on_timeout=lambda _: late,
        on_crash=lambda _: dead,
    )
    told = dict(zip(holders, (found for _, found in work), strict=True))
    return tuple(_with(process, told) for process in processes)


def _copies(process: Process) -> tuple[Library, ...]:
    return process.libraries.nccl if process.libraries is not None else ()


def _with(process: Process, told: dict[object, _Told]) -> Process:
    copies = tuple(
        dataclasses.replace(one, **told[one.identity, one.path]._asdict())
        for one in _copies(process)
    )
    if not copies or process.libraries is None:
        return process
    libraries = dataclasses.replace(process.libraries, nccl=copies)
    return dataclasses.replace(process, libraries=libraries)


def _look(held: tuple[Process, Library]) -> _Told:
    process, library = held
    try:
        with ProcessHandle.open(process.pid) as handle:
            if handle.start_ticks != process.identity.start_ticks:
                raise ProcessGone(process.pid)
            replaced = _replaced(handle, library) if library.deleted else None
            with Memory.open(handle) as memory, AddressSpace(handle) as space:
                version = _version(memory, space, library)
    except (AccessRefused, MemoryFault, ProcessGone, Unsupported) as failure:
        return _Told("", None, str(failure))
    reason = "" if version else "no text in its image says it"
    return _Told(version, replaced, reason)


def _replaced(handle: ProcessHandle, library: Library) -> bool | None:
    """Return whether another file now has the path of a deleted one, None if that is not known."""
    try:
        os.close(rootfs.open_regular(handle, library.path))
    except AccessRefused as refused:
        return False if refused.errno in (errno.ENOENT, errno.ENOTDIR) else None
    except Unsupported:
        return True
    return True


def _version(memory: Memory, space: AddressSpace, library: Library) -> str:
    """Return the first version in the library's own image, "" if it holds none."""
    kept = b""
    for address, size in _blocks(space, library):
        block = kept + memory.read_some(address, size)
        found = _VERSION.search(block)
        if found:
            return found.group(1).decode("ascii")
        kept = block[-_OVERLAP:]
    return ""


def _blocks(space: AddressSpace, library: Library) -> Iterator[tuple[int, int]]:
    """Yield where the library's file is mapped, from its beginning on."""
    address, limit = library.base, library.base + MAX_IMAGE_BYTES
    while address < limit:
        mapping = space.at(address)
        ours = mapping is not None and (mapping.device, mapping.inode) == library.identity
        if mapping is None or not ours or not mapping.regular:
            return
        end = min(mapping.end, limit)
        for start in range(address, end, _BLOCK):
            yield start, min(_BLOCK, end - start)
        address = mapping.end
