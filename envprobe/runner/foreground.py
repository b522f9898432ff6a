"""A command in the foreground, with a reporter beside it that its parent opens memory for.

The process that was started becomes two: the keeper, which starts the command and is its parent for
as long as it runs, and the reporter. The command is unbounded, and nothing of it is ended.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import threading
import time
from collections.abc import Mapping
from typing import Final

from envprobe.errors import UndeterminedError, UsageError
from envprobe.runner import lending
from envprobe.runner.limits import exhausted

_LAST_SECONDS: Final = 5.0
"""How long the command's exit code waits for a report that is still being made."""

_END_SECONDS: Final = 1.0
_SI_KERNEL: Final = 0x80  # include/uapi/asm-generic/siginfo.h
_SIGNALED: Final = 128

_FAULTS: Final = frozenset(
    {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS}
    | {signal.SIGTRAP, signal.SIGPIPE, signal.SIGXCPU, signal.SIGXFSZ}
)
_JOB_CONTROL: Final = frozenset({signal.SIGCONT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
_PASSED_ON: Final = signal.valid_signals() - _FAULTS - _JOB_CONTROL
"""What is passed on: all but what concerns one process itself, or stops it at the terminal."""

_RESTORED: Final = (signal.SIGPIPE, signal.SIGXFSZ)
"""What Python ignores for itself (PyInit, Python/pylifecycle.c), and no command expects ignored."""


class Reporter:
    """The process beside the command, as that process sees itself."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def command(self) -> int:
        """Have the keeper start the command and return its number.

        From then on only SIGTERM interrupts this process: what comes from the terminal is for the
        command. Raises UsageError if the command cannot be executed, UndeterminedError where a
        limit of the machine was reached.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON - {signal.SIGTERM})
        try:
            self._channel.send(b"ready")
            word, _, number = self._channel.recv(64).decode().partition(" ")
        except OSError:
            word, number = "", ""
        if word == "started":
            lending.borrow_from(self._channel)
            return int(number)
        if word == "refused":
            raise _not_executed(OSError(int(number), ""))
        raise UndeterminedError("the process that was to start the command has ended")


class Keeper:
    """The parent of the command."""

    def __init__(self, channel: socket.socket, reporter: int) -> None:
        self._channel = channel
        self._reporter = reporter

    def run(self, words: tuple[str, ...], environment: Mapping[bytes, bytes]) -> int:
        """Start the command once the reporter is ready, and return its exit code when it ends.

        That is 128 + N for a signal N, and the reporter's own code if the command was not started:
        the reporter has said why. Raises UndeterminedError if the reporter was killed before.
        """
        if not self._channel.recv(16):
            return self._code_of_reporter()
        # Ignored, it would have the kernel collect the command and its code with it.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
        try:
            command = os.posix_spawnp(
                words[0], words, environment, setsigmask=before, setsigdef=_RESTORED
            )
        except (OSError, ValueError) as error:
            number = error.errno if isinstance(error, OSError) else errno.EINVAL
            self._tell(f"refused {number}")
            return self._code_of_reporter()
        threading.Thread(target=lending.lend, args=(self._channel,), daemon=True).start()
        self._tell(f"started {command}")
        self._follow(command)
        # Until the report is made the zombie keeps its number from becoming another's.
        self._let_report()
        code = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
        return code if code >= 0 else _SIGNALED - code

    def _tell(self, words: str) -> None:
        with contextlib.suppress(OSError):
            self._channel.send(words.encode(), socket.MSG_NOSIGNAL)

    def _follow(self, command: int) -> None:
        """Pass signals on until the command has ended."""
        while os.waitid(os.P_PID, command, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            arrived = signal.sigwaitinfo(_PASSED_ON)
            if arrived.si_signo == signal.SIGCHLD:
                self._has_reported()
            elif arrived.si_code != _SI_KERNEL and arrived.si_pid != command:
                # What the terminal, or the command itself, sends to the group has reached it.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(command, arrived.si_signo)

    def _let_report(self) -> None:
        """Wait for the reporter, but not long and no longer than until a signal comes."""
        limit = time.monotonic() + _LAST_SECONDS
        while not self._has_reported() and (left := limit - time.monotonic()) > 0:
            arrived = signal.sigtimedwait(_PASSED_ON, left)
            if arrived is not None and arrived.si_signo != signal.SIGCHLD:
                break
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._has_reported():
                return
            os.kill(self._reporter, number)
            signal.sigtimedwait({signal.SIGCHLD}, _END_SECONDS)
        self._has_reported()

    def _has_reported(self) -> bool:
        if self._reporter and os.waitpid(self._reporter, os.WNOHANG)[0]:
            self._reporter = 0
        return not self._reporter

    def _code_of_reporter(self) -> int:
        code = os.waitstatus_to_exitcode(os.waitpid(self._reporter, 0)[1])
        if code < 0:
            raise UndeterminedError(
                f"the process that reports was ended by signal {-code}, and nothing was started",
                "Run envprobe again.",
            )
        return code


def fork() -> Keeper | Reporter:
    """Make this process two, and return what the calling one is now.

    It must have one thread. Raises UndeterminedError where a limit of the machine was reached.
    """
    try:
        kept, reported = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
    except OSError as error:
        raise exhausted(error) or error from None
    if pid:
        reported.close()
        return Keeper(kept, pid)
    kept.close()
    return Reporter(reported)


def _not_executed(error: OSError) -> UsageError | UndeterminedError:
    number = error.errno or 0
    reason = os.strerror(number)
    remedy = {
        errno.ENOENT: "Check its name and PATH, and that the interpreter of its first line exists.",
        errno.EACCES: "Make it executable, or name its interpreter: `-- python3 serve.py`.",
        errno.ENOEXEC: "A script needs a first line such as #!/bin/sh, or its interpreter named.",
    }
    return exhausted(error) or UsageError(
        f"the command could not be executed: {reason}", remedy.get(number, "Check its words.")
    )
