"""The exec view: what the kernel's block says, and what titles did to it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envprobe.model import BlockState, Environment, EnvironmentStatus, State, View
from envprobe.process.environ_exec import MAX_STRINGS, Block, classify, read_exec
from envprobe.process.handle import ProcessGone, ProcessHandle
from envprobe.values import Value
from tests.programs.actions import LEAVE_MAIN_THREAD, Action, c_putenv, c_setenv, py_set, retitle
from tests.programs.raw import running
from tests.programs.requirement import missing
from tests.programs.trees import TitledTree

STRINGS = st.binary(max_size=30).map(lambda text: text.replace(b"\0", b"."))
NAMES = st.binary(min_size=1, max_size=6).map(lambda t: t.replace(b"\0", b".").replace(b"=", b"."))
VARIABLES = st.builds(lambda name, value: name + b"=" + value, NAMES, STRINGS)


def block_of(entries: list[bytes]) -> bytes:
    return b"".join(entry + b"\0" for entry in entries)


def values(block: Block | Environment) -> dict[str, bytes | None]:
    return {name: value and value.reveal() for name, value in block.entries.items()}


def first_values(entries: list[bytes]) -> dict[str, bytes]:
    """The meaning of a block as getenv(3) has it, written down independently."""
    found: dict[str, bytes] = {}
    for entry in entries:
        position = entry.find(b"=")
        if position > 0:
            found.setdefault(os.fsdecode(entry[:position]), entry[position + 1 :])
    return found


# --- decoding


@given(st.lists(VARIABLES | STRINGS.filter(bool)))
def test_what_execve_was_given_is_intact(entries: list[bytes]) -> None:
    block = classify(block_of(entries))
    assert block.state is BlockState.INTACT
    assert values(block) == first_values(entries)
    odd = [entry for entry in entries if entry.find(b"=") < 1]
    assert [value.reveal() for value in block.oddities] == odd[:64]
    counted = len(block.entries) + sum(map(len, block.duplicates.values())) + len(odd)
    assert counted == len(entries)


@given(st.lists(VARIABLES, min_size=1), st.data())
def test_a_title_over_the_first_entries_leaves_the_others(
    entries: list[bytes], data: st.DataObject
) -> None:
    lost = data.draw(st.integers(1, len(entries)))
    taken = len(block_of(entries[:lost]))
    block = classify(bytes(taken) + block_of(entries[lost:]))
    assert block.state is (BlockState.WIPED if lost == len(entries) else BlockState.PARTLY_WIPED)
    assert values(block) == first_values(entries[lost:])
    assert block.reason


@given(st.lists(VARIABLES, min_size=1), st.data())
def test_a_spilled_title_is_no_entry(entries: list[bytes], data: st.DataObject) -> None:
    lost = data.draw(st.integers(1, len(entries)))
    area = len(block_of(entries[:lost]))
    tail = b"X=spilled title=" * area
    tail = tail[: data.draw(st.integers(1, area - 2))]
    block = classify(tail.ljust(area, b"\0") + block_of(entries[lost:]), spilled=True)
    assert block.state is BlockState.SPILLED
    assert values(block) == first_values(entries[lost:])


def test_the_string_right_behind_an_unpadded_title_is_left_out() -> None:
    # "PATH=/a:B=1" lost its first bytes to a title that wrote no more than its own NUL.
    block = classify(b"title\0a:B=1\0C=2\0", spilled=True)
    assert values(block) == {"C": b"2"}
    assert values(classify(b"title\0B=1\0C=2\0", spilled=True, live={6})) == {"B": b"1", "C": b"2"}


def test_a_gap_in_the_middle_makes_the_string_behind_it_doubtful() -> None:
    block = classify(b"A=1\0\0\0\0B=2\0C=3\0")
    assert block.state is BlockState.PARTLY_WIPED
    assert values(block) == {"A": b"1", "C": b"3"}
    assert values(classify(b"A=1\0\0\0\0B=2\0C=3\0", live={7})) == {"A": b"1", "B": b"2", "C": b"3"}


@pytest.mark.parametrize(
    ("raw", "state"),
    [
        (b"", BlockState.INTACT),
        (b"\0", BlockState.INTACT),  # execve with one empty string
        (b"\0\0", BlockState.INTACT),
        (b"\0A=1\0", BlockState.INTACT),
        (b"\0\0\0", BlockState.WIPED),  # may have been N=
        (b"\0\0\0A=1\0", BlockState.PARTLY_WIPED),
        (b"A=1\0\0\0\0", BlockState.PARTLY_WIPED),
        (b"A=1\0B=", BlockState.PARTLY_WIPED),  # no NUL at the end: not execve's work
        (b"no sign\0=no name\0", BlockState.INTACT),
    ],
)
def test_states(raw: bytes, state: BlockState) -> None:
    assert classify(raw).state is state


def test_a_block_that_ends_early_is_never_whole() -> None:
    block = classify(b"A=1\0", size=8)
    assert block.state is BlockState.PARTLY_WIPED
    assert "4 of 8 bytes" in block.reason


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_decoded(raw: bytes, spilled: bool) -> None:
    block = classify(raw, spilled=spilled)
    assert (block.state is BlockState.INTACT) == (not block.reason)
    for name, value in values(block).items():
        assert os.fsencode(name) + b"=" + (value or b"") in raw


def test_a_block_of_very_many_strings_is_bounded() -> None:
    block = classify(b"a\0" * (MAX_STRINGS + 5))
    assert block.state is BlockState.PARTLY_WIPED
    assert len(block.oddities) < 100
    assert str(MAX_STRINGS) in block.reason
    assert classify(bytes(1 << 24)).state is BlockState.WIPED


def test_only_wanted_values_are_kept_and_the_first_one_counts() -> None:
    block = classify(b"A=1\0B=2\0A=3\0A=4\0", wanted=lambda name: name == "A")
    assert block.entries == {"A": Value(b"1"), "B": None}
    assert block.duplicates == {"A": (Value(b"3"), Value(b"4"))}


def test_long_oddities_are_cut_but_compare_as_a_whole() -> None:
    (odd,) = classify(b"x" * 5000 + b"\0").oddities
    assert odd.truncated
    assert odd == Value(b"x" * 5000)


# --- real processes


def view_of(pid: int) -> Environment:
    with ProcessHandle.open(pid) as handle:
        return read_exec(handle, at=1.0)


LONG = "sglang::scheduler_TP3 --model=" + "x" * 200


@pytest.fixture(scope="module", params=["setproctitle", "own"])
def tree(request: pytest.FixtureRequest) -> Iterator[TitledTree]:
    if request.param == "setproctitle":
        pytest.importorskip("setproctitle")
    actions = {
        1: Action(before_title=[c_putenv("BBB", "new")]),
        2: Action(before_title=[py_set("SPT_NOENV", "1")]),
        3: Action(title=LONG),
        4: Action(title=""),
        5: Action(before_title=[c_putenv("BBB", "new")], title=LONG),
        6: Action(after_title=[c_setenv("AAA", "changed"), c_setenv("NEW", "1")]),
    }
    env = {"AAA": "first", "BBB": "old", "CCC": "kept \udcff\n::error::", "PAD": "x" * 300}
    with TitledTree(workers=7, env=env, actions=actions, titler=request.param) as tree:
        assert {r.titler for r in tree.reports.values()} == {request.param, ""}
        yield tree


def test_a_titled_process_has_a_wiped_block(tree: TitledTree) -> None:
    view = view_of(tree.worker(0))
    assert (view.view, view.block) == (View.EXEC, BlockState.WIPED)
    assert view.status is EnvironmentStatus.UNREADABLE
    reading = view.reading("AAA")
    assert reading.state is State.UNREADABLE
    assert "overwritten" in reading.reason
    assert "SPT_NOENV=1" in reading.remedy
    assert tree.truth[tree.worker(0)]["AAA"] == "first"


def test_entries_behind_the_first_changed_one_survive_with_their_old_values(
    tree: TitledTree,
) -> None:
    pid = tree.worker(1)
    view = view_of(pid)
    assert (view.block, view.status) == (BlockState.PARTLY_WIPED, EnvironmentStatus.PARTIAL)
    assert view.reading("AAA").state is State.UNREADABLE
    assert values(view)["BBB"] == b"old"
    assert tree.truth[pid]["BBB"] == "new"
    assert values(view)["CCC"] == b"kept \xff\n::error::"


@pytest.mark.parametrize("number", [2, 4])
def test_noenv_and_no_title_leave_the_block_whole(tree: TitledTree, number: int) -> None:
    view = view_of(tree.worker(number))
    assert (view.block, view.status) == (BlockState.INTACT, EnvironmentStatus.COMPLETE)
    assert values(view)["CCC"] == b"kept \xff\n::error::"
    assert view.reading("SPT_NOENV").state is State.ABSENT
    assert view.at == 1.0


def test_a_title_longer_than_the_command_line_spills(tree: TitledTree) -> None:
    view = view_of(tree.worker(3))
    assert (view.block, view.status) == (BlockState.SPILLED, EnvironmentStatus.PARTIAL)
    assert not view.entries
    assert view.reading("BBB").state is State.UNREADABLE
    both = view_of(tree.worker(5))
    assert both.block is BlockState.SPILLED
    assert values(both)["BBB"] == b"old"
    assert "model" not in both.entries


def test_later_changes_never_show(tree: TitledTree) -> None:
    view = view_of(tree.worker(6))
    assert view.block is BlockState.WIPED
    assert tree.truth[tree.worker(6)]["NEW"] == "1"


@pytest.mark.parametrize("titler", ["auto", "own"])
def test_a_block_that_changes_at_every_look_is_changing(titler: str) -> None:
    room = {"PAD": "x" * 300}
    with TitledTree(workers=1, detokenizer=False, titler=titler, env=room) as tree:
        pid = tree.worker(0)
        titles = iter(range(100))

        class Disturbed(ProcessHandle):
            def read(self, name: str, limit: int = 1 << 24) -> bytes:
                if name == "environ":
                    tree.tell(pid, retitle("x" * 250 + str(next(titles))))
                return super().read(name, limit)

        with Disturbed.open(pid) as handle:
            view = read_exec(handle)
    assert view.status is EnvironmentStatus.CHANGING
    assert view.reading("A").state is State.CHANGING
    assert view.reading("A").remedy


def test_an_empty_environment_is_whole() -> None:
    with running([]) as pid:
        view = view_of(pid)
    assert (view.block, view.status) == (BlockState.INTACT, EnvironmentStatus.COMPLETE)
    assert view.entries == {}
    assert view.reading("NCCL_ALGO").state is State.ABSENT


def test_duplicates_and_oddities_pass_through_execve() -> None:
    with running([b"", b"A=1", b"odd", b"=x", b"A=2", b"EMPTY="]) as pid:
        view = view_of(pid)
    assert view.block is BlockState.INTACT
    assert values(view) == {"A": b"1", "EMPTY": b""}
    assert view.duplicates == {"A": (Value(b"2"),)}
    assert [odd.reveal() for odd in view.oddities] == [b"", b"odd", b"=x"]


def test_huge_values_and_many_variables() -> None:
    long = b"L" * 131_000
    many = [b"N%05d=%d" % (number, number) for number in range(20_000)]
    with running([b"LONG=" + long, *many]) as pid:
        view = view_of(pid)
    assert view.status is EnvironmentStatus.COMPLETE
    assert len(view.entries) == 20_001
    assert values(view)["LONG"] == long
    assert values(view)["N19999"] == b"19999"


def test_a_zombie_and_a_process_that_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with ProcessHandle.open(child.pid) as handle:
            view = read_exec(handle)
            assert (view.block, view.status) == (
                BlockState.UNREADABLE,
                EnvironmentStatus.UNREADABLE,
            )
            assert "zombie" in view.reason
            child.wait()
            with pytest.raises(ProcessGone):
                read_exec(handle)
    finally:
        child.wait()


def test_a_zombie_as_older_kernels_show_it_faked() -> None:
    """6.18 refuses (ESRCH) what other kernels give as an empty file; the empty one is faked."""

    class Older(ProcessHandle):
        def read(self, name: str, limit: int = 1 << 24) -> bytes:
            return b"" if name == "environ" else super().read(name, limit)

    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with Older.open(child.pid) as handle:
            view = read_exec(handle)
    finally:
        child.wait()
    assert view.status is EnvironmentStatus.UNREADABLE
    assert "zombie" in view.reason


@pytest.mark.parametrize("title", ["", LONG])
def test_a_process_whose_main_thread_has_left(title: str) -> None:
    leaver = Action(title=title, after_title=[LEAVE_MAIN_THREAD])
    with (
        TitledTree(workers=1, detokenizer=False, env={"AAA": "1"}, actions={0: leaver}) as tree,
        ProcessHandle.open(tree.worker(0)) as handle,
    ):
        limit = time.monotonic() + 10
        while handle.stat().state != "Z":
            assert time.monotonic() < limit
        view = read_exec(handle)
    assert view.block is (BlockState.SPILLED if title else BlockState.INTACT)
    assert values(view).get("AAA") == (None if title else b"1")


def test_a_kernel_thread_has_no_environment() -> None:
    with contextlib.ExitStack() as stack:
        try:
            handle = stack.enter_context(ProcessHandle.open(2))
            if handle.stat().comm != "kthreadd":
                raise ProcessGone(2)
        except ProcessGone:
            missing("kernel-threads", "none are visible in this pid namespace")
        view = read_exec(handle)
    assert view.status is EnvironmentStatus.UNREADABLE
    assert "kernel thread" in view.reason
