"""A target whose memory never answers: the deadline holds, and nothing is left behind."""

from __future__ import annotations

import os
import time

import psutil
import pytest

from envprobe.model import Environment, EnvironmentStatus, View
from envprobe.process.access import Reader
from envprobe.process.environ_libc import read_libc
from envprobe.process.handle import ProcessHandle
from envprobe.process.maps import AddressSpace
from envprobe.process.memory import Memory
from envprobe.runner import forked
from envprobe.runner.forked import run_each
from tests.programs.raw import running
from tests.programs.requirement import missing
from tests.programs.stalled_fuse import stalled

DEADLINE = 0.5

_STRANGERS: list[psutil.Process] = []


def read_word(place: tuple[int, int]) -> bytes:
    pid, address = place
    with ProcessHandle.open(pid) as handle, Memory.open(handle) as memory:
        return memory.read_some(address, 8)


def need_fuse() -> None:
    if not Reader.own().capabilities & 1 << 21:
        missing("root", "mounting the stalled file system needs CAP_SYS_ADMIN")
    if not os.path.exists("/dev/fuse"):
        missing("fuse", "there is no /dev/fuse")


@pytest.fixture(autouse=True)
def strangers() -> list[psutil.Process]:
    """Children of this process that other tests have left, such as a resource tracker."""
    _STRANGERS[:] = psutil.Process().children()
    return _STRANGERS


def collect_the_dead() -> None:
    """With the file system gone the child that hung in it can end, and is collected."""
    limit = time.monotonic() + 5
    while forked._unreaped and time.monotonic() < limit:
        list(run_each([0], str, deadline=5, on_timeout=str, on_crash=str))
    assert not forked._unreaped
    assert [one for one in psutil.Process().children() if one not in _STRANGERS] == []
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        assert "envprobe-test" not in mounts.read()


@pytest.mark.root
def test_a_read_that_never_returns_costs_its_deadline_and_one_result() -> None:
    need_fuse()
    with running([b"A=1"]) as healthy, ProcessHandle.open(healthy) as handle:
        good = (healthy, handle.stat().env_start)
        with stalled() as stuck:
            bad = (stuck.pid, stuck.address)
            began = time.monotonic()
            results = run_each(
                [good, bad, good],
                read_word,
                deadline=DEADLINE,
                on_timeout=lambda place: b"does not answer",
                on_crash=lambda place: b"crashed",
            )
            assert next(results) == (good, b"A=1\0/bin")
            assert next(results) == (bad, b"does not answer")
            stuck.wait_for_read()
            assert next(results) == (good, b"A=1\0/bin")
            assert list(results) == []
            assert DEADLINE <= time.monotonic() - began < DEADLINE + 1
            assert psutil.Process(stuck.pid).status() != psutil.STATUS_ZOMBIE, "never ended by us"
    collect_the_dead()


def live_environment(pid: int) -> Environment:
    with (
        ProcessHandle.open(pid) as handle,
        Memory.open(handle) as memory,
        AddressSpace(handle) as space,
    ):
        return read_libc(handle, memory, space, lambda name: True)


@pytest.mark.root
def test_an_environ_in_memory_that_never_answers() -> None:
    need_fuse()
    silent = Environment(View.LIBC, EnvironmentStatus.UNREADABLE, reason="does not answer")
    with stalled("environ") as stuck:
        ((_, view),) = run_each(
            [stuck.pid],
            live_environment,
            deadline=DEADLINE,
            on_timeout=lambda pid: silent,
            on_crash=lambda pid: Environment(View.LIBC, EnvironmentStatus.CHANGING),
        )
        stuck.wait_for_read()
    assert view is silent
    collect_the_dead()
