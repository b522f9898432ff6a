"""Work that may hang or die, done in a forked child under a deadline.

A read of another process's memory can block for ever: the page of a stalled FUSE or NFS file never
comes, and in that state (D) no signal handler runs. SIGKILL ends such a child at the latest when
the file system answers (measured: a FUSE read that its server has taken up is waited for even
then), so nothing here waits for a child without a bound, and the child holds none of the parent's
standard streams, whose readers would wait for it.
"""

from __future__ import annotations

import gc
import os
import pickle
import resource
import select
import signal
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Generic, NoReturn, TypeVar

from envprobe.runner.limits import exhausted

T = TypeVar("T")
R = TypeVar("R")

MEMORY_BYTES: Final = 512 << 20
"""Address space that the child may take beyond what it has when it starts."""

MAX_RESULT_BYTES: Final = 64 << 20
_HEADER: Final = struct.Struct("<?I")
_CHUNK: Final = 1 << 18
_REAP_SECONDS: Final = 0.2
_INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_unreaped: set[int] = set()
"""Children that were killed but had not ended yet: they are collected when they have."""


class WorkError(RuntimeError):
    """The work itself raised: a fault of the program. It names type and place, never a value."""


class _DeadlineError(Exception):
    pass


class _ChildError(Exception):
    pass


def run_each(
    items: Sequence[T],
    work: Callable[[T], R],
    *,
    deadline: float,
    on_timeout: Callable[[T], R],
    on_crash: Callable[[T], R],
) -> Iterator[tuple[T, R]]:
    """Yield each item, in order, with what `work` made of it in one forked child.

    `deadline` is in seconds for each item, counted from when its result is waited for. An item that
    exceeds it gets `on_timeout`, one on which the child dies (a signal, no more memory, a result
    over `MAX_RESULT_BYTES`) `on_crash`; a new child takes the rest. Results must be picklable.
    Raises WorkError if `work` raises, and UndeterminedError where a limit of the machine was
    reached (`limits.exhausted`). Closing the iterator ends the child.
    """
    with _Worker(work) as worker:
        for number, item in enumerate(items):
            try:
                result = worker.next_of(items, number, deadline)
            except _DeadlineError:
                result = on_timeout(item)
            except _ChildError:
                result = on_crash(item)
            yield item, result


class _Worker(Generic[T, R]):
    """The child, which is started when a result is needed, and again after it was lost."""

    def __init__(self, work: Callable[[T], R]) -> None:
        self._work = work
        self._pid = 0
        self._pipe = -1
        self._received = bytearray()

    def __enter__(self) -> _Worker[T, R]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def next_of(self, items: Sequence[T], number: int, seconds: float) -> R:
        """Return the result of `items[number]`; _DeadlineError, _ChildError, WorkError."""
        if not self._pid:
            self._start(items, number)
        try:
            failed, message = self._message(time.monotonic() + seconds)
        except (_DeadlineError, _ChildError):
            self._end()
            raise
        result = pickle.loads(message)
        if failed:
            number, place = result
            raise exhausted(OSError(number, "")) or WorkError(place)
        return result  # type: ignore[no-any-return]

    def _start(self, items: Sequence[T], first: int) -> None:
        try:
            self._fork(items, first)
        except OSError as error:
            raise exhausted(error) or error from None

    def _fork(self, items: Sequence[T], first: int) -> None:
        self._pipe, writable = os.pipe()
        # An interrupt between the fork and the assignment would lose the child.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS)
        try:
            self._pid = os.fork()
            if not self._pid:
                os.close(self._pipe)
                _serve(items[first:], self._work, writable, before)
        finally:
            os.close(writable)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _message(self, limit: float) -> tuple[bool, bytes]:
        self._receive(_HEADER.size, limit)
        failed, size = _HEADER.unpack_from(self._received)
        end = _HEADER.size + size
        self._receive(end, limit)
        message = bytes(self._received[_HEADER.size : end])
        del self._received[:end]
        return failed, message

    def _receive(self, size: int, limit: float) -> None:
        """Read on until `size` bytes are there."""
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        while len(self._received) < size:
            # What is already there counts, however late we ourselves come to look.
            if not poll.poll(max(0.0, limit - time.monotonic()) * 1000):
                raise _DeadlineError
            if not (chunk := os.read(self._pipe, _CHUNK)):
                raise _ChildError
            self._received += chunk

    def _end(self) -> None:
        pid, self._pid = self._pid, 0
        pipe, self._pipe = self._pipe, -1
        self._received.clear()
        if pipe >= 0:
            os.close(pipe)
        if pid:
            os.kill(pid, signal.SIGKILL)
            _unreaped.add(pid)
            _wait_for(pid)


def _wait_for(pid: int) -> None:
    """Collect a killed child, and those before it, or leave it for later if it cannot end yet."""
    limit = time.monotonic() + _REAP_SECONDS
    pause = _REAP_SECONDS / 400
    while True:
        for other in tuple(_unreaped):
            if _has_ended(other):
                _unreaped.discard(other)
        if pid not in _unreaped or time.monotonic() > limit:
            return
        time.sleep(pause)
        pause = min(2 * pause, _REAP_SECONDS / 10)


def _has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # collected by other code, such as a handler of SIGCHLD
        return True


def _serve(items: Sequence[T], work: Callable[[T], Any], pipe: int, mask: set[int]) -> NoReturn:
    """Work in the child; nothing of the parent's (exit handlers, buffers) runs here."""
    try:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        for number in _INTERRUPTS:
            # What nohup has ignored must not end the reader either.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        gc.freeze()
        _release_streams(pipe)
        _limit_resources()
        for item in items:
            try:
                failed, result = False, work(item)
            except MemoryError:
                break
            except Exception as error:
                failed, result = True, (_number(error), _place(error))
            message = pickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL)
            if len(message) > MAX_RESULT_BYTES:
                break
            _write(pipe, _HEADER.pack(failed, len(message)) + message)
    finally:
        os._exit(0)


def _release_streams(pipe: int) -> None:
    """Give up standard input, output and error, unless `pipe` has the number of a closed one."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in {0, 1, 2} - {pipe}:
        os.dup2(null, descriptor)


def _limit_resources() -> None:
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[0])
    wanted = pages * resource.getpagesize() + MEMORY_BYTES
    for kind, limit in ((resource.RLIMIT_AS, wanted), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(kind)
        lowest = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (lowest, lowest))


def _write(pipe: int, message: bytes) -> None:
    """Write all; SIGPIPE ends the child if nobody reads any more."""
    rest = memoryview(message)
    while rest:
        rest = rest[os.write(pipe, rest) :]


def _number(error: BaseException) -> int | None:
    return error.errno if isinstance(error, OSError) else None


def _place(error: BaseException) -> str:
    """Return the error's type and where it came up, innermost first, without its message."""
    places: list[str] = []
    trace = error.__traceback__
    while trace:
        code = trace.tb_frame.f_code
        places.append(f"{os.path.basename(code.co_filename)}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{type(error).__name__} at {' < '.join(reversed(places))}"
