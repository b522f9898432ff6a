"""Memory made of a few buffers, for decoders that must survive any bytes whatever.

A stand-in is right here: no real process can be made to hold every hostile layout that hypothesis
thinks of. Real targets are in test_environ_libc.py.
"""

from __future__ import annotations

import dataclasses

from envprobe.process.checked import CheckedMemory
from envprobe.process.handle import MemoryFault


@dataclasses.dataclass
class Regions:
    """Readable regions by their start, and how many bytes were read of them."""

    regions: dict[int, bytes]
    bytes_read: int = 0

    def read_some(self, address: int, size: int) -> bytes:
        for start, data in self.regions.items():
            if start <= address < start + len(data):
                piece = data[address - start : address - start + size]
                self.bytes_read += len(piece)
                return piece
        raise MemoryFault(address)

    def regular_end(self, address: int, size: int) -> int:
        here = address
        while here < address + size:
            for start, data in self.regions.items():
                if start <= here < start + len(data):
                    here = start + len(data)
                    break
            else:
                break
        return min(here, address + size)

    def checked(self) -> CheckedMemory:
        return CheckedMemory(self, self)
