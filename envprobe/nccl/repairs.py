"""Lines that were damaged on their way: what is put together again, and a list of the rest.

C stdio writes a pipe in blocks of 4096 bytes, so several processes cut each other's lines. The end
of `... - Init COMPLETE` is worth finding: without it a rank seems to hang.
"""

from __future__ import annotations

import os
import re
from typing import Final

from envprobe.nccl.builders import ProcessBuilder, RankBuilder
from envprobe.nccl.facts import Damage, DamageKind
from envprobe.nccl.grammar import TEXT_NAMES
from envprobe.nccl.place import Place

KEPT: Final = 100
"""Damaged lines that are kept of each kind; all are counted."""

_PENDING: Final = 256
_START: Final = b"- Init START"
_COMPLETE: Final = b" - Init COMPLETE"
_TAIL: Final = 8
_HEAD: Final = 24


_LISTS: Final = frozenset((b"NCCL_ALGO", b"NCCL_PROTO", b"NCCL_THREAD_THRESHOLDS"))
_LEVELS: Final = frozenset((b"NCCL_P2P_LEVEL", b"NCCL_P2P_DISABLE", b"NCCL_NET_GDR_LEVEL"))
_LIST: Final = re.compile(rb"[\w,^:;]*")
_LEVEL: Final = re.compile(rb"[A-Z0-9]{3}")


def is_doubtful(name: bytes, value: bytes) -> bool:
    """Tell whether a text may be a beginning with the end of another line behind it.

    Only for files with cut lines: an unusual text is what a user may have given.
    """
    if name in _LEVELS:
        return _LEVEL.fullmatch(value) is None
    if name in _LISTS:
        return _LIST.fullmatch(value) is None
    # A name that is not read as a text prints an integer.
    return name not in TEXT_NAMES or b" " in value


class Repairs:
    """The damage of all files, and the beginnings of messages that wait for their ends."""

    def __init__(self) -> None:
        self.counts: dict[DamageKind, int] = {}
        self.kept: list[tuple[DamageKind, Place, str, ProcessBuilder | None]] = []
        self._heads: list[tuple[RankBuilder, bytes]] = []

    def add(
        self, kind: DamageKind, place: Place, text: bytes, process: ProcessBuilder | None = None
    ) -> None:
        """Note one damaged line."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= KEPT:
            self.kept.append((kind, place, os.fsdecode(text[:1024]), process))

    def cut(self, process: ProcessBuilder, text: bytes) -> bool:
        """Remember the beginning of a text if it may be an `Init COMPLETE`; tell whether it is."""
        before = len(self._heads)
        for rank in process.ranks[-64:]:
            if rank.completed is not None or not rank.text:
                continue
            shared = _shared(_completed(rank), text)
            # A text that differs later has the end of another message behind its own beginning.
            if shared == len(text) or shared >= _HEAD:
                self._heads.append((rank, text[:shared]))
        found = len(self._heads) > before
        del self._heads[:-_PENDING]
        return found

    def end(self, line: bytes, place: Place) -> bool:
        """Join a line's end to a remembered beginning; tell whether that was possible."""
        for index, (rank, head) in enumerate(self._heads):
            tail = _completed(rank)[len(head) :]
            if rank.completed is None and len(tail) >= _TAIL and line.endswith(tail):
                rank.completed, rank.repaired = place, True
                self.add(DamageKind.REPAIRED, place, head + tail, rank.process)
                del self._heads[index]
                return True
        return False

    def damage(self, index: dict[ProcessBuilder, int]) -> tuple[Damage, ...]:
        """Return the kept ones as facts."""
        return tuple(
            Damage(kind, place, text, index.get(process) if process is not None else None)
            for kind, place, text, process in self.kept
        )


def _completed(rank: RankBuilder) -> bytes:
    """Return the text that says that this rank's communicator is made (src/init.cc)."""
    begun = rank.text.removesuffix(_START).rstrip()
    return begun[begun.find(b"] ") + 2 if begun.startswith(b"[Rank ") else 0 :] + _COMPLETE


def _shared(one: bytes, other: bytes) -> int:
    """Return the length of the beginning that both have."""
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))
