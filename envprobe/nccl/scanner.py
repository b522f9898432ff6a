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

_NEAR: Final = 2048
"""So many bytes behind a message are read line by line too: messages come in bursts."""

_NEXT: Final = re.compile(rb"NCCL[ \xc2]")

_OTHERS: Final = 64
"""The letter L may stand so often in a block without being the end of `NCCL`."""


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
            if self._dense:
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
        while counted < end:
            if self._lines.following:
                stop = _after(block, self._lines.following, counted, end)
                self._read_lines(clean(block[counted:stop]).split(b"\n")[:-1])
                counted = stop
                continue
            at = _next(block, counted, end)
            if at < 0:
                break
            start = max(block.rfind(b"\n", counted, at) + 1, counted)
            if start > counted:
                self._number += _lines_in(block, counted, start)
            if hits * _DENSE > at - first + 64 * _DENSE:
                self._read_dense(block[start:end])
                return
            counted = block.find(b"\n", min(at + _NEAR, end - 1), end) + 1
            hits += self._read_lines(clean(block[start:counted]).split(b"\n")[:-1])
        self._number += _lines_in(block, counted, end)

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
                if text in known or reader.is_alike(text):
                    tally[text] = 1
                    thread.last = number
                    continue
            if mark or reader.following or b"NCCL " in line:
                reader.read(line, number)
            else:
                held -= 1
        self._number += len(lines)
        return held


def _next(block: bytes, start: int, end: int) -> int:
    """Return where the next `NCCL ` begins, or -1.

    One letter is found by memchr, three times as fast as a word or an expression; L is the rarest
    of the four in the lines of servers. Where it is not, the expression is faster.
    """
    at = start - 1
    for _ in range(_OTHERS):
        at = block.find(b"L", at + 1, end)
        if at < 0:
            return -1
        if _NEXT.match(block, max(at - 3, start), end) is not None:
            return max(at - 3, start)
    found = _NEXT.search(block, at, end)
    return -1 if found is None else found.start()


def _lines_in(block: bytes, start: int, end: int) -> int:
    """Return the number of line feeds: `replace` finds them by memchr, `count` byte by byte."""
    part, around = block, 0
    if end - start > len(block) // 2:
        # To copy most of a block costs more than to count in its ends.
        around = block.count(b"\n", 0, start) + block.count(b"\n", end)
    else:
        part = block[start:end]
    return len(part) - len(part.replace(b"\n", b"")) - around


def _after(block: bytes, lines: int, start: int, end: int) -> int:
    """Return where the bytes end that hold up to so many lines."""
    for _ in range(lines):
        start = block.find(b"\n", start, end) + 1
        if start == end:
            break
    return start
