"""The process between envprobe and a command that it runs.

It adopts each orphan of the command's (PR_SET_CHILD_SUBREAPER, prctl(2)), whatever process group or
session that went to, counts them, and ends all of them when the command ends, takes too long, or
when envprobe itself ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import itertools
import json
import os
import resource
import signal
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

from envprobe.payload.bounded import limit, take_on, tasks_of
from envprobe.runner.rights import Rights
from envprobe.runner.started import Bounds
from envprobe.runner.taskgroup import TaskGroup

_POLL_SECONDS: Final = 0.01
_READ_BYTES: Final = 1 << 16
_NAME_BYTES: Final = 200
_MAX_NAMED: Final = 20
_MAX_REAPED: Final = 32
_MORE_TASKS: Final = 64
"""So many tasks beyond the bound the kernel allows: then more than it are seen and said."""

_FIRST: Final = -20
_SET_CHILD_SUBREAPER: Final = 36  # include/uapi/linux/prctl.h
_NOT_EXECUTED: Final = 127
HELD: Final = frozenset({signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
_RESET: Final = (*HELD, signal.SIGPIPE, signal.SIGQUIT)

ANSWER: Final = 63
"""The descriptor that the command writes its answer to: high, where few programs expect any."""

CONTROL: Final = 62
"""The descriptor that a command reads what it is told from, where it asks for that."""

_PLACES: Final = {"out": 1, "err": 2, "answer": ANSWER, "control": CONTROL}
_PAGE_BYTES: Final = resource.getpagesize()


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """What to run: the path and the words of a command, and all that it gets.

    `root` is a directory descriptor that becomes the root directory, None for envprobe's own;
    `path` and `cwd` are seen from there. `rights` None keeps those of envprobe. `told`: it is given
    `CONTROL`, which ends when envprobe has nothing more to tell it.
    """

    path: str
    words: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: str = "/"
    root: int | None = None
    rights: Rights | None = None
    told: bool = False


class Supervisor:
    """Runs in the forked child, with the signals of `HELD` blocked.

    `pipes` are the command's ends of its pipes (`_PLACES`) and the writing end of the supervisor's
    own report: a line with the command's number, then JSON.
    """

    def __init__(self, command: Command, bounds: Bounds, pipes: Mapping[str, int]) -> None:
        self._command = command
        self._bounds = bounds
        self._pipes = pipes
        self._envprobe = os.getppid()
        self._main = 0
        self._code: int | None = None
        self._seen: dict[int, str] = {}
        self._group: TaskGroup | None = None

    def serve(self) -> NoReturn:
        """Run the command, report, and never return; nothing of envprobe's runs here at the end."""
        try:
            report = self._report()
            with contextlib.suppress(OSError):
                os.write(self._pipes["report"], json.dumps(report).encode())
        finally:
            os._exit(0)

    def _report(self) -> dict[str, Any]:
        os.setsid()
        _adopt_orphans()
        _go_first()
        self._group = TaskGroup.make(2 * self._bounds.processes + _MORE_TASKS)
        errors, errors_written = os.pipe()
        started = time.monotonic()
        self._main = os.fork()
        if not self._main:
            self._become(errors_written)
        for descriptor in (errors_written, *self._of_command().values()):
            os.close(descriptor)
        with contextlib.suppress(OSError):
            os.write(self._pipes["report"], b"%d\n" % self._main)
        stopped = self._watch(started + self._bounds.seconds)
        took = time.monotonic() - started
        left = self._end_all()
        if self._group is not None:
            stopped = stopped or ("processes" if self._group.was_full() else "")
            self._group.remove()
        return {
            "code": self._code,
            "stopped": stopped,
            "seconds": took,
            "seen": [name for name in self._seen.values() if name],
            "left": left,
            "error": os.read(errors, _READ_BYTES).decode("utf-8", "replace") or None,
        }

    def _watch(self, deadline: float) -> str:
        """Wait until the command has ended; return why it must be ended if it has not."""
        while True:
            signaled = signal.sigtimedwait(HELD, _POLL_SECONDS)
            self._reap()
            if self._code is not None:
                return ""
            interrupted = signaled is not None and signaled.si_signo != signal.SIGCHLD
            if interrupted or os.getppid() != self._envprobe:
                return "interrupted"
            found, memory = self._look()
            if found > self._bounds.processes:
                return "processes"
            if memory > self._bounds.memory_bytes > 0:
                return "memory"
            if time.monotonic() > deadline:
                return "time"

    def _of_command(self) -> dict[str, int]:
        """Return the command's ends of its pipes."""
        return {name: self._pipes[name] for name in _PLACES if name in self._pipes}

    def _look(self) -> tuple[int, int]:
        """Name the other processes there are now; return how many, and the bytes of all together.

        The number is at most one over the bound.
        """
        found = memory = 0
        for pid in itertools.islice(_descendants(), self._bounds.processes + 2):
            memory += _memory(pid) if self._bounds.memory_bytes else 0
            if pid != self._main:
                found += 1
                if pid not in self._seen and len(self._seen) < _MAX_NAMED:
                    self._seen[pid] = _named(pid)
        return found, memory

    def _reap(self) -> bool:
        """Collect some that have ended; return whether there are others.

        In a storm they end as fast as they can be collected: there is more to do than that.
        """
        try:
            for _ in range(_MAX_REAPED):
                if not (ended := os.waitpid(-1, os.WNOHANG))[0]:
                    break
                if ended[0] == self._main:
                    self._code = os.waitstatus_to_exitcode(ended[1])
        except ChildProcessError:
            return False
        return True

    def _end_all(self) -> list[str]:
        """End the command's group at once, then all that left it; return some of their names."""
        deadline = time.monotonic() + self._bounds.grace_seconds
        left: dict[int, str] = {}
        if self._code is None:
            with contextlib.suppress(OSError):
                os.killpg(self._main, signal.SIGKILL)
        while self._reap() and time.monotonic() < deadline:
            for pid in _descendants():
                if pid != self._main and len(left) < _MAX_NAMED and (name := _named(pid)):
                    left.setdefault(pid, name)
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_POLL_SECONDS / 10)
        return list(left.values())

    # --- the command's own process

    def _become(self, errors: int) -> NoReturn:
        """Turn into the command, or say why not."""
        errors = fcntl.fcntl(errors, fcntl.F_DUPFD_CLOEXEC, ANSWER + 1)
        try:
            os.setpgid(0, 0)
            if self._group is not None:
                self._group.enter()
            self._confine()
            self._connect()
            os.execve(self._command.path, self._command.words, dict(self._command.environment))
        except BaseException as error:
            os.write(errors, _reason(error).encode())
        finally:
            os._exit(_NOT_EXECUTED)

    def _confine(self) -> None:
        """Set the limits, enter the root directory and take on the rights."""
        rights = self._command.rights
        limit(resource.RLIMIT_CORE, 0)
        limit(resource.RLIMIT_CPU, int(self._bounds.seconds) + 1)
        uid = os.getuid() if rights is None else rights.uid
        limit(resource.RLIMIT_NPROC, tasks_of(uid) + self._bounds.processes)
        # The new root's /proc may not know this process; the old one stays reachable from here.
        os.chdir("/proc")
        if self._command.root is not None:
            os.chroot(f"self/fd/{self._command.root}")
        if rights is not None:
            take_on(rights.uid, rights.gid, list(rights.groups), proc=".")
        try:
            os.chdir(self._command.cwd)
        except OSError as error:
            why = f"its directory {self._command.cwd} cannot be entered: {_reason(error)}"
            raise RuntimeError(why) from None

    def _connect(self) -> None:
        """Connect the outputs and give signals back their meaning."""
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        for name, descriptor in self._of_command().items():
            os.dup2(descriptor, _PLACES[name])
        for number in _RESET:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__


def _go_first() -> None:
    """Run before all processes that the command may start, which keep the usual priority.

    Thousands of them would leave this process no time to end them. Only root may ask for it; other
    users are held back by RLIMIT_NPROC, which the kernel does not apply to root, and root by a
    control group where one can be made.
    """
    with contextlib.suppress(OSError):
        # The flag gives children the usual priority back, sched(7).
        os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, 0, _FIRST)


def _adopt_orphans() -> None:
    try:
        import ctypes
    except ImportError:  # some interpreters have none: then only the process group is ended
        return
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _descendants() -> Iterator[int]:
    """Yield the descendants of this process, ended ones too; they may multiply meanwhile."""
    waiting = [os.getpid()]
    while waiting:
        for child in _children(waiting.pop(0)):
            yield child
            waiting.append(child)


def _children(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                yield from map(int, file.read().split())


def _memory(pid: int) -> int:
    """Return how many bytes a process has that it shares with no file (proc_pid_statm(5))."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            _, resident, shared = map(int, file.read().split()[:3])
    except (OSError, ValueError):
        return 0
    return (resident - shared) * _PAGE_BYTES


def _named(pid: int) -> str:
    """Return the command line of a process in one line, "" if it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(_NAME_BYTES)
    except OSError:
        return ""
    return words.replace(b"\0", b" ").decode("utf-8", "replace").strip()
