"""What a route is made of: its stops, its names, and for whom there is one."""

from __future__ import annotations

from envprobe.model import Carries, EdgeKind, State, View
from envprobe.routes.types import ReadTime
from tests.unit.routes.builders import (
    FORKSERVER,
    SERVER,
    Tree,
    environment,
    said,
    unreadable,
)


def stops(tree: Tree, pid: int) -> list[tuple[int, str]]:
    return [(stop.pid, stop.view.value) for stop in tree.route(pid).stops]


def test_the_stops_run_from_the_root_to_the_worker() -> None:
    tree = Tree().add(1).add(2, 1).worker(3, 2)
    views = ["exec", "libc"]
    assert stops(tree, 3) == [(pid, view) for pid in (1, 2, 3) for view in views]
    assert [edge.parent for edge in tree.route(3).edges] == [None, 1, 2]


def test_declared_comes_first_and_python_last() -> None:
    tree = Tree().add(1, declared={"X": "1"}, exec={"X": "1"})
    tree.worker(2, 1, exec={"X": "1"}, python={"X": "1"})
    assert stops(tree, 2)[0] == (1, "declared")
    assert stops(tree, 2)[-1] == (2, "python")
    assert said(tree.route(2)) == []


def test_a_forkserver_child_comes_by_way_of_its_forkserver() -> None:
    tree = Tree().add(1).add(2, 1, EdgeKind.EXEC, role=FORKSERVER)
    tree.worker(3, 2, EdgeKind.FORKSERVER)
    assert [pid for pid, view in stops(tree, 3) if view == "libc"] == [1, 2, 3]


def test_the_exec_block_of_a_fork_child_is_no_reading_of_its_own() -> None:
    tree = Tree().add(1, exec={"X": "1"}).worker(2, 1, EdgeKind.FORK, exec={}, libc={"X": "1"})
    reading = tree.route(2).final(View.EXEC)
    assert reading.state is State.NOT_APPLICABLE
    assert "PID 1" in reading.reason
    assert said(tree.route(2)) == []


def test_the_c_environ_of_a_shell_that_builds_is_no_reading_for_its_children() -> None:
    dash = {"carries": Carries.BUILT_BLOCK, "launcher": "dash"}
    tree = Tree().add(1, exec={"X": "1"}).worker(2, 1, EdgeKind.EXEC, exec={"X": "1"}, edge=dash)
    assert tree.route(2).stops[1].reading.state is State.NOT_APPLICABLE


def test_a_loop_of_edges_ends() -> None:
    tree = Tree().add(1, 2, EdgeKind.EXEC).add(2, 1, EdgeKind.EXEC).worker(3, 2)
    assert stops(tree, 3)[-1] == (3, "libc")
    assert len(stops(tree, 3)) == 6


def test_a_parent_outside_the_scan_ends_the_route() -> None:
    tree = Tree().worker(3, 77, exec={"X": "1"})
    assert stops(tree, 3) == [(3, "exec"), (3, "libc")]


def test_names_are_those_wanted_that_occur_anywhere_and_those_expected() -> None:
    tree = Tree().add(1, exec={"NCCL_ALGO": "Ring", "HOME": "/"}).worker(2, 1)
    tree.add(4, 1, libc={"NCCL_PROTO": "LL"})
    assert tree.routing("EXPECTED").names == ("EXPECTED", "NCCL_ALGO", "NCCL_PROTO")


def test_patterns_of_names_are_case_sensitive_and_cover_the_whole_name() -> None:
    tree = Tree(wanted=("NCCL_ALGO",)).add(1, exec={"NCCL_ALGO_X": "1", "nccl_algo": "1"})
    assert tree.worker(2, 1).routing().names == ()


def test_there_is_a_route_to_each_worker_and_each_process_of_a_named_role() -> None:
    tree = Tree().add(1, exec={"X": "1"}).worker(2, 1).add(3, 1, role=FORKSERVER)
    assert {pid for pid, _ in tree.routing().routes} == {2}
    assert {pid for pid, _ in tree.routing(roles=("server", "forkserver")).routes} == {1, 2, 3}


def test_an_orphan_has_no_route_and_is_not_counted() -> None:
    tree = Tree().add(1, exec={"X": "1"}).worker(2, 1).worker(3, 1, orphan=True)
    routing = tree.routing(roles=("scheduler",))
    assert routing.workers() == (2,)
    assert {pid for pid, _ in routing.routes} == {2}


def test_a_value_that_was_not_asked_for_is_never_absent() -> None:
    tree = Tree().add(1, exec={"X": "1"})
    given = environment(View.LIBC, {})
    given.entries["X"] = None
    tree.worker(2, 1, exec={"X": "1"}, libc=given)
    assert tree.route(2).final().state is State.NOT_ASKED
    assert said(tree.route(2)) == []


def test_what_could_not_be_read_stays_unreadable() -> None:
    tree = Tree().add(1, exec={"X": "1"}).worker(2, 1, exec={}, libc=unreadable(View.LIBC))
    reading = tree.route(2).final()
    assert (reading.state, reading.remedy) == (State.UNREADABLE, "Run as root.")


def test_a_route_knows_when_its_variable_is_read() -> None:
    tree = Tree().add(1, exec={"PYTHONPATH": "/a", "NCCL_ALGO": "Ring", "X": "1"}).worker(2, 1)
    assert tree.route(2, "PYTHONPATH").read_time is ReadTime.EXEC
    assert tree.route(2, "NCCL_ALGO").read_time is ReadTime.EACH_COMMUNICATOR
    assert tree.route(2, "X").read_time is ReadTime.UNKNOWN


def test_the_server_itself_can_be_asked_for() -> None:
    tree = Tree().add(1, exec={"X": "1"}, libc={"X": "2"}, role=SERVER).worker(2, 1)
    assert said(tree.route(1)) == ["changed exec(1)>libc(1) proved: changed-in-worker"]
