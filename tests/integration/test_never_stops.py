"""A target that is scanned never stops, is never traced, and gets no signal."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from envprobe.process.handle import Status
from tests.programs import cli
from tests.programs.cbuild import build
from tests.programs.ctarget import CTarget
from tests.programs.envprobe_cli import environment, script
from tests.programs.requirement import missing

TITLE = "sglang::scheduler_TP0"
EXPECT = ("--expect=NCCL_ALGO=Ring", "--var=*")
SECONDS = 2.5
HERTZ = 10
PTRACE_ATTACH, PTRACE_DETACH = 16, 17
LIMIT_S = 60


class Busy:
    """A running target that counts its rounds."""

    def __init__(self, pid: int, counter: Path) -> None:
        self.pid = pid
        self._counter = counter

    @property
    def rounds(self) -> int:
        """How many rounds it has worked so far."""
        return int(struct.unpack("<Q", self._counter.read_bytes()[:8])[0])


@contextlib.contextmanager
def busy(mode: str, folder: Path) -> Iterator[Busy]:
    counter = folder / "rounds"
    counter.write_bytes(bytes(4096))
    with CTarget(
        build("busy"), mode, str(counter), env={"NCCL_ALGO": "Ring"}, argv0=TITLE
    ) as target:
        yield Busy(target.pid, counter)


class Watch(threading.Thread):
    """Looks at a process all the time: its states, its tracers, the signals that wait for it."""

    def __init__(self, target: Busy) -> None:
        super().__init__()
        self._target = target
        self._ended = threading.Event()
        self.states: dict[str, int] = {}
        self.tracers: set[str] = set()
        self.signals: set[str] = set()
        self.progress: list[tuple[float, int]] = []

    def run(self) -> None:
        while not self._ended.is_set():
            status = Status.parse(Path(f"/proc/{self._target.pid}/status").read_bytes())
            state = status["State"][0]
            self.states[state] = self.states.get(state, 0) + 1
            self.tracers.add(status["TracerPid"])
            self.signals |= {status["SigPnd"], status["ShdPnd"]}
            self.progress.append((time.monotonic(), self._target.rounds))
            time.sleep(0.0005)

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self.join()

    def longest_pause(self) -> float:
        """Return the longest time, in seconds, in which no round was finished."""
        pause, (since, rounds) = 0.0, self.progress[0]
        for at, now in self.progress[1:]:
            if now != rounds:
                since, rounds = at, now
            pause = max(pause, at - since)
        return pause


@pytest.mark.parametrize("mode", ["loop", "faults"])
def test_a_scanned_target_runs_on(mode: str, tmp_path: Path) -> None:
    scans = 0
    with busy(mode, tmp_path) as target, Watch(target) as watch:
        before = target.rounds
        limit = time.monotonic() + SECONDS
        while (now := time.monotonic()) < limit:
            run = cli.judge("--pid", str(target.pid), *EXPECT)
            assert (run.code, run.text(target.pid, "NCCL_ALGO")) == (0, "Ring")
            scans += 1
            time.sleep(max(0.0, now + 1 / HERTZ - time.monotonic()))
        assert target.rounds > before
    assert scans > SECONDS * HERTZ / 5
    assert sum(watch.states.values()) > 100
    # It may wait for the lock of its own address space (D), but is never stopped (T) or traced (t).
    assert set(watch.states) <= {"R", "S", "D"}
    assert watch.tracers == {"0"}
    assert watch.signals == {"0" * 16}
    rounds = [count for _, count in watch.progress]
    assert rounds == sorted(rounds)
    assert watch.longest_pause() < 1.0, "this machine may be busy; a stopped target pauses for ever"


def test_the_watch_would_see_a_stop_and_a_tracer(tmp_path: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with busy("loop", tmp_path) as target, Watch(target) as watch:
        os.kill(target.pid, signal.SIGSTOP)
        time.sleep(0.1)
        os.kill(target.pid, signal.SIGCONT)
        if libc.ptrace(PTRACE_ATTACH, target.pid, None, None):
            missing("ptrace", f"it is not allowed here: {os.strerror(ctypes.get_errno())}")
        os.waitpid(target.pid, 0)
        time.sleep(0.1)
        libc.ptrace(PTRACE_DETACH, target.pid, None, None)
    assert {"T", "t"} <= set(watch.states)
    assert watch.tracers == {"0", str(os.getpid())}
    assert watch.longest_pause() > 0.05


def test_no_call_is_made_that_could_change_a_target(tmp_path: Path) -> None:
    """No ptrace, no write into memory; signals go to the readers alone that envprobe forks."""
    if shutil.which("strace") is None:
        missing("strace", "strace is not installed")
    barred = ("ptrace", "process_vm_writev", "process_madvise", "pidfd_send_signal")
    traced = ",".join((*barred, "kill,tkill,tgkill,fork,vfork,clone,clone3,openat"))
    log = tmp_path / "calls"
    with busy("loop", tmp_path) as target:
        command = [*script(), "workers", "--pid", str(target.pid), *EXPECT]
        done = subprocess.run(
            ["strace", "-f", "-o", str(log), "-e", f"trace={traced}", *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment(),
            timeout=LIMIT_S,
            check=False,
        )
        assert (done.returncode, done.stdout[:5]) == (0, b"HOLDS"), done.stderr
    text = log.read_text()
    made = {int(pid) for pid in re.findall(r"(?:clone|clone3|v?fork)\(.*= (\d+)$", text, re.M)}
    made |= {int(pid) for pid in re.findall(r"resumed>.*= (\d+)$", text, re.M)}
    assert target.pid not in made
    assert not re.findall(rf" ({'|'.join(barred)})\(", text)
    signalled = {int(pid) for pid in re.findall(r"kill\((\d+), SIG", text)}
    assert signalled <= made
    opened = re.findall(r'openat\(.*, "(mem|/proc/\d+/[^"]*)", ([A-Z_|]+)', text)
    assert ("mem" in {name for name, _ in opened}) or "process_vm_readv" in text
    assert not [one for one in opened if "O_WRONLY" in one[1] or "O_RDWR" in one[1]]
