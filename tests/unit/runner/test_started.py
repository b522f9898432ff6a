"""A started command stays within its bounds and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from envprobe.errors import UndeterminedError
from envprobe.runner.started import Bounds, Started, start

TREE = """
import os, signal, sys, time
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        print(os.getpid(), os.getppid(), flush=True)
    time.sleep(60)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(60)
"""


def python(code: str, bounds: Bounds | None = None, *, lifeline: bool = False) -> Started:
    bounds = bounds or Bounds(seconds=30, grace_seconds=0.2)
    return start([sys.executable, "-I", "-c", code], bounds, {"A": "1"}, lifeline=lifeline)


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def gone(pids: Iterator[int] | list[int], seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    left = list(pids)
    while left and time.monotonic() < deadline:
        left = [pid for pid in left if lives(pid)]
        time.sleep(0.01)
    return not left


def test_the_whole_group_ends_also_what_ignores_sigterm() -> None:
    with python(TREE) as run:
        pids = [int(pid) for pid in run.read_line().split()]
        assert all(lives(pid) for pid in pids)
        assert {os.getpgid(pid) for pid in pids} == {run.pid}
        assert os.getpgid(run.pid) != os.getpgid(0)
    assert gone([run.pid, *pids])
    run.end()


def test_it_ends_when_the_block_is_left_by_an_exception() -> None:
    pids: list[int] = []

    def interrupted() -> None:
        with python(TREE) as run:
            pids.extend([run.pid, *map(int, run.read_line().split())])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(pids) == 3
    assert gone(pids)


def test_its_environment_and_limits_are_those_that_were_given() -> None:
    code = (
        "import json, os, resource as r;"
        "print(json.dumps([dict(os.environ), r.getrlimit(r.RLIMIT_CORE)[0],"
        "r.getrlimit(r.RLIMIT_CPU)[1], r.getrlimit(r.RLIMIT_NPROC)[0], os.read(0, 1).decode()]))"
    )
    with python(code, Bounds(seconds=30, processes=7)) as run:
        environment, core, cpu, tasks, stdin = json.loads(run.read_line())
    assert environment["A"] == "1"
    assert set(environment) <= {"A", "LC_CTYPE"}
    assert (core, cpu, stdin) == (0, 31, "")
    mine = sum(
        len(os.listdir(path / "task"))
        for path in Path("/proc").iterdir()
        if path.name.isdecimal() and path.exists() and path.stat().st_uid == os.getuid()
    )
    assert 7 <= tasks <= mine + 7 + 50


@pytest.mark.parametrize(
    ("code", "bounds", "message"),
    [
        ("import time; time.sleep(60)", Bounds(0.5, grace_seconds=0.2), "did not answer in 0.5 s"),
        ("print('x' * 10000)", Bounds(30, output_bytes=100), "wrote more than 100 bytes"),
        (
            "import sys; sys.stderr.write('x' * 10000); sys.stderr.flush(); input()",
            Bounds(30, output_bytes=100),
            "wrote more than 100 bytes",
        ),
        ("pass", Bounds(30), "ended before it was ready"),
    ],
)
def test_what_is_out_of_bounds_is_said(code: str, bounds: Bounds, message: str) -> None:
    with python(code, bounds, lifeline=True) as run, pytest.raises(UndeterminedError) as error:
        run.read_line()
    assert error.value.message == f"the command {message}"
    assert gone([run.pid])


def test_what_it_says_on_stderr_is_kept() -> None:
    code = "import sys; sys.stderr.write('why'); sys.stderr.close(); print('a'); print('b')"
    with python(code) as run:
        assert [run.read_line(), run.read_line()] == [b"a", b"b"]
        with pytest.raises(UndeterminedError):
            run.read_line()
        assert run.errors == b"why"


def test_a_command_that_does_not_exist_ends_at_once() -> None:
    with start(["/no/such/program"], Bounds(30), {}) as run:
        with pytest.raises(UndeterminedError, match="ended before it was ready") as error:
            run.read_line()
        assert error.value.remedy.startswith("Its last words: FileNotFoundError: ")


def test_its_lifeline_ends_with_envprobe() -> None:
    reader, writer = os.pipe()
    starter = os.fork()
    if starter == 0:
        run = python(
            "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()", None, lifeline=True
        )
        os.write(writer, run.read_line() + b"\n")
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(writer)
    with os.fdopen(reader) as lines:
        pid = int(lines.readline())
    os.waitpid(starter, 0)
    assert gone([pid])
