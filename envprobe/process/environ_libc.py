"""The live C environ of a process, which getenv(3) sees: read from its memory, never stopping it.

/proc/PID/environ shows what was handed over at exec; setenv and unsetenv change only what is read
here, and setproctitle wipes the other.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from typing import Final

from envprobe.model import Environment, EnvironmentStatus, View
from envprobe.process import access, vector
from envprobe.process.decode import MAX_SECONDS, Contents, Decoder, TooMuch
from envprobe.process.elf import NotElf
from envprobe.process.handle import (
    AccessRefused,
    MemoryFault,
    ProcessGone,
    ProcessHandle,
    Unsupported,
)
from envprobe.process.maps import AddressSpace
from envprobe.process.memory import Memory
from envprobe.process.scope import Scope
from envprobe.process.slots import Slot, find_slot, started

TRIES: Final = 3
_WHAT: Final = "the live C environ"
_WHEN_STARTED: Final = "Run envprobe again once the program has started."
_ENDED: Final = (
    "the process ended or started another program while it was read",
    "Run envprobe again; if it vanishes again, look in the server's log for its end.",
)
_DAMAGED_TABLES: Final = (
    "the process's list of libraries or a symbol table in it is damaged",
    "Restart the process; if it happens again, look in a debugger for what wrote over its memory.",
)
_DAMAGED_ENVIRON: Final = (
    "the C environ points to memory that does not exist or is no ordinary memory",
    "Restart the process; if it happens again, look in a debugger for what wrote over its environ.",
)
_NOT_STARTED: Final = (
    "the C library of the process has not set up its environ yet: the program is starting",
    _WHEN_STARTED,
)
_NO_SYMBOL: Final = (
    "no symbol environ was found in the process: its C library is not loaded yet, or it has none",
    _WHEN_STARTED,
)
_NO_VECTOR: Final = (
    "the program is static and stripped, and no array in it looks like an environment",
    "Use a build of the program that keeps its symbols, or link it dynamically.",
)
_CHANGING: Final = (
    f"the C environ changed during each of {TRIES} readings",
    "Run envprobe again when the process is no longer setting variables.",
)


class _Failed(Exception):  # noqa: N818 - it becomes an outcome, never leaves this module
    """Looking ended without an environment; the arguments are the reason and the remedy."""


class _Outcome(enum.Enum):
    """How one try went wrong."""

    CHANGED = enum.auto()
    FAULT = enum.auto()
    UNSET = enum.auto()


def read_libc(
    handle: ProcessHandle,
    memory: Memory,
    space: AddressSpace,
    wanted: Callable[[str], bool],
    *,
    scope: Scope | None = None,
) -> Environment:
    """Return the view LIBC of a process; values are kept of the names that are `wanted`.

    Never raises for what the target is or does: each failure is an Environment in status UNREADABLE
    or CHANGING with reason and remedy. A `scope` of the same process spares building one.
    """
    at = time.time()
    try:
        scope = scope or Scope(handle, memory, space)
        return _read(_find(handle, scope, space), scope, space, wanted, at)
    except (AccessRefused, ProcessGone, Unsupported) as failure:
        reason, remedy = access.explain(handle, failure, _WHAT)
    except (MemoryFault, NotElf, TooMuch, vector.Ambiguous, _Failed) as failure:
        # After an exit or an exec the old memory reads as nothing, which looks like damage.
        reason, remedy = _explain(failure) if memory.alive() else _ENDED
    return Environment(View.LIBC, EnvironmentStatus.UNREADABLE, at=at, reason=reason, remedy=remedy)


def _explain(failure: Exception) -> tuple[str, str]:
    if isinstance(failure, TooMuch):
        return f"the C environ is beyond all bounds: {failure}", _DAMAGED_ENVIRON[1]
    if isinstance(failure, vector.Ambiguous):
        return f"the program is static and stripped, and {failure}", _NO_VECTOR[1]
    if isinstance(failure, _Failed):
        reason, remedy = failure.args
        return reason, remedy
    return _DAMAGED_TABLES


def _find(handle: ProcessHandle, scope: Scope, space: AddressSpace) -> Slot:
    slot = find_slot(handle, scope, space)
    if slot is not None:
        return slot
    if scope.interpreted:
        raise _Failed(*_NO_SYMBOL)
    slot = vector.scan(scope, space)
    if slot is None:
        raise _Failed(*_NO_VECTOR)
    return slot


def _read(
    slot: Slot, scope: Scope, space: AddressSpace, wanted: Callable[[str], bool], at: float
) -> Environment:
    """Read what the slot leads to until two looks agree."""
    deadline = time.thread_time() + MAX_SECONDS
    outcomes: set[_Outcome] = set()
    for _ in range(TRIES):
        decoder = Decoder(scope.source, space, wanted, deadline)
        outcome = _try(decoder, slot, scope, space)
        if isinstance(outcome, Contents):
            return Environment(
                View.LIBC,
                EnvironmentStatus.COMPLETE,
                outcome.entries,
                outcome.duplicates,
                outcome.oddities,
                source=slot.source,
                at=at,
                confidence=slot.confidence,
            )
        outcomes.add(outcome)
        scope.memory.forget()
    if _Outcome.CHANGED in outcomes and scope.source.alive():
        reason, remedy = _CHANGING
        status = EnvironmentStatus.CHANGING
        return Environment(
            View.LIBC, status, source=slot.source, at=at, reason=reason, remedy=remedy
        )
    raise _Failed(*(_NOT_STARTED if _Outcome.UNSET in outcomes else _DAMAGED_ENVIRON))


def _try(decoder: Decoder, slot: Slot, scope: Scope, space: AddressSpace) -> Contents | _Outcome:
    """Read pointer, array, strings, then pointer and array again."""
    pointer = _pointer(slot, scope)
    if not pointer:
        # The witness is read between two looks: a slot set meanwhile is no emptied one.
        emptied = started(slot, scope, space) and not _pointer(slot, scope)
        return Contents() if emptied else _Outcome.UNSET
    try:
        array = decoder.array(pointer)
        contents = decoder.contents(array)
        if _pointer(slot, scope) == pointer and decoder.array(pointer) == array:
            return contents
    except MemoryFault:
        if _pointer(slot, scope) == pointer:
            return _Outcome.FAULT
    return _Outcome.CHANGED


def _pointer(slot: Slot, scope: Scope) -> int:
    return scope.source.words(slot.address, 1)[0]
