"""Running a command to its end, with everything that it leaves behind ended as well.

A supervisor (`supervisor`) stands between envprobe and the command.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import signal
import time
from typing import Any, Final

from envprobe.errors import UndeterminedError
from envprobe.runner.limits import exhausted
from envprobe.runner.started import Bounds
from envprobe.runner.supervisor import ANSWER, HELD, Command, Supervisor

__all__ = ["ANSWER", "Command", "Ended", "run"]

_SPARE_SECONDS: Final = 5.0
_READ_BYTES: Final = 1 << 16
_REPORT_BYTES: Final = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended and what it said.

    `code` is the exit code, minus the number of the signal that ended it. `stopped` says why it was
    ended: "time", "processes" (it had more than the bound), or "" if it ended by itself. `answer`
    is what it wrote to the descriptor `ANSWER`. Of each output only the first
    `Bounds.output_bytes` are kept; `cut` says that there was more. `seconds` is from fork to exit.
    `seen` names other processes noticed while it ran, `left` those that outlived it.
    """

    code: int
    stopped: str
    stdout: bytes
    stderr: bytes
    answer: bytes
    cut: bool
    seconds: float
    seen: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def run(command: Command, bounds: Bounds, *, name: str = "the command") -> Ended:
    """Run a command to its end; its stdin is /dev/null, `ANSWER` a pipe for its answer.

    Raises UndeterminedError if it cannot be started.
    """
    if command.rights is not None:
        command.rights.require()
    with contextlib.ExitStack() as stack:
        pipes = _Pipes(stack)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
        try:
            supervisor = _fork()
            if not supervisor:
                Supervisor(command, bounds, pipes.written).serve()
            stack.callback(_end, supervisor)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        pipes.keep_reading_ends()
        outputs, report = _collect(pipes, bounds)
    if report is None:
        raise UndeterminedError(f"{name} could not be supervised", "Run envprobe again.")
    if report["error"] is not None:
        raise UndeterminedError(f"{name} could not be started: {report['error']}")
    return Ended(
        code=report["code"],
        stopped=report["stopped"],
        stdout=outputs["out"].kept,
        stderr=outputs["err"].kept,
        answer=outputs["answer"].kept,
        cut=any(one.cut for one in outputs.values()),
        seconds=report["seconds"],
        seen=tuple(report["seen"]),
        left=tuple(report["left"]),
    )


def _fork() -> int:
    try:
        return os.fork()
    except OSError as error:
        raise exhausted(error) or error from None


def _end(supervisor: int) -> None:
    """Have the supervisor end all it has, and collect it."""
    os.kill(supervisor, signal.SIGTERM)
    os.waitpid(supervisor, 0)


# --- what envprobe itself does meanwhile ---------------------------------------------------------


class _Pipes:
    """The pipes of the command and of the supervisor: `read` and `written` by name."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self.read: dict[str, int] = {}
        self.written: dict[str, int] = {}
        stack.callback(self.close)
        for name in ("out", "err", "answer", "report"):
            self.read[name], self.written[name] = os.pipe()

    def close(self) -> None:
        for end in (self.read, self.written):
            for descriptor in end.values():
                os.close(descriptor)
            end.clear()

    def keep_reading_ends(self) -> None:
        for descriptor in self.written.values():
            os.close(descriptor)
        self.written.clear()


class _Output:
    """The beginning of one output."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._received = bytearray()
        self.cut = False

    def take(self, received: bytes) -> None:
        room = self._limit - len(self._received)
        self._received += received[:room]
        self.cut = self.cut or len(received) > room

    @property
    def kept(self) -> bytes:
        return bytes(self._received)


def _collect(pipes: _Pipes, bounds: Bounds) -> tuple[dict[str, _Output], dict[str, Any] | None]:
    """Read until all writers are gone; what is beyond a bound is read and dropped.

    Somebody outside may hold a writing end for ever (it can be sent through a socket): nothing is
    waited for once the supervisor has reported.
    """
    outputs = {name: _Output(bounds.output_bytes) for name in pipes.read}
    outputs["report"] = _Output(_REPORT_BYTES)
    waiting = {descriptor: name for name, descriptor in pipes.read.items()}
    deadline = time.monotonic() + bounds.seconds + bounds.grace_seconds + _SPARE_SECONDS
    while waiting:
        ready = select.select(list(waiting), [], [], max(deadline - time.monotonic(), 0))[0]
        if not ready:
            break
        for descriptor in ready:
            received = os.read(descriptor, _READ_BYTES)
            outputs[waiting[descriptor]].take(received)
            if not received and waiting.pop(descriptor) == "report":
                deadline = min(deadline, time.monotonic() + bounds.grace_seconds)
    told = outputs.pop("report").kept
    return outputs, json.loads(told) if told else None
