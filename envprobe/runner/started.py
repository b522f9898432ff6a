"""Starting a command that cannot outlive, outnumber or out-talk its bounds."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from types import TracebackType
from typing import Final

from envprobe.errors import UndeterminedError
from envprobe.runner.output import Output
from envprobe.runner.rights import Rights

NO_GPUS: Final = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": ""}
"""Hides every GPU from foreign code that needs none."""

_POLL_SECONDS: Final = 0.01
_READ_BYTES: Final = 1 << 16
_LAST_WORDS_SECONDS: Final = 0.5
_SAID_LIMIT: Final = 300


@dataclasses.dataclass(frozen=True, slots=True)
class Bounds:
    """What a started command may use.

    `seconds` of wall time in all (and as much CPU time per process, which holds even if envprobe
    is killed), `output_bytes` on stdout and stderr together, `processes` more than the user has
    now (RLIMIT_NPROC: the kernel does not apply it to root), `grace_seconds` between SIGTERM and
    SIGKILL. `memory_bytes` of all processes together, shared pages left out, are counted for
    supervised commands only; 0 does not bound them.
    """

    seconds: float
    output_bytes: int = 1 << 20
    processes: int = 64
    grace_seconds: float = 2.0
    memory_bytes: int = 0


class Started:
    """A running command, leader of a session and process group of its own; a context manager.

    Leaving the context ends the whole group by its id, which cannot be another's: the leader is
    not reaped before. Descendants that leave the group are not followed.
    """

    def __init__(self, process: subprocess.Popen[bytes], bounds: Bounds, name: str) -> None:
        self._process = process
        self._bounds = bounds
        self._name = name
        self._deadline = time.monotonic() + bounds.seconds
        self._lines = Output(bounds.output_bytes)
        self._errors = Output(bounds.output_bytes)
        assert process.stdout is not None
        assert process.stderr is not None
        self._out = process.stdout.fileno()
        self._open = {self._out: self._lines, process.stderr.fileno(): self._errors}
        self._received = 0
        self._ended = False

    @property
    def pid(self) -> int:
        """The number of the command's process, and of its group."""
        return self._process.pid

    @property
    def errors(self) -> bytes:
        """What the command has written to stderr so far, within `Bounds.output_bytes`."""
        return self._errors.kept

    def __enter__(self) -> Started:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def read_line(self) -> bytes:
        """Return the next whole line of the command's stdout, without its newline.

        Raises UndeterminedError when the output ends, grows beyond its bound, or the time is up.
        """
        while (line := self._lines.line()) is None:
            self._receive()
        return line

    def end(self) -> None:
        """End the group: SIGTERM, `grace_seconds` for the leader to leave, then SIGKILL to all."""
        if self._ended:
            return
        self._ended = True
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._signal(signal.SIGTERM)
        self._wait_for_leader(self._bounds.grace_seconds)
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._wait_for_group(self._bounds.grace_seconds)

    def _receive(self) -> None:
        """Take in what has come, or raise UndeterminedError if no more can come in time."""
        left = self._deadline - time.monotonic()
        ready = select.select(list(self._open), [], [], max(left, 0))[0]
        if not ready:
            raise self._failed(f"did not answer in {self._bounds.seconds:g} s")
        for descriptor in ready:
            self._take(descriptor)
        if self._out not in self._open:
            self._last_words()
            raise self._failed("ended before it was ready")

    def _take(self, descriptor: int) -> None:
        received = os.read(descriptor, _READ_BYTES)
        if not received:
            del self._open[descriptor]
            return
        self._received += len(received)
        if self._received > self._bounds.output_bytes:
            raise self._failed(f"wrote more than {self._bounds.output_bytes} bytes")
        self._open[descriptor].take(received)

    def _last_words(self) -> None:
        """Take in what is still to come on stderr; somebody else may hold it open for ever."""
        deadline = time.monotonic() + _LAST_WORDS_SECONDS
        while self._open and time.monotonic() < deadline:
            for descriptor in select.select(list(self._open), [], [], _POLL_SECONDS)[0]:
                self._take(descriptor)

    def _failed(self, what: str) -> UndeterminedError:
        said = self.errors.decode("utf-8", "replace").strip().splitlines()
        last = f"Its last words: {said[-1][:_SAID_LIMIT]}" if said else ""
        return UndeterminedError(f"{self._name} {what}", last)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _wait_for_leader(self, seconds: float) -> None:
        for _ in _polls(seconds):
            # WNOWAIT leaves the zombie: its number and group id stay taken.
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return

    def _wait_for_group(self, seconds: float) -> None:
        for _ in _polls(seconds):
            try:
                os.killpg(self.pid, 0)
            except (ProcessLookupError, PermissionError):
                return


def _polls(seconds: float) -> Iterator[None]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(_POLL_SECONDS)


def start(
    command: Sequence[str],
    bounds: Bounds,
    environment: Mapping[str, str],
    *,
    name: str = "the command",
    lifeline: bool = False,
    rights: Rights | None = None,
) -> Started:
    """Start `command` within `bounds` and exactly `environment`; it must be used as a context.

    stdin is /dev/null; with `lifeline` it is a pipe that is never written to and that ends when
    envprobe does, however that comes about. `rights` are taken on before the command runs; None
    keeps those of envprobe, for code of envprobe's own. The limits are set by payload/bounded.py,
    which then execs the command. Raises UndeterminedError when it cannot be started, or when
    envprobe cannot take on the rights.
    """
    if rights is not None:
        rights.require()
    bounded = resources.files("envprobe").joinpath("payload").joinpath("bounded.py")
    with resources.as_file(bounded) as program:
        wrapped = [sys.executable, "-I", "-S", str(program)]
        wrapped += [str(bounds.processes), str(int(bounds.seconds) + 1)]
        wrapped += [rights.encoded() if rights is not None else "-", *command]
        try:
            process = subprocess.Popen(
                wrapped,
                stdin=subprocess.PIPE if lifeline else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environment),
                start_new_session=True,
            )
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise UndeterminedError(f"{name} could not be started: {reason}") from None
    return Started(process, bounds, name)
