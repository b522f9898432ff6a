"""The programs and libraries of a process in the order in which the loader looks symbols up.

The order comes from the loader's own list (`struct r_debug` and `struct link_map` of <link.h>,
which glibc and musl both keep for debuggers), so that LD_PRELOAD and deleted files are in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from envprobe.process.checked import CheckedMemory
from envprobe.process.elf import (
    DT_DEBUG,
    PT_PHDR,
    Image,
    NotElf,
    Symbol,
    segments_at,
)
from envprobe.process.handle import MemoryFault, ProcessHandle
from envprobe.process.maps import AddressSpace
from envprobe.process.memory import Memory

AT_PHDR: Final = 3
AT_PHNUM: Final = 5
AT_BASE: Final = 7
AT_SYSINFO_EHDR: Final = 33
MAX_OBJECTS: Final = 4096
_MAX_NAME_BYTES: Final = 4096
_UNNAMED: Final = b"(unnamed)"
_DAMAGED: Final = (MemoryFault, NotElf)


class LoadedObject(NamedTuple):
    """One entry of the loader's list; `name` is "" for the executable, else the file's path.

    `bias` is what was added to the addresses in the file, `dynamic` where its dynamic section lies
    (None: it has none).
    """

    bias: int
    name: str
    dynamic: int | None


class Definition(NamedTuple):
    """A symbol, and the image and name of the first object that defines it."""

    symbol: Symbol
    image: Image
    name: str


class Scope:
    """The look-up order of one process image; objects are read only as far as they are needed.

    `executable` is the image that the kernel started, None if no ELF program is found there.
    `ordered` is false when a dynamically linked program has no loader's list: then the maps stand
    in, and the order is a guess. `source` gives the image's memory as it is now, `memory` checked
    and remembered reads of it. `head` is the address of the list's first entry, None without one.
    """

    __slots__ = (
        "_auxv",
        "_images",
        "_rest",
        "_seen",
        "_space",
        "executable",
        "head",
        "memory",
        "ordered",
        "source",
    )

    def __init__(self, handle: ProcessHandle, memory: Memory, space: AddressSpace) -> None:
        """Find the executable and the loader's list.

        Raises ProcessGone, AccessRefused, Unsupported (32-bit target).
        """
        self.source = memory
        self.memory = CheckedMemory(memory, space)
        self._space = space
        self._auxv = handle.auxv()
        self._images: dict[LoadedObject, Image] = {}
        self._seen: list[LoadedObject] = []
        self.executable = self._find_executable()
        self.head = self._list_head()
        self.ordered = True
        if self.head is not None:
            self._rest = walk_link_map(self.memory, self.head)
        elif self.executable is not None and not self.interpreted:
            self._rest = iter((self._object_of(self.executable, ""),))
        else:
            self.ordered = False
            self._rest = self._mapped()

    @property
    def interpreted(self) -> bool:
        """Whether the program is dynamically linked, so that libraries belong to its scope."""
        return self.executable is None or self.executable.interpreted

    def _find_executable(self) -> Image | None:
        """Take the program headers that the kernel passed, never a file: that may be replaced."""
        try:
            address = self._auxv[AT_PHDR]
            segments = segments_at(self.memory, address, self._auxv[AT_PHNUM])
            for segment in segments:
                if segment.type == PT_PHDR:
                    return Image.of_segments(self.memory, segments, address - segment.address)
            mapping = self._space.at(address)
            if mapping is None:
                return None
            return Image.at_header(self.memory, mapping.start - mapping.offset)
        except (KeyError, *_DAMAGED):
            return None

    def _list_head(self) -> int | None:
        """Return the address of the list's first entry, None if there is no list (yet)."""
        for find in (self._debug_of_executable, self._debug_of_loader):
            try:
                debug = find()
                head = self.memory.word(debug + 8) if debug else 0
            except _DAMAGED:
                continue
            if head:
                return head
        return None

    def _debug_of_executable(self) -> int:
        """Return what the loader wrote into DT_DEBUG; the loader itself may be the program."""
        if self.executable is None:
            return 0
        return self.executable.dynamic.get(DT_DEBUG, 0) or self._debug_symbol(self.executable)

    def _debug_of_loader(self) -> int:
        base = self._auxv.get(AT_BASE, 0)
        return self._debug_symbol(Image.at_header(self.memory, base)) if base else 0

    def _debug_symbol(self, loader: Image) -> int:
        """Return the address of `struct r_debug` by the symbols of glibc's or musl's loader."""
        if (symbol := loader.lookup(b"_r_debug")) is not None:
            return symbol.address
        if (pointer := loader.lookup(b"_dl_debug_addr")) is not None:
            return self.memory.word(pointer.address)
        return 0

    def _object_of(self, image: Image, name: str) -> LoadedObject:
        found = LoadedObject(image.bias, name, image.dynamic_address)
        self._images[found] = image
        return found

    def _mapped(self) -> Iterator[LoadedObject]:
        """Find the images by their ELF headers in the maps: programs first, then libraries."""
        programs: list[LoadedObject] = []
        libraries: list[LoadedObject] = []
        for mapping in self._space.mappings():
            if mapping.offset or not mapping.regular:
                continue
            try:
                if self.source.read_some(mapping.start, 4) != b"\x7fELF":
                    continue
                image = Image.at_header(self.memory, mapping.start)
            except _DAMAGED:
                continue
            group = programs if image.interpreted else libraries
            group.append(self._object_of(image, mapping.path))
        yield from programs
        yield from libraries

    def objects(self) -> Iterator[LoadedObject]:
        """Yield the objects in look-up order; MemoryFault or NotElf where the list is damaged."""
        yield from self._seen
        for found in self._rest:
            self._seen.append(found)
            yield found

    def image(self, loaded: LoadedObject) -> Image:
        """Return the image of one of the objects; MemoryFault, NotElf."""
        if loaded not in self._images:
            self._images[loaded] = Image(self.memory, loaded.bias, loaded.dynamic)
        return self._images[loaded]

    def lookup(self, name: bytes) -> Definition | None:
        """Return the first definition of `name`, as the loader would find it.

        Raises MemoryFault and NotElf if an object before it cannot be searched: it might define the
        name. Without the loader's list such an object is passed over.
        """
        vdso = self._auxv.get(AT_SYSINFO_EHDR)
        for loaded in self.objects():
            if loaded.bias == vdso:  # no program's symbol resolves to it: spare the reads
                continue
            try:
                image = self.image(loaded)
                symbol = image.lookup(name)
            except _DAMAGED:
                if self.ordered:
                    raise
                continue
            if symbol is not None:
                return Definition(symbol, image, loaded.name)
        return None


class Words(Protocol):
    """What reads words and strings (`CheckedMemory`)."""

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Return `count` little-endian 64-bit words, or raise MemoryFault."""

    def cstring(self, address: int, limit: int) -> bytes:
        """Return the bytes up to the next NUL, or raise MemoryFault."""


def walk_link_map(memory: Words, head: int) -> Iterator[LoadedObject]:
    """Yield the entries of the loader's list that starts at `head`.

    Raises MemoryFault, and NotElf for a list that is no list: each entry must point back to the one
    before it, which also rules out cycles.
    """
    entry, before = head, 0
    for _ in range(MAX_OBJECTS):
        bias, name, dynamic, following, previous = memory.words(entry, 5)
        if previous != before:
            raise NotElf("a damaged list of loaded objects")
        # The program comes first, unnamed in glibc and by its path in musl, which leaves the vDSO
        # unnamed instead.
        text = memory.cstring(name, _MAX_NAME_BYTES) if name else b""
        yield LoadedObject(bias, os.fsdecode(text or _UNNAMED) if before else "", dynamic)
        if not following:
            return
        entry, before = following, entry
    raise NotElf("a list of loaded objects without end")
