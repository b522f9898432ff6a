"""Work in a forked child: deadlines, deaths, and nothing left behind."""

from __future__ import annotations

import atexit
import errno
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

from envprobe.errors import UndeterminedError
from envprobe.runner import forked
from envprobe.runner.forked import WorkError, run_each

ROOT = Path(__file__).parents[3]


def collected(
    items: Sequence[object], work: Callable[[object], object], deadline: float = 30
) -> list[object]:
    """Run and return the results, "late" and "dead" for items that gave none."""
    pairs = list(
        run_each(
            items,
            work,
            deadline=deadline,
            on_timeout=lambda item: "late",
            on_crash=lambda item: "dead",
        )
    )
    assert [item for item, _ in pairs] == list(items)
    return [result for _, result in pairs]


@pytest.fixture(autouse=True)
def nothing_left() -> object:
    """No test may leave a child, a descriptor or an uncollected zombie behind."""
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert psutil.Process().children() == []
    assert not forked._unreaped
    assert len(os.listdir("/proc/self/fd")) == before


def test_one_child_does_all_items_in_order() -> None:
    results = collected(range(50), lambda item: (item, os.getpid()))
    assert [number for number, _ in results] == list(range(50))
    assert len({pid for _, pid in results}) == 1
    assert results[0][1] != os.getpid()


def test_no_items_start_no_child() -> None:
    assert collected([], lambda item: item) == []


def test_an_item_that_hangs_is_late_and_the_rest_goes_on() -> None:
    def work(item: object) -> object:
        if item == 1:
            signal.pause()
        return os.getpid()

    began = time.monotonic()
    first, late, *rest = collected(range(4), work, deadline=0.3)
    assert 0.3 <= time.monotonic() - began < 3
    assert late == "late"
    assert len(set(rest)) == 1
    assert first != rest[0]
    assert not psutil.pid_exists(int(first))


def test_a_result_that_is_there_counts_however_late_we_look() -> None:
    results = run_each(
        [0, 1], lambda item: item, deadline=0.05, on_timeout=lambda _: "late", on_crash=lambda _: ""
    )
    assert next(results) == (0, 0)
    time.sleep(0.2)
    assert next(results) == (1, 1)
    results.close()


def test_a_child_that_ignores_signals_is_killed() -> None:
    def work(item: object) -> object:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        while True:
            signal.pause()

    assert collected([0], work, deadline=0.2) == ["late"]


def crash() -> None:
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)  # pytest's own handler would print
    os.kill(os.getpid(), signal.SIGSEGV)


@pytest.mark.parametrize(
    "die",
    [
        pytest.param(lambda: crash(), id="segfault"),
        pytest.param(lambda: os.kill(os.getpid(), signal.SIGKILL), id="out-of-memory-killer"),
        pytest.param(lambda: os._exit(0), id="exit"),
        pytest.param(sys.exit, id="SystemExit"),
        pytest.param(lambda: bytearray(2 << 30), id="address-space"),
        pytest.param(lambda: bytes(forked.MAX_RESULT_BYTES + 1), id="result-too-large"),
    ],
)
def test_a_child_that_dies_costs_its_item_only(die: Callable[[], object]) -> None:
    results = collected(range(3), lambda item: die() if item == 1 else item)
    assert results == [0, "dead", 2]


def test_large_results_come_whole() -> None:
    results = collected([1, 2], lambda item: bytes([item]) * (8 << 20))
    assert results == [b"\1" * (8 << 20), b"\2" * (8 << 20)]


def test_an_error_of_the_work_is_raised_without_its_values() -> None:
    def work(item: object) -> object:
        raise ValueError("NCCL_SECRET=hunter2")

    with pytest.raises(WorkError, match=r"ValueError at test_forked\.py:\d+") as caught:
        collected([0], work)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_the_child_is_bounded_and_has_none_of_our_streams() -> None:
    def work(item: object) -> object:
        streams = {os.readlink(f"/proc/self/fd/{number}") for number in range(3)}
        return (
            resource.getrlimit(resource.RLIMIT_CORE),
            streams,
            resource.getrlimit(resource.RLIMIT_AS),
        )

    ((core, streams, space),) = collected([0], work)
    assert core == (0, 0)
    assert streams == {os.devnull}
    assert (
        forked.MEMORY_BYTES
        < space[0]
        == space[1]
        < psutil.Process().memory_info().vms + (2 * forked.MEMORY_BYTES)
    )


def test_exit_handlers_do_not_run_in_the_child(tmp_path: Path) -> None:
    trace = tmp_path / "ran"

    def leave_a_trace() -> None:
        trace.touch()

    atexit.register(leave_a_trace)
    try:
        assert collected([0], lambda item: sys.exit()) == ["dead"]
    finally:
        atexit.unregister(leave_a_trace)
    assert not trace.exists()


def test_signal_handlers_of_the_parent_do_not_run_in_the_child(tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    before = signal.signal(signal.SIGTERM, lambda *_: trace.touch())
    try:
        results = collected([0], lambda item: os.kill(os.getpid(), signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert results == ["dead"]
    assert not trace.exists()


def test_closing_the_iterator_ends_the_child() -> None:
    results = run_each(
        [0, 1],
        lambda item: os.getpid() if item == 0 else signal.pause(),
        deadline=30,
        on_timeout=lambda item: None,
        on_crash=lambda item: None,
    )
    _, pid = next(results)
    assert psutil.pid_exists(pid)
    results.close()
    assert not psutil.pid_exists(pid)


PARENT = """
import os, signal, sys
from envprobe.runner.forked import run_each
def work(item):
    if item == 0:
        return os.getpid()
    if sys.argv[1] == "hang":
        signal.pause()
    return item
for item, result in run_each(range(1 << 62), work, deadline=600, on_timeout=str, on_crash=str):
    if item == 0:
        print(result, flush=True)
    if sys.argv[1] == "stop" and item == 100:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def wait_until_gone(pid: int) -> None:
    limit = time.monotonic() + 10
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < limit
        time.sleep(0.005)


def parent(mode: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", PARENT, mode],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def test_the_child_ends_when_the_parent_is_killed() -> None:
    with parent("stop") as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert process.wait(30) == -signal.SIGKILL
    wait_until_gone(child)


def test_an_interrupt_of_the_parent_ends_the_child() -> None:
    with parent("hang") as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == -signal.SIGINT
        finally:
            # Without this, leaving the context would wait for ever for one that goes on.
            process.kill()
    wait_until_gone(child)


def test_a_reader_of_our_output_never_waits_for_a_child() -> None:
    with parent("hang") as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            process.kill()
            assert process.stdout.read() == b""
            assert psutil.pid_exists(child)
        finally:
            os.kill(child, signal.SIGKILL)
    wait_until_gone(child)


def test_a_fork_costs_a_few_milliseconds() -> None:
    def once() -> float:
        began = time.perf_counter()
        assert collected([0], lambda item: item) == [0]
        return time.perf_counter() - began

    assert min(once() for _ in range(5)) < 0.05


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EMFILE, "open no more than"),
        (errno.ENFILE, "open files"),
        (errno.EAGAIN, "process"),
        (errno.ENOMEM, "memory"),
    ],
)
def test_a_limit_of_the_machine_is_said_and_is_no_fault_of_the_work(number: int, said: str) -> None:
    def work(item: object) -> object:
        raise OSError(number, "")

    with pytest.raises(UndeterminedError, match=said) as caught:
        collected([0], work)
    assert caught.value.remedy


def test_a_limit_met_by_the_parent_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, "")

    monkeypatch.setattr(os, "fork", refuse)
    with pytest.raises(UndeterminedError, match="no further process"):
        collected([0], lambda item: item)
