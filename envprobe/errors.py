"""All errors that end a run, and the one table of exit codes.

Whatever a user can cause ends in an `EnvprobeError`: one message, one remedy, one exit code.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final


class Exit(enum.IntEnum):
    """What the exit code of every command means."""

    HOLDS = 0
    FINDING = 1
    USAGE = 2
    UNDETERMINED = 3
    TARGET_GONE = 4
    INTERNAL = 70
    HUNG_UP = 129
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    TERMINATED = 143


EXIT_MEANINGS: Final[dict[Exit, str]] = {
    Exit.HOLDS: "all that was asked for holds, with evidence from every worker",
    Exit.FINDING: "a finding at or above --fail-on",
    Exit.USAGE: "wrong usage or configuration",
    Exit.UNDETERMINED: "something required could not be determined",
    Exit.TARGET_GONE: "the target is gone or is no such process",
    Exit.INTERNAL: "internal error in envprobe",
    Exit.HUNG_UP: "the terminal went away (SIGHUP)",
    Exit.INTERRUPTED: "interrupted (SIGINT)",
    Exit.BROKEN_PIPE: "the reader of the output went away (SIGPIPE)",
    Exit.TERMINATED: "terminated (SIGTERM)",
}
"""The table of docs/exit-codes.md, which is generated from here."""

_PRECEDENCE: Final = (
    Exit.USAGE,
    Exit.TARGET_GONE,
    Exit.FINDING,
    Exit.UNDETERMINED,
    Exit.HOLDS,
)


def decide(outcomes: Iterable[Exit]) -> Exit:
    """Return the code to exit with when several outcomes apply: 2, 4, 1, 3, then 0.

    Raises ValueError for an empty set: 0 needs evidence.
    """
    present = set(outcomes)
    for code in _PRECEDENCE:
        if code in present:
            return code
    raise ValueError("no outcome: nothing was looked at")


class EnvprobeError(Exception):
    """A run that cannot go on: what is wrong, what to do about it, and the exit code."""

    code: Exit = Exit.INTERNAL

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class UsageError(EnvprobeError):
    """Wrong arguments or configuration."""

    code = Exit.USAGE


class TargetGoneError(EnvprobeError):
    """The process that was named does not exist (any more)."""

    code = Exit.TARGET_GONE


class UndeterminedError(EnvprobeError):
    """The run could not look at what it was asked to look at."""

    code = Exit.UNDETERMINED


class NotYetError(UndeterminedError):
    """The target is not there yet, and may still come: what `--wait` waits for."""
