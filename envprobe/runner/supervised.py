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
from collections.abc import Iterator
from typing import Any, Final

from envprobe.errors import UndeterminedError
from envprobe.runner.limits import exhausted
from envprobe.runner.output import Output
from envprobe.runner.started import Bounds
from envprobe.runner.supervisor import ANSWER, CONTROL, HELD, Command, Supervisor

__all__ = ["ANSWER", "CONTROL", "Command", "Ended", "Running", "run", "running"]

_SPARE_SECONDS: Final = 5.0
_READ_BYTES: Final = 1 << 16
_REPORT_BYTES: Final = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended and what it said.

    `code` is the exit code, minus the number of the signal that ended it. `stopped` says why it was
    ended: "time", "processes" or "memory" (it had more than the bound), or "" if it ended by
    itself. `answer` is what it wrote to the descriptor `ANSWER`. Of each output only the first
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


class Running:
    """A command while it runs; its outputs are taken in whenever something is waited for."""

    def __init__(self, pipes: _Pipes, bounds: Bounds, name: str) -> None:
        self._pipes = pipes
        self._bounds = bounds
        self._name = name
        self._outputs = {one: Output(bounds.output_bytes) for one in pipes.read}
        self._outputs["report"] = Output(_REPORT_BYTES)
        self._waiting = {descriptor: one for one, descriptor in pipes.read.items()}
        # The supervisor keeps the bounds; this one is for a supervisor that does not.
        self._deadline = time.monotonic() + bounds.seconds + bounds.grace_seconds + _SPARE_SECONDS
        self._lines_until = self._deadline

    @property
    def pid(self) -> int:
        """The number of the command's process; UndeterminedError if it never came to be."""
        while b"\n" not in self._outputs["report"].kept:
            if not self._receive():
                raise self._not_supervised()
        return int(self._outputs["report"].kept.partition(b"\n")[0])

    def read_line(self) -> bytes | None:
        """Return the next whole line of the answer without its newline; None if none comes.

        None comes when the time is up, whatever is still unread.
        """
        if time.monotonic() > self._lines_until:
            return None
        answer = self._outputs["answer"]
        while (line := answer.line()) is None:
            if "answer" not in self._waiting.values() or not self._receive():
                return None
        return line

    def tell(self, text: bytes) -> bool:
        """Write to the descriptor `CONTROL` of the command; return whether it takes all of it."""
        left = memoryview(text)
        while left:
            wait = max(self._deadline - time.monotonic(), 0)
            if not select.select([], [self._pipes.control], [], wait)[1]:
                return False
            try:
                # A pipe that is ready takes at least so much without blocking (pipe(7)).
                left = left[os.write(self._pipes.control, left[: select.PIPE_BUF]) :]
            except BrokenPipeError:
                return False
        return True

    def end(self) -> Ended:
        """Tell the command nothing more, wait for its end and return how it ended.

        Raises UndeterminedError if it could not be started.
        """
        self._pipes.close_control()
        while self._waiting and self._receive():
            pass
        report = self._outputs["report"].kept.partition(b"\n")[2]
        if not report:
            raise self._not_supervised()
        told: dict[str, Any] = json.loads(report)
        if told["error"] is not None:
            raise UndeterminedError(f"{self._name} could not be started: {told['error']}")
        return Ended(
            code=told["code"],
            stopped=told["stopped"],
            stdout=self._outputs["out"].kept,
            stderr=self._outputs["err"].kept,
            answer=self._outputs["answer"].kept,
            cut=any(one.cut for name, one in self._outputs.items() if name != "report"),
            seconds=told["seconds"],
            seen=tuple(told["seen"]),
            left=tuple(told["left"]),
        )

    def _receive(self) -> bool:
        """Take in what comes next; return False if nothing can come in time.

        What is beyond a bound is read and dropped. Somebody outside may hold a writing end for ever
        (it can be sent through a socket): nothing is waited for once the supervisor has reported.
        """
        if not self._waiting:
            return False
        wait = max(self._deadline - time.monotonic(), 0)
        ready = select.select(list(self._waiting), [], [], wait)[0]
        for descriptor in ready:
            received = os.read(descriptor, _READ_BYTES)
            self._outputs[self._waiting[descriptor]].take(received)
            if not received and self._waiting.pop(descriptor) == "report":
                self._deadline = min(self._deadline, time.monotonic() + self._bounds.grace_seconds)
        return bool(ready)

    def _not_supervised(self) -> UndeterminedError:
        return UndeterminedError(f"{self._name} could not be supervised", "Run envprobe again.")


@contextlib.contextmanager
def running(command: Command, bounds: Bounds, *, name: str = "the command") -> Iterator[Running]:
    """Start a command; all that it has started is ended when the context is left.

    Its stdin is /dev/null, `ANSWER` a pipe for its answer and, if it asks for that, `CONTROL` one
    from which it is told something. Raises UndeterminedError if it cannot be started.
    """
    if command.rights is not None:
        command.rights.require()
    with contextlib.ExitStack() as stack:
        pipes = _Pipes(stack, told=command.told)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
        try:
            supervisor = _fork()
            if not supervisor:
                pipes.close_control()
                Supervisor(command, bounds, pipes.of_command).serve()
            stack.callback(_end, supervisor)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        pipes.keep_own_ends()
        yield Running(pipes, bounds, name)


def run(command: Command, bounds: Bounds, *, name: str = "the command") -> Ended:
    """Run a command to its end; its stdin is /dev/null, `ANSWER` a pipe for its answer.

    Raises UndeterminedError if it cannot be started.
    """
    with running(command, bounds, name=name) as started:
        return started.end()


def _fork() -> int:
    try:
        return os.fork()
    except OSError as error:
        raise exhausted(error) or error from None


def _end(supervisor: int) -> None:
    """Have the supervisor end all it has, and collect it."""
    os.kill(supervisor, signal.SIGTERM)
    os.waitpid(supervisor, 0)


class _Pipes:
    """The pipes of the command and of the supervisor, by name.

    `read` are the ends that envprobe reads, `control` the one that it writes (-1: none), and
    `of_command` the other ends.
    """

    def __init__(self, stack: contextlib.ExitStack, *, told: bool) -> None:
        self.read: dict[str, int] = {}
        self.of_command: dict[str, int] = {}
        self.control = -1
        stack.callback(self.close)
        for name in ("out", "err", "answer", "report"):
            self.read[name], self.of_command[name] = os.pipe()
        if told:
            self.of_command["control"], self.control = os.pipe()

    def close(self) -> None:
        """Close every end that is still open."""
        self.close_control()
        for end in (self.read, self.of_command):
            for descriptor in end.values():
                os.close(descriptor)
            end.clear()

    def close_control(self) -> None:
        """Let the command see that it is told nothing more."""
        control, self.control = self.control, -1
        if control >= 0:
            os.close(control)

    def keep_own_ends(self) -> None:
        """Close the ends of the command, so that its own are the last."""
        for descriptor in self.of_command.values():
            os.close(descriptor)
        self.of_command.clear()
