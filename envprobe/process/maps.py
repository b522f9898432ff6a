"""What is mapped where in a process: single look-ups by ioctl, else in the text of /proc/PID/maps.

The ioctl PROCMAP_QUERY (Linux 6.11, include/uapi/linux/fs.h) costs microseconds; reading the text
costs milliseconds in a process with thousands of mappings, and parsing all of it several more.
"""

from __future__ import annotations

import array
import bisect
import errno
import fcntl
import os
import struct
from typing import Final, NamedTuple

from envprobe.process.closing import Closing
from envprobe.process.handle import AccessRefused, ProcessHandle
from envprobe.process.memory import ADDRESS_LIMIT

MAX_MAPS_BYTES: Final = 64 << 20
_PROCMAP_QUERY: Final = 0xC0686611  # _IOWR('f', 17, struct procmap_query)
_QUERY: Final = struct.Struct("<9Q4I2Q")
_NO_ANSWER: Final = (0,) * 8
_NAME_BYTES: Final = 4096
_PERMS: Final = tuple(
    "".join(letter if bits & 1 << n else "-" for n, letter in enumerate("rwx"))
    + ("s" if bits & 8 else "p")
    for bits in range(16)
)
_DELETED: Final = " (deleted)"
_UNREADABLE_KERNEL_PAGES: Final = ("[vvar", "[vsyscall")
_DEVICE_ROOTS: Final = ("/dev/", "/sys/", "/proc/")
_MEMORY_IN_DEV: Final = ("/dev/shm/", "/dev/zero", "/dev/hugepages/")


class Mapping(NamedTuple):
    """One line of /proc/PID/maps, proc_pid_maps(5).

    `path` is "" for anonymous memory, a file's path without " (deleted)", or a name such as
    `[heap]`. `device` is (major, minor).
    """

    start: int
    end: int
    perms: str
    offset: int
    device: tuple[int, int]
    inode: int
    path: str
    deleted: bool

    @property
    def regular(self) -> bool:
        """Whether it can be read without touching a device: memory, or a mapped ordinary file.

        Told by the name: a node that a container has outside /dev passes for a file.
        """
        if "r" not in self.perms:
            return False
        path = self.path
        if not path.startswith("/"):
            named = path.startswith("[") and not path.startswith(_UNREADABLE_KERNEL_PAGES)
            return not path or named
        return not path.startswith(_DEVICE_ROOTS) or path.startswith(_MEMORY_IN_DEV)


class AddressSpace(Closing):
    """The mappings of one process image; a context manager that closes its descriptor.

    What was looked up is remembered: mappings made later are not seen where one was known.
    """

    __slots__ = ("_descriptor", "_ends", "_known", "_lines", "_name", "_query")

    def __init__(self, handle: ProcessHandle, *, query: bool = True) -> None:
        """Open the maps of `handle`'s process; `query=False` leaves the ioctl unused.

        Raises ProcessGone, AccessRefused.
        """
        self._known: list[Mapping] = []
        self._ends: list[int] = []
        self._lines: list[bytes] | None = None
        self._query = query
        self._name = array.array("B", bytes(_NAME_BYTES))
        self._descriptor = handle.open_file("maps")

    def close(self) -> None:
        """Close the descriptor; what was looked up stays known."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def at(self, address: int) -> Mapping | None:
        """Return the mapping that holds `address`; None if there is none, or the image is gone.

        Raises AccessRefused when the maps cannot be read.
        """
        place = bisect.bisect_right(self._ends, address)
        if place < len(self._ends) and self._known[place].start <= address:
            return self._known[place]
        if not 0 <= address < ADDRESS_LIMIT:
            return None
        found = self._ask(address) if self._query else None
        if not self._query:  # also when _ask has just learnt that the kernel cannot
            found = self._search(address)
        if found is not None:
            place = bisect.bisect_left(self._ends, found.end)
            self._ends.insert(place, found.end)
            self._known.insert(place, found)
        return found

    def _ask(self, address: int) -> Mapping | None:
        """Look up one mapping by ioctl; turns `_query` off where the kernel does not know it."""
        where, room = self._name.buffer_info()
        query = bytearray(_QUERY.pack(_QUERY.size, 0, address, *_NO_ANSWER, room, 0, where, 0))
        try:
            fcntl.ioctl(self._descriptor, _PROCMAP_QUERY, query)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ESRCH):
                self._query = False
            return None
        _, _, _, start, end, flags, _, offset, inode, major, minor, length, *_ = _QUERY.unpack(
            query
        )
        path = os.fsdecode(self._name[: length - 1].tobytes()) if length else ""
        return _mapping(start, end, _PERMS[flags & 15], offset, (major, minor), inode, path)

    def _text(self) -> list[bytes]:
        if self._lines is None:
            self._lines = _read_all(self._descriptor).split(b"\n")[:-1]
        return self._lines

    def _search(self, address: int) -> Mapping | None:
        """Look up one mapping in the text, whose lines are in order: only a few get parsed."""
        lines = self._text()
        place = bisect.bisect_right(lines, address, key=_start_of) - 1
        found = parse(lines[place]) if place >= 0 else None
        return found if found is not None and address < found.end else None

    def mappings(self) -> list[Mapping]:
        """Return all mappings in order of address; none once the image is gone; AccessRefused."""
        return [parse(line) for line in self._text()]

    def readable_regular(self, address: int, size: int = 1) -> bool:
        """Return whether all of [address, address + size) may be read; AccessRefused."""
        return self.regular_end(address, size) >= address + size

    def regular_end(self, address: int, size: int) -> int:
        """Return where readable regular memory ends, from `address` on and at most `size` later.

        Equal to `address` when there is none; AccessRefused.
        """
        here, limit = address, address + size
        while here < limit:
            mapping = self.at(here)
            if mapping is None or not mapping.regular:
                break
            here = mapping.end
        return min(here, limit)


def _read_all(descriptor: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        while chunk := os.read(descriptor, 1 << 16):
            size += len(chunk)
            if size > MAX_MAPS_BYTES:
                raise AccessRefused(errno.EFBIG, "maps")
            chunks.append(chunk)
    except ProcessLookupError:  # the image is gone; older kernels give an empty text
        return b""
    except OSError as error:
        raise AccessRefused(error.errno or 0, "maps") from error
    return b"".join(chunks)


def _start_of(line: bytes) -> int:
    return int(line[: line.index(b"-")], 16)


def parse(line: bytes) -> Mapping:
    r"""Parse one line of /proc/PID/maps; a newline in a path is written as \012 there."""
    span, perms, offset, device, inode, *rest = line.split(None, 5)
    start, _, end = span.partition(b"-")
    major, _, minor = device.partition(b":")
    return _mapping(
        int(start, 16),
        int(end, 16),
        perms.decode("ascii"),
        int(offset, 16),
        (int(major, 16), int(minor, 16)),
        int(inode),
        os.fsdecode(rest[0].replace(b"\\012", b"\n")) if rest else "",
    )


def _mapping(
    start: int, end: int, perms: str, offset: int, device: tuple[int, int], inode: int, path: str
) -> Mapping:
    deleted = path.startswith("/") and path.endswith(_DELETED)
    if deleted:
        path = path[: -len(_DELETED)]
    return Mapping(start, end, perms, offset, device, inode, path, deleted)
