"""The exec view: the kernel's block behind /proc/PID/environ, and what became of it.

execve(2) writes the entries one after another, each ended by a NUL. Programs that show a title
(setproctitle and others) write it over their arguments and over the entries that follow, and fill
the rest of that area with NULs: a run of NULs where an entry should begin is such a trace.
setproctitle 1.3 takes only entries that still are where execve put them, so those behind the first
one that was changed survive, with the values of exec time (measured).
"""

from __future__ import annotations

import dataclasses
import hashlib
import mmap
import os
import re
from collections.abc import Callable, Collection
from typing import Final

from envprobe.model import BlockState, Environment, EnvironmentStatus, View
from envprobe.process.access import explain
from envprobe.process.handle import AccessRefused, ProcessHandle, Stat
from envprobe.values import Value

MAX_NAME_BYTES: Final = 4096
MAX_STRINGS: Final = 1 << 18
MAX_ODDITIES: Final = 64
MAX_ODDITY_BYTES: Final = 4096
_TRIES: Final = 4
_WHAT: Final = "the exec block"
_SHORTEST_VARIABLE: Final = len(b"N=\0")
"""Empty strings in a row that can have been a variable before; fewer are what execve(2) was given:
it hands over empty strings as they are."""

_PIECE: Final = re.compile(rb"([^\0]*)(\0*)")
_REMEDY: Final = (
    "Start the server with SPT_NOENV=1 next time, which keeps setproctitle out of this block."
)


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """What the bytes of one block say; the entries are those of `Environment`.

    A string that may be what is left of another one is in none of them. `reason` says what
    happened, "" for INTACT.
    """

    state: BlockState
    entries: dict[str, Value | None]
    duplicates: dict[str, tuple[Value | None, ...]]
    oddities: tuple[Value, ...]
    reason: str = ""


def classify(
    block: bytes,
    *,
    spilled: bool = False,
    size: int | None = None,
    live: Collection[int] = frozenset(),
    wanted: Callable[[str], bool] = lambda name: True,
) -> Block:
    """Decode a block and tell what was done to it.

    `spilled` says that a title runs into it, so that its first string is no entry. `size` is the
    kernel's size of the block, if less than that could be read. `live` holds the offsets at which
    entries of the live C environ still begin, which proves them whole. Only values of `wanted`
    names are kept.
    """
    decoder = _Decoder(spilled, live, wanted)
    for number, piece in enumerate(_PIECE.finditer(block)):
        if number == MAX_STRINGS:
            decoder.damage = f"has more than {MAX_STRINGS} strings"
            break
        decoder.take(piece)
    if size is not None and len(block) < size:
        decoder.damage = f"could be read for {len(block)} of {size} bytes only"
    return decoder.result()


class _Decoder:
    """Takes the strings of a block in order, with the NULs behind each."""

    def __init__(self, spilled: bool, live: Collection[int], wanted: Callable[[str], bool]) -> None:
        self.damage = ""
        self._spilled = spilled
        self._live = live
        self._wanted = wanted
        self._entries: dict[str, Value | None] = {}
        self._duplicates: dict[str, list[Value | None]] = {}
        self._oddities: list[Value] = []
        self._in_title = spilled
        self._strings = 0
        self._wiped = False
        self._suspect = False

    def take(self, piece: re.Match[bytes]) -> None:
        """Take a string and the NULs behind it; the block's first may be NULs alone."""
        text, nuls = piece[1], len(piece[2])
        if self._in_title:
            # A title is padded with at least one NUL more (measured with setproctitle 1.3.8);
            # without, the next string may be the rest of an entry under the title.
            self._in_title = False
            self._suspect = nuls == 1
        elif text:
            self._take_string(text, ended=nuls > 0, whole=piece.start() in self._live)
        self._take_empty(nuls - bool(text))

    def _take_string(self, text: bytes, *, ended: bool, whole: bool) -> None:
        self._strings += 1
        if not ended:
            self.damage = self.damage or "has lost its end"
        elif self._suspect and not whole:
            self.damage = self.damage or "was overwritten in part"
        else:
            self._keep(text)
        self._suspect = False

    def _take_empty(self, count: int) -> None:
        if count < _SHORTEST_VARIABLE:
            for _ in range(count):
                self._keep(b"")
            return
        if self._strings:
            # Titles begin at the front: this gap is other code's, and may end within an entry.
            self.damage = self.damage or "was overwritten in part"
            self._suspect = True
        self._wiped = True

    def _keep(self, text: bytes) -> None:
        raw_name, sign, raw = text.partition(b"=")
        if not sign or not raw_name or len(raw_name) > MAX_NAME_BYTES:
            if len(self._oddities) < MAX_ODDITIES:
                self._oddities.append(_shortened(text))
            return
        name = os.fsdecode(raw_name)
        value = Value(raw) if self._wanted(name) else None
        if name in self._entries:
            self._duplicates.setdefault(name, []).append(value)
        else:
            self._entries[name] = value

    def result(self) -> Block:
        """Return what the strings taken so far amount to."""
        state, reason = BlockState.INTACT, ""
        if self._spilled:
            state, reason = BlockState.SPILLED, "has a long title written into it"
        elif self._wiped and not self._strings:
            state, reason = BlockState.WIPED, "was overwritten by a title (setproctitle)"
        elif self._wiped or self.damage:
            state = BlockState.PARTLY_WIPED
            reason = self.damage or "was overwritten in part by a title (setproctitle)"
        return Block(
            state=state,
            entries=self._entries,
            duplicates={name: tuple(values) for name, values in self._duplicates.items()},
            oddities=tuple(self._oddities),
            reason=reason,
        )


def _shortened(text: bytes) -> Value:
    return Value(text[:MAX_ODDITY_BYTES], length=len(text), digest=hashlib.sha256(text).hexdigest())


_STATUS: Final = {
    BlockState.INTACT: EnvironmentStatus.COMPLETE,
    BlockState.WIPED: EnvironmentStatus.UNREADABLE,
    BlockState.PARTLY_WIPED: EnvironmentStatus.PARTIAL,
    BlockState.SPILLED: EnvironmentStatus.PARTIAL,
}


def read_exec(
    handle: ProcessHandle,
    *,
    at: float | None = None,
    wanted: Callable[[str], bool] = lambda name: True,
    live_addresses: Collection[int] = (),
) -> Environment:
    """Read the exec view of a process; raises ProcessGone.

    `at` is the process's start time, Unix seconds; `live_addresses` are those of its live C
    environ's entries, if known (see `classify`). For a fork child the block is that of the ancestor
    that was exec'd: whose it is, the caller decides.
    """
    empty = Environment(
        View.EXEC,
        EnvironmentStatus.UNREADABLE,
        block=BlockState.UNREADABLE,
        source=f"/proc/{handle.pid}/environ",
        at=at,
    )
    try:
        sight, block = _settled(handle, wanted, live_addresses)
    except AccessRefused as refused:
        reason, remedy = explain(handle, refused, _WHAT)
        return dataclasses.replace(empty, reason=reason, remedy=remedy)
    if block is None:
        return dataclasses.replace(
            empty,
            status=EnvironmentStatus.CHANGING,
            block=None,
            reason=f"{_WHAT} changed every time it was read ({_TRIES} times)",
            remedy="Run envprobe again.",
        )
    if sight.missing:
        reason, remedy = explain(handle, None, _WHAT)
        return dataclasses.replace(empty, reason=reason, remedy=remedy)
    return dataclasses.replace(
        empty,
        status=_STATUS[block.state],
        block=block.state,
        entries=block.entries,
        duplicates=block.duplicates,
        oddities=block.oddities,
        reason=f"{_WHAT} of process {handle.pid} {block.reason}" if block.reason else "",
        remedy=_REMEDY if block.reason else "",
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Sight:
    """The block together with what else tells about titles, read one after the other."""

    bounds: tuple[int, int, int, int]
    title: bytes
    block: bytes

    @classmethod
    def take(cls, handle: ProcessHandle) -> _Sight:
        stat, of = handle.stat(), ""
        if not stat.env_end and (task := handle.living_task()) is not None:
            # The main thread has left: its own files are empty, the other threads' are not.
            of = f"task/{task}/"
            stat = Stat.parse(handle.read(f"{of}stat"))
        bounds = (stat.arg_start, stat.arg_end, stat.env_start, stat.env_end)
        return cls(bounds, handle.read(f"{of}cmdline"), handle.read(f"{of}environ"))

    @property
    def size(self) -> int:
        """The size of the block by its bounds, bytes."""
        return max(0, self.bounds[3] - self.bounds[2])

    @property
    def missing(self) -> bool:
        """Whether there is no block: bounds of 0 mean no memory, equal ones an empty block."""
        return not self.bounds[3] or (self.size > 0 and not self.block)

    @property
    def spilled(self) -> bool:
        """Whether the title runs over the end of the arguments into the block.

        Only if the last byte of the arguments is no NUL, the kernel shows the title up to its own
        end, one page at most, not the arguments' bytes (get_mm_proctitle, fs/proc/base.c, 5.3).
        """
        arg_start, arg_end, env_start, _ = self.bounds
        length, shown = arg_end - arg_start, len(self.title)
        runs_over = shown > length or mmap.PAGESIZE <= shown < length
        return runs_over and arg_end == env_start and self.block[:1] not in (b"", b"\0")

    def classify(self, wanted: Callable[[str], bool], live_addresses: Collection[int]) -> Block:
        start = self.bounds[2]
        live = frozenset(address - start for address in live_addresses)
        return classify(self.block, spilled=self.spilled, size=self.size, live=live, wanted=wanted)


def _settled(
    handle: ProcessHandle, wanted: Callable[[str], bool], live_addresses: Collection[int]
) -> tuple[_Sight, Block | None]:
    """Look until two looks agree; no block if they never do.

    One look at an intact block is enough: a title is never undone, so all was read before it came.
    """
    sight = _Sight.take(handle)
    for _ in range(_TRIES):
        block = sight.classify(wanted, live_addresses)
        if block.state is BlockState.INTACT and not sight.missing:
            return sight, block
        before, sight = sight, _Sight.take(handle)
        if before == sight:
            return sight, block
    return sight, None
