"""Finding messages in blocks of text, and the two loops that make it fast.

Most lines of a long log repeat: their prefix and their text were read before. Both loops look them
up and add one to a tally; whatever is not that plain goes to `Lines`. The dense loop takes every
line; the sparse loop jumps from one `NCCL ` to the next.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from envprobe.nccl.lines import COMM, FUNCTION, Lines
from envprobe.nccl.streams import Stream, clean

_DENSE: Final = 512
"""A block with more than one message in so many bytes is read line by line."""

_NEXT: Final = re.compile(rb"NCCL[ \xc2]")
"""A compiled expression is faster here than bytes.find (measured on CPython 3.11)."""


class Scanner:
    """Reads the blocks of one stream."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._dense = False
        self._number = 1

    def read(self, stream: Stream, progress: Callable[[str, int], None]) -> None:
        """Read a stream to its end; `progress` is told its name and the bytes read so far."""
        for block, start, end in stream.blocks():
            whole = max(block.rfind(b"\n", start, end) + 1, start)
            if self._dense or self._lines.following:
                self._read_dense(block[start:whole])
            else:
                self._read_sparse(block, start, whole)
            if whole < end:
                # The log breaks off here: whatever this line says may go on.
                self._lines.read(clean(block[whole:end]), self._number, broken=True)
                self._number += 1
            progress(stream.name, stream.size)
        stream.lines = self._number - 1
        self._lines.finish()

    def _read_sparse(self, block: bytes, counted: int, end: int) -> None:
        """Read the whole lines between two bounds; `counted` is where line `_number` begins."""
        first, hits = counted, 0
        while (found := _NEXT.search(block, counted, end)) is not None:
            at = found.start()
            start = max(block.rfind(b"\n", counted, at) + 1, counted)
            self._number += block.count(b"\n", counted, start)
            hits += 1
            if hits * _DENSE > at - first + 8 * _DENSE:
                self._read_dense(block[start:end])
                return
            stop = block.find(b"\n", at, end) + 1
            self._read_lines([clean(block[start:stop]).removesuffix(b"\n")])
            counted = stop
            if self._lines.following:
                self._read_dense(block[stop:end])
                return
        self._number += block.count(b"\n", counted, end)

    def _read_dense(self, block: bytes) -> None:
        if not block:
            return
        lines = clean(block).split(b"\n")
        lines.pop()
        self._dense = self._read_lines(lines) * 4 > len(lines)

    def _read_lines(self, lines: list[bytes]) -> int:
        """Read lines without their line feeds; return how many held a message."""
        reader, known = self._lines, self._lines.known
        thread_of = reader.registry.heads.get
        held = len(lines)
        for number, line in enumerate(lines, self._number):
            # From the right: a second message in the line makes a head that is not known.
            head, mark, text = line.rpartition(b" NCCL INFO ")
            thread = thread_of(head)
            if thread is not None:
                tally = thread.tally
                if text in tally:
                    tally[text] += 1
                    thread.last = number
                    continue
                call = text[:FUNCTION] + text.rpartition(COMM)[2]
                if call in tally:
                    tally[call] += 1
                    thread.last = number
                    continue
                if text in known:
                    tally[text] = 1
                    thread.last = number
                    continue
            if mark or reader.following or b"NCCL " in line:
                reader.read(line, number)
            else:
                held -= 1
        self._number += len(lines)
        return held
