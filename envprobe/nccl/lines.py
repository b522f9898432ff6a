"""One line at a time, with all that can be wrong with it: the way of lines that do not repeat."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
from typing import Final

from envprobe.nccl import grammar, messages
from envprobe.nccl.builders import ThreadBuilder
from envprobe.nccl.facts import DamageKind, Wording
from envprobe.nccl.matrices import WITHIN, Matrices
from envprobe.nccl.place import Place
from envprobe.nccl.prefixes import MARK, STAMPED, Prefix, launchers
from envprobe.nccl.prefixes import read as read_prefix
from envprobe.nccl.registry import Registry, key_of, key_of_level
from envprobe.nccl.repairs import Repairs, is_doubtful

CACHED: Final = 1 << 16
"""Most prefixes and most texts that are remembered."""

FOLLOWING: Final = 4096
"""Lines after a cut message that are looked at for its end."""

FUNCTION: Final = 14
"""The first bytes of the text of a collective call: they hold every function's name."""

COMM: Final = b" comm "
"""What stands before the pointer, the number of ranks and the stream of a collective call."""

LONGEST: Final = 1022
"""NCCL writes no longer line: buffer[1024] of src/debug.cc also holds a line feed and a NUL."""

_BANNER: Final = re.compile(rb"\s*((?:NCCL|RCCL) version \d[^\s`]*)[\s`]*")
_REPEATED: Final = re.compile(rb"\s*\[repeated (\d+)x across cluster\].*", re.DOTALL)
_GLUED: Final = re.compile(rb"[\w.-]+(?::\d*){0,2}")
_SHAPE: Final = bytes.maketrans(b"123456789", b"0" * 9)
"""The grammar tells no digit from another, except 0x from 1x, which NCCL does not write."""

_WARNINGS: Final = (b"WARN", b"ATTN")
_MADE: Final = b"- Init COMPLETE"


@dataclasses.dataclass(slots=True)
class Piece:
    """One message of a line. `cut` is true if another message begins before its end."""

    prefix: Prefix
    level: bytes
    text: bytes = b""
    cut: bool = False


class Lines:
    """Reads lines into a registry. `following` counts lines that matter without being messages."""

    def __init__(self, registry: Registry, repairs: Repairs) -> None:
        self.registry = registry
        self.known: set[bytes] = set()
        self._shapes: set[bytes] = set()
        self.following = 0
        self.banners: dict[str, int] = {}
        self.launchers: set[str] = set()
        self._repairs = repairs
        self._damaged = False
        self._matrices = Matrices(registry)

    def read(self, line: bytes, number: int, *, broken: bool = False) -> None:
        """Read one line, without its line feed; if `broken` it has none, and may have lost more."""
        place = Place(self.registry.file, number)
        marks = list(MARK.finditer(line))
        if self.following:
            self.following -= 1
        if not marks:
            self._unmarked(line, place)
            return
        if len(marks) == 1 and marks[0][1] == b"INFO" and not broken:
            thread = self._known(line[: marks[0].start()].removesuffix(b" "))
            if thread is not None:
                self._known_info(thread, line[marks[0].end() :], place)
                return
        pieces = self._pieces(line, marks, place)
        if broken:
            pieces[-1].cut = True
            self._repairs.add(DamageKind.INCOMPLETE, place, line)
        for piece in pieces:
            self._piece(piece, line, place, alone=len(pieces) == 1)

    def _known(self, head: bytes) -> ThreadBuilder | None:
        """Return the thread of a prefix that was read before, whatever its time is."""
        stamp = STAMPED.match(head)
        if stamp is None:
            return self.registry.heads.get(head)
        thread = self.registry.heads.get(head[stamp.end() :])
        if thread is not None:
            thread.process.last_stamp = os.fsdecode(stamp[1] or stamp[2])
        return thread

    def _known_info(self, thread: ThreadBuilder, text: bytes, place: Place) -> None:
        if text in self.known:
            thread.last = place.line
            thread.count(text)
        else:
            self._info(thread, text, place)

    def finish(self) -> None:
        """Give away what waits for more lines, and doubt texts if the file has cut lines."""
        self._matrices.flush()
        if not self._damaged:
            return
        for process in self.registry.processes:
            for variable in process.variables.values():
                read = variable.message
                if read.wording is Wording.TEXT and is_doubtful(read.name, read.value):
                    variable.whole = False

    def _pieces(self, line: bytes, marks: list[re.Match[bytes]], place: Place) -> list[Piece]:
        prefix = self._first(line[: marks[0].start()], place)
        pieces = [Piece(prefix, marks[0][1])]
        begun = marks[0].end()
        for before, mark in itertools.pairwise(marks):
            between = line[before.end() : mark.start()]
            prefix = read_prefix(between, inside=pieces[0].prefix)
            if prefix.host is None:
                # Words of the text: a second message has a prefix.
                continue
            host = self.registry.real_host(prefix.host, prefix.pid, inside=True)
            end = before.end() + prefix.start + len(prefix.host) - len(host)
            pieces[-1].text = line[begun:end]
            pieces[-1].cut = True
            self._damaged = True
            self._repairs.add(DamageKind.GLUED, place, line)
            pieces.append(Piece(dataclasses.replace(prefix, host=host), mark[1]))
            begun = mark.end()
        pieces[-1].text = line[begun:]
        return pieces

    def _first(self, head: bytes, place: Place) -> Prefix:
        prefix = read_prefix(head)
        self.launchers.update(prefix.launchers)
        if prefix.host is None:
            self._repairs.add(DamageKind.NO_PREFIX, place, head)
            return prefix
        host = self.registry.real_host(prefix.host, prefix.pid)
        if host != prefix.host or _GLUED.fullmatch(prefix.stray):
            self._damaged = True
            self._repairs.add(DamageKind.GLUED, place, head)
            self._repairs.add(DamageKind.CUT, place, head[: prefix.start])
            return dataclasses.replace(prefix, host=host, lasting=False, stamp="")
        return prefix

    def _piece(self, piece: Piece, line: bytes, place: Place, *, alone: bool) -> None:
        prefix, text = piece.prefix, piece.text
        thread = self.registry.thread(prefix, place)
        if prefix.quoted:
            text = text.rstrip(b"`")
        if piece.level == b"INFO":
            if alone and prefix.lasting and not prefix.quoted:
                head = line.partition(b" NCCL INFO ")[0]
                stamp = STAMPED.match(head)
                self._remember(head[stamp.end() :] if stamp else head, thread)
            self._info(thread, text, place, cut=piece.cut)
        elif piece.level in _WARNINGS:
            level = piece.level.decode()
            self.registry.warn(thread, prefix, level, os.fsdecode(text), place)
            message = grammar.read(text)
            if isinstance(message, messages.Variable):
                self.registry.take(thread, message, place, not piece.cut, counted=False)
        else:
            thread.last = place.line
            thread.count(key_of_level(piece.level.decode()))

    def _remember(self, head: bytes, thread: ThreadBuilder) -> None:
        heads = self.registry.heads
        if len(heads) >= CACHED:
            heads.clear()
        heads[head] = thread
        thread.process.heads.add(head)

    def _info(self, thread: ThreadBuilder, text: bytes, place: Place, *, cut: bool = False) -> None:
        repeated = 0
        if b"across cluster]" in text and (found := _REPEATED.search(text)) is not None:
            repeated, text = int(found[1]), text[: found.start()]
            self._repairs.add(DamageKind.DEDUPLICATED, place, text, thread.process)
        elif cut:
            self._repairs.add(DamageKind.CUT, place, text, thread.process)
        elif _is_long(thread, text):
            cut = True
            self._repairs.add(DamageKind.LONG, place, text, thread.process)
        message = grammar.read(text)
        if cut or message is messages.UNKNOWN:
            self._cut(thread, text, place)
        if isinstance(message, messages.Counted):
            thread.last = place.line
            thread.count(key_of(message) if cut or repeated else self._kept(text, message))
            return
        self.registry.take(thread, message, place, not cut, repeated)
        if isinstance(message, messages.Init) and message.phase == "Init START":
            self.registry.begun(thread, message, text)
        elif isinstance(message, messages.MatrixHead):
            self._matrices.begin(thread, thread.process.identity, place)
            self.following = max(self.following, WITHIN)

    def _kept(self, text: bytes, message: messages.Counted) -> bytes:
        """Return the key under which messages of this text are counted, from now on at once."""
        if message is messages.UNKNOWN:
            return key_of(message)
        key = text
        if isinstance(message, messages.Called):
            key = text[:FUNCTION] + text.rpartition(COMM)[2]
            if b":" not in text[:FUNCTION]:
                return key_of(message)
        _remember(self.known, key)
        if key is text:
            _remember(self._shapes, text.translate(_SHAPE))
        return key

    def is_alike(self, text: bytes) -> bool:
        """Tell whether a text differs from a known one in digits only, and so is counted too."""
        if text.translate(_SHAPE) not in self._shapes:
            return False
        _remember(self.known, text)
        return True

    def _cut(self, thread: ThreadBuilder, text: bytes, place: Place) -> None:
        """Remember a beginning, and look whether the text ends with the end of another."""
        if text.endswith(_MADE):
            self._repairs.end(text, place)
        if self._repairs.cut(thread.process, text):
            self.following = FOLLOWING

    def _unmarked(self, line: bytes, place: Place) -> None:
        if b"NCCL" in line or b"RCCL" in line:
            found = launchers(line)
            banner = _BANNER.fullmatch(found.rest)
            if banner is not None:
                text = banner[1].decode("ascii", "replace")
                self.banners[text] = self.banners.get(text, 0) + 1
                return
        if not self.following:
            return
        if self._matrices.row(line, place):
            return
        if line.rstrip().endswith(_MADE) and not self._repairs.end(line.rstrip(), place):
            self._damaged = True
            self._repairs.add(DamageKind.TAIL, place, line)


def _remember(texts: set[bytes], text: bytes) -> None:
    if len(texts) >= CACHED:
        texts.clear()
    texts.add(text)


def _is_long(thread: ThreadBuilder, text: bytes) -> bool:
    """Tell whether the line is as long as NCCL's buffer, so that its end may be missing."""
    if len(text) < LONGEST - 320:
        return False
    process = thread.process
    device = min(thread.devices, default=0)
    own = f"{process.host}:{process.pid}:{thread.tid} [{device}] NCCL INFO "
    return len(own) + len(text) >= LONGEST
