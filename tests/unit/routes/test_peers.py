"""Launches and peer groups: whose values must agree, and whose need not."""

from __future__ import annotations

from envprobe.model import EdgeKind, Role
from tests.unit.routes.builders import Tree

SHELL = Role("shell")
CONTROLLER = Role("data parallel controller", "sglang")
PYTHON = Role("python")
FORK_OF = Role("fork of scheduler TP0", "sglang")


def scheduler(**ranks: int) -> Role:
    return Role("scheduler", "sglang", ranks, worker=True)


def launched(tree: Tree) -> list[tuple[int, str, tuple[int, ...]]]:
    return [(one.launcher, one.run_id, one.workers) for one in tree.routing().launches]


def grouped(tree: Tree) -> list[tuple[str, tuple[int, ...]]]:
    return [(one.replica, one.workers) for one in tree.routing().groups]


def test_workers_in_order_of_their_ranks_not_of_their_start() -> None:
    tree = Tree().add(1)
    for pid, tp in ((2, 10), (3, 2), (4, 0)):
        tree.worker(pid, 1, role=scheduler(tp=tp))
    assert launched(tree) == [(1, "", (4, 3, 2))]
    assert grouped(tree) == [("", (4, 3, 2))]


def test_the_nearest_server_above_is_the_launcher() -> None:
    tree = Tree().add(1, role=Role("launcher", "slurm")).add(2, 1).add(3, 2, role=CONTROLLER)
    assert launched(tree.worker(4, 3)) == [(2, "", (4,))]


def test_without_a_server_the_highest_process_that_is_no_shell() -> None:
    tree = Tree().add(1, role=SHELL).add(2, 1, role=PYTHON).add(3, 2, role=PYTHON)
    assert launched(tree.worker(4, 3)) == [(2, "", (4,))]


def test_a_worker_below_shells_only_is_its_own_launcher() -> None:
    assert launched(Tree().add(1, role=SHELL).worker(2, 1)) == [(2, "", (2,))]


def test_two_servers_below_one_shell_are_two_launches() -> None:
    tree = Tree().add(1, role=SHELL).add(3, 1).add(2, 1).worker(4, 2).worker(5, 3)
    assert launched(tree) == [(3, "", (5,)), (2, "", (4,))]
    assert len(tree.routing().groups) == 2


def test_two_run_ids_below_one_launcher_are_two_launches() -> None:
    tree = Tree().add(1).worker(2, 1, run_id="a").worker(3, 1, run_id="b")
    assert launched(tree) == [(1, "a", (2,)), (1, "b", (3,))]
    assert len(tree.routing().groups) == 2


def test_a_run_id_that_could_not_be_read_makes_no_launch_of_its_own() -> None:
    tree = Tree().add(1).worker(2, 1, run_id="a").worker(3, 1, role=scheduler(tp=1))
    assert launched(tree) == [(1, "a", (2, 3))]


def test_with_two_run_ids_nobody_knows_where_an_unread_one_belongs() -> None:
    tree = Tree().add(1).worker(2, 1, run_id="a").worker(3, 1, run_id="b").worker(4, 1)
    assert launched(tree) == [(1, "", (4,)), (1, "a", (2,)), (1, "b", (3,))]


def test_orphans_belong_to_no_launch() -> None:
    tree = Tree().add(1).worker(2, 1).worker(3, None, orphan=True)
    assert launched(tree) == [(1, "", (2,))]


def test_matched_workers_form_a_launch_with_their_parent() -> None:
    tree = Tree().add(1).worker(2, 1)
    tree.worker(8, None, matched=True, ppid=7).worker(9, None, matched=True, ppid=7)
    assert launched(tree) == [(1, "", (2,)), (7, "", (8, 9))]


def test_a_matched_worker_below_a_server_of_the_scan_belongs_to_it() -> None:
    tree = Tree().add(1).worker(2, 1, matched=True)
    assert launched(tree) == [(1, "", (2,))]


def test_the_fork_of_a_worker_is_no_second_rank() -> None:
    tree = Tree().add(1).worker(2, 1).add(3, 2, EdgeKind.FORK, role=FORK_OF)
    assert launched(tree) == [(1, "", (2,))]


def test_data_parallel_replicas_need_not_agree() -> None:
    tree = Tree().add(1)
    for pid, (dp, tp) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)], start=2):
        tree.worker(pid, 1, role=scheduler(dp=dp, tp=tp))
    assert grouped(tree) == [("0", (2, 3)), ("1", (4, 5))]


def test_a_data_parallel_rank_of_experts_makes_no_replica() -> None:
    tree = Tree().add(1)
    tree.worker(2, 1, role=scheduler(moe_dp=0, tp=0)).worker(3, 1, role=scheduler(moe_dp=1, tp=1))
    assert grouped(tree) == [("", (2, 3))]


def test_data_parallel_attention_shares_one_communicator() -> None:
    title = ("python3", "-m", "sglang.launch_server", "--dp", "2", "--enable-dp-attention")
    tree = Tree().add(1, title=title)
    tree.worker(2, 1, role=scheduler(dp=0, tp=0)).worker(3, 1, role=scheduler(dp=1, tp=1))
    assert grouped(tree) == [("", (2, 3))]


def test_roles_are_compared_among_themselves() -> None:
    tree = Tree().add(1).worker(2, 1).worker(3, 1, role=Role("worker", "vllm", worker=True))
    assert [one.role for one in tree.routing().groups] == ["scheduler", "worker"]
