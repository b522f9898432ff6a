"""The memory of another process, read without stopping it.

/proc/PID/mem comes first: its descriptor is pinned to the address space, so that after an exit or
an exec it reads nothing, never another program's bytes. Refused to this reader, it may be opened by
an ancestor of the process that lends it. process_vm_readv(2) is for readers to whom the kernel
refuses the file; it goes by number, so the handle is checked around each call.
"""

from __future__ import annotations

import errno
import os
import struct
from typing import Final

from envprobe.process.closing import Closing
from envprobe.process.handle import AccessRefused, MemoryFault, ProcessHandle

ADDRESS_LIMIT: Final = 1 << 63
"""os.pread raises OverflowError from here on; no user memory lies above."""

_REFUSED: Final = (errno.EPERM, errno.EACCES)


class Memory(Closing):
    """An open address space; a context manager that closes its descriptor."""

    __slots__ = ("_descriptor", "_handle")

    def __init__(self, handle: ProcessHandle, descriptor: int | None) -> None:
        self._handle = handle
        self._descriptor = descriptor

    @classmethod
    def open(cls, handle: ProcessHandle) -> Memory:
        """Open the memory of `handle`'s process.

        Raises ProcessGone, and AccessRefused when both ways are refused (ESRCH: no memory, as with
        kernel threads and zombies).
        """
        try:
            return cls(handle, handle.open_file("mem"))
        except AccessRefused as refused:
            if refused.errno not in _REFUSED:
                raise
            if (lent := handle.borrow("mem")) is not None:
                return cls(handle, lent)
            memory = cls(handle, None)
            try:
                memory._read_by_number(0, 1)
            except MemoryFault as fault:  # past the permission check: only the address is wrong
                if isinstance(fault.__cause__, ProcessLookupError):
                    raise AccessRefused(errno.ESRCH, "mem") from None
                return memory
            except (AccessRefused, ImportError):  # some interpreters have no ctypes
                raise refused from None
            return memory

    def close(self) -> None:
        """Close the descriptor; later reads raise MemoryFault."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor is not None and descriptor >= 0:
            os.close(descriptor)

    @property
    def pinned(self) -> bool:
        """Whether reads can only ever give this image's memory (/proc/PID/mem)."""
        return self._descriptor is not None

    def read_some(self, address: int, size: int) -> bytes:
        """Return 1 to `size` bytes from `address` on, short where readable memory ends.

        Raises MemoryFault when not even the first byte can be read.
        """
        if not 0 <= address < ADDRESS_LIMIT or size <= 0:
            raise MemoryFault(address)
        size = min(size, ADDRESS_LIMIT - address)
        if self._descriptor is None:
            return self._read_by_number(address, size)
        try:
            data = os.pread(self._descriptor, size, address)
        except OSError:
            raise MemoryFault(address) from None
        if not data:
            raise MemoryFault(address)
        return data

    def _read_by_number(self, address: int, size: int) -> bytes:
        from envprobe.process.syscalls import process_vm_readv

        if not self._handle.same():
            raise MemoryFault(address)
        try:
            data = process_vm_readv(self._handle.memory_task, address, size)
        except OSError as error:
            if error.errno in (*_REFUSED, errno.ENOSYS):
                raise AccessRefused(error.errno or 0, "process_vm_readv") from None
            raise MemoryFault(address) from error
        if not data or not self._handle.same():
            raise MemoryFault(address)
        return data

    def read(self, address: int, size: int) -> bytes:
        """Return exactly `size` bytes, or raise MemoryFault."""
        data = self.read_some(address, size)
        while len(data) < size:  # a short read ends at a page that may still be faulted in
            data += self.read_some(address + len(data), size - len(data))
        return data

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Return `count` little-endian 64-bit words, or raise MemoryFault."""
        return struct.unpack(f"<{count}Q", self.read(address, 8 * count))

    def alive(self) -> bool:
        """Return whether the address space still exists and belongs to the process.

        A dead one reads as nothing; in a living one address 0 is a fault, or memory.
        """
        if self._descriptor is None:
            return self._handle.same()
        if self._descriptor < 0:
            return False
        try:
            return len(os.pread(self._descriptor, 1, 0)) == 1
        except OSError as error:
            return error.errno == errno.EIO
