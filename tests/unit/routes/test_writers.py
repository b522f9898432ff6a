"""Which changes the table of framework writers explains, and which it must not."""

from __future__ import annotations

import fnmatch
import re
from typing import Any

import pytest

from envprobe import tables
from envprobe.model import Carries, EdgeKind, Role, View
from tests.unit.routes.builders import SERVER, WORKER, Tree, unreadable

ROWS: list[dict[str, Any]] = tables.load("framework-writers")["rows"]
VLLM_SERVER = Role("server", "vllm")
VLLM_WORKER = Role("worker", "vllm", {"tp": 0}, worker=True)
TORCHRUN = Role("launcher", "torchrun")
RANK = Role("rank", "torchrun", worker=True)
RAYLET = Role("raylet", "ray")
ACTOR = Role("actor", "ray", worker=True)
PLAIN = Role("python")
PLAIN_WORKER = Role("worker", worker=True)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['framework']}-{row['variable']}")
def test_rows_are_whole(row: dict[str, Any]) -> None:
    allowed = {"variable", "framework", "hop", "condition", "wins", "source"}
    allowed |= {"values", "pattern", "copy_of", "removes", "within", "through", "roles", "needs"}
    allowed |= {"rehearsed"}
    assert set(row) <= allowed
    assert row["hop"] in ("P", "M", "S", "C")
    assert row["wins"] in ("user", "framework")
    assert row["source"]
    assert row["condition"]
    re.compile(row.get("pattern", ""))


def test_no_row_explains_any_change_of_an_nccl_variable_in_a_plain_worker() -> None:
    """A pattern over all of NCCL's names may only speak of what Ray's workers are sent."""
    wide = [row for row in ROWS if fnmatch.fnmatchcase("NCCL_ANYTHING", row["variable"])]
    assert [row.get("through") for row in wide] == ["raylet"]


def writer(tree: Tree, pid: int, name: str) -> str:
    (found,) = tree.route(pid, name).breaks
    return found.writer


def in_server(before: dict[str, str], after: dict[str, str], *options: str) -> Tree:
    title = ("python", "-m", "sglang.launch_server", *options)
    return Tree().add(1, exec=before, libc=after, title=title).worker(2, 1, exec=after)


def test_a_default_is_written_only_over_nothing() -> None:
    name = "NCCL_NVLS_ENABLE"
    assert "if it is not set" in writer(in_server({}, {name: "0"}), 2, name)
    by_option = in_server({name: "0"}, {name: "1"}, "--enable-nccl-nvls")
    assert "--enable-nccl-nvls" in writer(by_option, 2, name)


def test_a_setdefault_never_explains_a_users_value_that_changed() -> None:
    name = "NCCL_GRAPH_REGISTER"
    assert writer(in_server({}, {name: "0"}), 2, name)
    assert writer(in_server({name: "1"}, {name: "0"}), 2, name) == ""


def test_deterministic_inference_overwrites_the_algorithm() -> None:
    name, option = "NCCL_ALGO", "--enable-deterministic-inference"
    tree = in_server({name: "Ring"}, {name: "allreduce:tree"}, option)
    assert option in writer(tree, 2, name)
    assert writer(in_server({name: "Ring"}, {name: "Tree"}, option), 2, name) == ""


def test_what_an_option_switches_on_explains_nothing_without_it() -> None:
    name, before, after = "NCCL_MIN_NCHANNELS", {}, {"NCCL_MIN_NCHANNELS": "8"}
    assert writer(in_server(before, after), 2, name) == ""
    assert writer(in_server(before, after, "--enable-deterministic-inference"), 2, name)
    assert writer(in_server(before, after, "--config", "server.yaml"), 2, name)


def test_what_a_variable_switches_on_explains_nothing_without_it() -> None:
    for switch, explained in (({}, False), ({"VLLM_BATCH_INVARIANT": "1"}, True)):
        after = {**switch, "NCCL_PROTO": "Simple"}
        tree = Tree().add(1, exec=switch, libc=after, role=VLLM_SERVER)
        tree.worker(2, 1, exec=after, role=VLLM_WORKER)
        assert bool(writer(tree, 2, "NCCL_PROTO")) is explained


def test_what_the_server_writes_is_not_explained_in_a_worker() -> None:
    tree = Tree().add(1).worker(2, 1, exec={}, libc={"NCCL_CUMEM_ENABLE": "0"})
    assert writer(tree, 2, "NCCL_CUMEM_ENABLE") == ""


def test_what_a_worker_writes_is_not_explained_in_the_server() -> None:
    name = "FLASHINFER_CUDA_ARCH_LIST"
    tree = Tree().add(1).worker(2, 1, exec={}, libc={name: "9.0a"})
    assert "inside the worker" in writer(tree, 2, name)
    assert writer(in_server({}, {name: "9.0a"}), 2, name) == ""


def test_another_frameworks_habit_explains_nothing() -> None:
    tree = Tree().add(1, exec={}, libc={"CUDA_DEVICE_MAX_CONNECTIONS": "8"}, role=VLLM_SERVER)
    tree.worker(2, 1, exec={"CUDA_DEVICE_MAX_CONNECTIONS": "8"}, role=VLLM_WORKER)
    assert writer(tree, 2, "CUDA_DEVICE_MAX_CONNECTIONS") == ""


def test_a_plain_python_server_of_titled_workers_has_their_framework() -> None:
    tree = Tree().add(1, exec={}, libc={"CUDA_DEVICE_MAX_CONNECTIONS": "8"}, role=PLAIN)
    tree.worker(2, 1, exec={"CUDA_DEVICE_MAX_CONNECTIONS": "8"}, role=WORKER)
    assert writer(tree, 2, "CUDA_DEVICE_MAX_CONNECTIONS")


def test_the_copy_of_an_older_name_is_explained_by_that_name() -> None:
    before = {"SGL_ANY": "5"}
    assert "SGL_" in writer(in_server(before, {**before, "SGLANG_ANY": "5"}), 2, "SGLANG_ANY")
    assert writer(in_server(before, {**before, "SGLANG_ANY": "6"}), 2, "SGLANG_ANY") == ""


def test_a_device_for_each_scheduler_is_written_around_the_spawn() -> None:
    tree = Tree().add(1).worker(2, 1, exec={"CUDA_VISIBLE_DEVICES": "3"})
    assert "reindex_device_id" in writer(tree, 2, "CUDA_VISIBLE_DEVICES")


def test_vllm_removes_an_old_name_in_its_gpu_worker() -> None:
    given = {"NCCL_ASYNC_ERROR_HANDLING": "1"}
    tree = Tree().add(1, exec=given, role=VLLM_SERVER)
    tree.worker(2, 1, EdgeKind.FORK, exec=given, libc={}, role=VLLM_WORKER)
    assert "removes" in writer(tree, 2, "NCCL_ASYNC_ERROR_HANDLING")


def test_rays_copies_are_explained_below_a_raylet_only() -> None:
    tree = Tree().add(1, role=RAYLET).worker(2, 1, exec={}, libc={"NCCL_ALGO": "Ring"}, role=ACTOR)
    assert "copied from the driver" in writer(tree, 2, "NCCL_ALGO")
    tree = Tree().add(1, role=VLLM_SERVER)
    tree.worker(2, 1, exec={}, libc={"NCCL_ALGO": "Ring"}, role=VLLM_WORKER)
    assert writer(tree, 2, "NCCL_ALGO") == ""


def test_torchrun_gives_each_rank_its_number() -> None:
    edge = {"carries": Carries.C_ENVIRON}
    tree = Tree().add(1, role=TORCHRUN)
    tree.worker(2, 1, EdgeKind.EXEC, exec={"RANK": "0"}, role=RANK, edge=edge)
    assert "torchrun sets RANK" in writer(tree, 2, "RANK")


def test_the_locale_coercion_of_python_is_explained_everywhere() -> None:
    tree = Tree().add(1, exec={}, libc={"LC_CTYPE": "C.UTF-8"}, role=PLAIN)
    tree.worker(2, 1, exec={"LC_CTYPE": "C.UTF-8"}, role=PLAIN_WORKER)
    assert "PEP 538" in writer(tree, 2, "LC_CTYPE")
    tree = Tree().add(1, exec={"LC_CTYPE": "de_DE"}, libc={"LC_CTYPE": "C.UTF-8"}, role=PLAIN)
    tree.worker(2, 1, exec={"LC_CTYPE": "C.UTF-8"}, role=PLAIN_WORKER)
    assert writer(tree, 2, "LC_CTYPE") == ""


def test_a_change_of_the_server_found_only_behind_unread_views_is_explained() -> None:
    name = "CUDA_DEVICE_MAX_CONNECTIONS"
    tree = Tree().add(1, exec={name: "1"}, libc=unreadable(View.LIBC), role=SERVER)
    tree.worker(2, 1, exec={name: "8"})
    assert "engine.py" in writer(tree, 2, name)


def test_what_was_never_there_has_no_writer() -> None:
    assert writer(Tree().add(1).worker(2, 1), 2, "CUDA_DEVICE_MAX_CONNECTIONS") == ""
