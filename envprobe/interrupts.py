"""SIGINT, SIGTERM and SIGHUP before and after the command itself: they end the process at once.

Python's own handler for SIGINT shows a traceback when it comes during an import. Everything here
is built in: `signal` itself would import `enum`, in each of the two processes of a run.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os

_ENDING = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)


def end_at_once() -> None:
    """Have each end this process with 128 and its number; what is ignored stays ignored."""
    for number in _ENDING:
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, _end)


def hold() -> None:
    """Hold all three back, also across execve(2), until `release`."""
    _signal.pthread_sigmask(_signal.SIG_BLOCK, _ENDING)


def release() -> None:
    """Let through what was held back."""
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, _ENDING)


def _end(number: int, _: object) -> None:
    os._exit(128 + number)
