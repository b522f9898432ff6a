"""The bound on what one reading of a question may read."""

from __future__ import annotations

from typing import Final

from envprobe.cpython.faults import Unreadable
from envprobe.process.checked import Source

READ_BUDGET: Final = 256 << 20


class Metered:
    """Reads of one question, bounded in all; passes them on to the process's memory."""

    __slots__ = ("left", "source")

    def __init__(self, source: Source, budget: int = READ_BUDGET) -> None:
        self.source = source
        self.left = budget

    def read_some(self, address: int, size: int) -> bytes:
        """Return 1 to `size` bytes; MemoryFault, and Unreadable when the budget is used up."""
        data = self.source.read_some(address, size)
        self.left -= len(data)
        if self.left < 0:
            raise Unreadable(f"answering takes more than {READ_BUDGET >> 20} MiB of reads")
        return data
