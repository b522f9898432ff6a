"""The listing of processes, on real ones."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from envprobe.process import tree
from envprobe.process.handle import ProcessHandle
from envprobe.process.tree import Listing, Member, same_image
from tests.programs.actions import FORK, Action
from tests.programs.trees import TitledTree


def member(pid: int, ppid: int, ticks: int = 1, **more: object) -> Member:
    return Member(pid, ppid, ticks, "S", "x", **more)  # type: ignore[arg-type]


@contextlib.contextmanager
def program(*command: str, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that says `ready` and then reads its standard input."""
    process = subprocess.Popen(  # type: ignore[call-overload]
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options
    )
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        process.wait(10)
        process.stdin.close()
        process.stdout.close()


WAITS = "import sys; print('ready', flush=True); sys.stdin.read()"


def test_the_listing_agrees_with_psutil() -> None:
    with TitledTree(workers=3) as titled:
        found = tree.listing()
        expected = {one.pid: one for one in psutil.Process(titled.root).children(recursive=True)}
        assert set(found.descendants([titled.root])) == {titled.root, *expected}
        for pid, process in expected.items():
            one = found[pid]
            assert one.ppid == process.ppid()
            assert list(one.title) == [word for word in process.cmdline() if word]
            assert one.exe == process.exe()
            assert one.session == os.getsid(pid)
            started = tree.start_time(one.start_ticks, tree.boot_offset())
            assert abs(started - process.create_time()) < 1.5


def test_parents_come_before_children_and_ancestors_in_order() -> None:
    listing = Listing([member(1, 0), member(2, 1, 2), member(3, 2, 3), member(4, 1, 4)])
    assert listing.descendants([1]) == (1, 2, 3, 4)
    assert listing.descendants([4, 2]) == (4, 2, 3)
    assert listing.ancestors(3) == (2, 1)
    assert listing.children(1) == (2, 4)
    assert listing.tops([3, 2, 4]) == (2, 4)
    assert listing.descendants([77]) == ()


def test_what_is_left_out_is_left_out_with_all_below_it_unless_it_is_asked_for() -> None:
    listing = Listing([member(1, 0), member(2, 1, 2), member(3, 2, 3), member(4, 3, 4)])
    assert listing.descendants([1], without=2) == (1,)
    assert listing.descendants([3], without=2) == (3, 4)
    assert listing.descendants([2], without=2) == (2, 3, 4)


def test_a_younger_process_is_no_parent() -> None:
    # The number 2 was reused between the two reads.
    listing = Listing([member(2, 3, 9), member(3, 2, 5)])
    assert listing.parent(3) is None
    assert listing.parent(2) == listing[3]


def test_processes_that_name_each_other_as_parents_make_no_loop() -> None:
    listing = Listing([member(2, 3, 5), member(3, 2, 5), member(4, 4, 5)])
    assert sorted(listing.descendants([2, 3, 4])) == [2, 3, 4]
    assert listing.ancestors(2) in ((), (3,))
    assert listing.parent(4) is None


def test_a_long_chain_is_walked_quickly() -> None:
    listing = Listing(member(pid, pid - 1, pid) for pid in range(1, 20_001))
    begin = time.perf_counter()
    assert len(listing.descendants([1])) == 20_000
    assert len(listing.ancestors(20_000)) == 19_999
    assert time.perf_counter() - begin < 1


@pytest.mark.parametrize(
    ("raw", "title"),
    [
        (b"", ()),
        (b"\0\0\0", ()),
        (b"python\0-c\0x\0", ("python", "-c", "x")),
        (b"sglang::scheduler_TP0" + b"\0" * 300, ("sglang::scheduler_TP0",)),
        (b"no end", ("no end",)),
        (b"a\0\0b\0", ("a", "", "b")),
        (b"\xff\xfe\0", ("\udcff\udcfe",)),
    ],
)
def test_titles_are_split_at_nuls(raw: bytes, title: tuple[str, ...]) -> None:
    assert tree.split_title(raw) == title


def test_the_kernel_tells_forks_from_programs() -> None:
    actions = {0: Action(after_title=[FORK]), 1: Action(method="fork")}
    with TitledTree(workers=2, actions=actions) as titled:
        found = tree.listing()
        assert found[titled.root].forked is False
        assert found[titled.worker(0)].forked is False
        assert found[titled.pid("root.w0.fork")].forked is True
        assert found[titled.worker(1)].forked is True


def test_images_are_compared_by_the_mark_then_the_random_bytes_then_the_vector() -> None:
    parent = member(1, 0, random="aa", vector="v")
    assert same_image(member(2, 1, forked=False, random="aa"), parent) is False
    assert same_image(member(2, 1, forked=True, random="aa"), parent) is True
    assert same_image(member(2, 1, forked=True, random="bb"), parent) is False
    assert same_image(member(2, 1, random="aa"), parent) is True
    assert same_image(member(2, 1, forked=True, vector="v"), parent) is True
    assert same_image(member(2, 1, forked=True), member(1, 0)) is True
    assert same_image(member(2, 1), member(1, 0)) is None
    assert tree.image_is_proved(member(2, 1, random="aa"), parent)
    assert not tree.image_is_proved(member(2, 1, vector="v"), parent)


def test_a_program_without_address_randomisation_has_no_mark() -> None:
    with program("setarch", "-R", sys.executable, "-c", WAITS) as process:
        assert tree.outline()[process.pid].forked is None


def test_kernel_threads_have_no_title_and_are_known() -> None:
    found = tree.listing()
    threads = [one for one in found.values() if one.kernel_thread]
    if not threads:
        pytest.skip("kernel threads: this pid namespace shows none")
    assert all(one.title == () and one.exe is None for one in threads)


def test_a_process_that_ends_is_not_listed() -> None:
    with program(sys.executable, "-c", WAITS) as process:
        pid = process.pid
        assert pid in tree.outline()
    assert pid not in tree.outline()


ONLY_A_THREAD = """
import ctypes, sys, threading, time

def live():
    time.sleep(0.01)
    while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.001)
    print("ready", flush=True)
    sys.stdin.read()

threading.Thread(target=live).start()
ctypes.CDLL(None).syscall(60, 0)
"""


def test_the_title_of_a_process_whose_main_thread_has_ended() -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("x86_64: the program uses this machine's number of exit(2)")
    with (
        program(sys.executable, "-c", ONLY_A_THREAD) as process,
        ProcessHandle.open(process.pid) as handle,
    ):
        assert tree.outline()[process.pid].state == "Z"
        assert tree.title_through(handle)[:2] == (sys.executable, "-c")
        assert tree.listing()[process.pid].title[:2] == (sys.executable, "-c")


def test_a_zombie_has_no_title() -> None:
    process = subprocess.Popen([sys.executable, "-c", WAITS], stdin=subprocess.PIPE)
    try:
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with ProcessHandle.open(process.pid) as handle:
            assert tree.title_through(handle) == ()
        assert tree.listing()[process.pid].title == ()
    finally:
        process.wait(10)
        assert process.stdin is not None
        process.stdin.close()
