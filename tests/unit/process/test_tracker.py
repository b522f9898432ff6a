"""The resource tracker's block as a witness for its siblings."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest

from envprobe.model import BlockState, Confidence, Environment, EnvironmentStatus, State, View
from envprobe.process.environ_exec import read_exec
from envprobe.process.handle import ProcessHandle
from envprobe.process.tracker import tracker_view
from envprobe.values import Value
from tests.programs.actions import Action, c_putenv, py_set
from tests.programs.trees import TitledTree


@pytest.fixture(scope="module")
def tree() -> Iterator[TitledTree]:
    actions = {
        0: Action(before_title=[c_putenv("BBB", "new")]),
        1: Action(parent_before=[py_set("LATE", "1"), py_set("AAA", "changed")]),
        2: Action(title=""),
    }
    env = {"AAA": "first", "BBB": "old"}
    with TitledTree(workers=3, env=env, actions=actions, detokenizer=False) as tree:
        yield tree


def exec_view(pid: int) -> tuple[Environment, float]:
    start = psutil.Process(pid).create_time()
    with ProcessHandle.open(pid) as handle:
        return read_exec(handle, at=start), start


def seen_through_the_tracker(tree: TitledTree, worker: int) -> Environment:
    assert tree.tracker is not None
    own, worker_start = exec_view(tree.worker(worker))
    tracker, tracker_start = exec_view(tree.tracker)
    return tracker_view(
        own,
        tracker,
        tracker_pid=tree.tracker,
        tracker_start=tracker_start,
        worker_start=worker_start,
    )


def test_a_wiped_block_is_inferred_from_the_tracker(tree: TitledTree) -> None:
    view = seen_through_the_tracker(tree, 1)
    assert view.view is View.EXEC
    assert view.block is BlockState.WIPED
    reading = view.reading("BBB")
    assert reading.value == Value(b"old")
    assert reading.confidence is Confidence.INFERRED
    assert view.reading("NEVER_SET").state is State.ABSENT
    assert view.reading("NEVER_SET").confidence is Confidence.INFERRED


def test_the_tracker_is_older_than_the_change_and_says_so(tree: TitledTree) -> None:
    view = seen_through_the_tracker(tree, 1)
    worker = tree.reports[tree.worker(1)]
    assert worker.start["LATE"] == "1"
    assert worker.start["AAA"] == "changed"
    assert view.reading("LATE").state is State.ABSENT
    assert view.reading("AAA").value == Value(b"first")
    assert tree.tracker is not None
    start = psutil.Process(tree.tracker).create_time()
    assert view.at == start
    assert f"resource tracker {tree.tracker}" in view.source
    assert f"resource tracker {tree.tracker}, started at 20" in view.reason
    assert "s before it by the same parent" in view.reason


def test_survivors_of_the_own_block_stay_proved(tree: TitledTree) -> None:
    view = seen_through_the_tracker(tree, 0)
    pid = tree.worker(0)
    assert view.block is BlockState.PARTLY_WIPED
    survivor = view.reading("BBB")
    assert survivor.value == Value(b"old")
    assert survivor.confidence is Confidence.PROVED
    assert survivor.source == f"/proc/{pid}/environ"
    assert survivor.at == psutil.Process(pid).create_time()
    assert view.reading("AAA").confidence is Confidence.INFERRED


def test_a_whole_block_needs_no_witness(tree: TitledTree) -> None:
    own, _ = exec_view(tree.worker(2))
    assert seen_through_the_tracker(tree, 2) == own


@pytest.mark.parametrize(
    "status", [status for status in EnvironmentStatus if status is not EnvironmentStatus.COMPLETE]
)
def test_a_tracker_that_is_not_whole_proves_nothing(status: EnvironmentStatus) -> None:
    own = Environment(View.EXEC, EnvironmentStatus.UNREADABLE, reason="wiped")
    tracker = Environment(View.EXEC, status, {"A": Value(b"1")})
    view = tracker_view(own, tracker, tracker_pid=1, tracker_start=2.0, worker_start=1.0)
    assert view is own


def test_duplicates_come_from_where_the_value_comes_from() -> None:
    own = Environment(
        View.EXEC, EnvironmentStatus.PARTIAL, {"A": Value(b"own")}, reason="partly wiped"
    )
    entries = {"A": Value(b"1"), "B": Value(b"2")}
    later = {"A": (Value(b"3"),), "B": (Value(b"4"),)}
    tracker = Environment(View.EXEC, EnvironmentStatus.COMPLETE, dict(entries), dict(later))
    view = tracker_view(own, tracker, tracker_pid=1, tracker_start=2.0, worker_start=1.5)
    assert view.duplicates == {"B": (Value(b"4"),)}
    assert view.entries == {"A": Value(b"own"), "B": Value(b"2")}
    assert "0.50 s after it" in view.reason
    assert view.at == 2.0
