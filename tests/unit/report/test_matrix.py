"""Which rows and columns the table has, and what each mark says."""

from __future__ import annotations

import dataclasses

from envprobe.config import Config
from envprobe.model import EnvironmentStatus, Role, View
from envprobe.report import matrix
from envprobe.routes.types import InTime
from tests.unit.checks.scene import Scene, libc_view, refused, sglang, worker
from tests.unit.report.sample import report

HEALTHY = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"}


def table(
    scene: Scene, *expect: str, patterns: tuple[str, ...] = (), show_all: bool = False
) -> matrix.Matrix:
    made = report(scene, *expect)
    (scan,) = made.scans
    (launch,) = scan.routing.launches
    focus = matrix.Focus(made.config, scan.result.findings, patterns, show_all)
    return matrix.build(scan.routing, launch, focus)


def cells(found: matrix.Matrix) -> dict[str, dict[str, str]]:
    heads = [column.label for column in found.columns]
    return {row.name: dict(zip(heads, row.marks, strict=True)) for row in found.rows}


def test_equal_workers_are_one_column_and_every_variable_is_shown_when_all_is_well() -> None:
    assert cells(table(sglang(8, server=HEALTHY))) == {
        "NCCL_ALGO": {"server": "=", "TP0-TP7": "="},
        "NCCL_PROTO": {"server": "=", "TP0-TP7": "="},
    }


def test_the_worker_that_lost_a_variable_stands_alone() -> None:
    scene = worker(sglang(4, server=HEALTHY), 112, {"NCCL_ALGO": "Ring"})
    assert cells(table(scene)) == {
        "NCCL_ALGO": {"server": "=", "TP0, TP1, TP3": "=", "TP2": "="},
        "NCCL_PROTO": {"server": "=", "TP0, TP1, TP3": "=", "TP2": "-"},
    }


def test_what_code_in_the_server_added_is_left_out_and_named() -> None:
    added = {"NCCL_CUMEM_ENABLE": "0", "NCCL_NVLS_ENABLE": "0"}
    after = {**HEALTHY, **added}
    scene = sglang(2, server=after, server_exec=HEALTHY)
    found = table(scene)
    assert set(cells(found)) == set(HEALTHY)
    assert found.same == tuple(added)


def test_other_values_get_letters_and_are_not_the_reference() -> None:
    other = {**HEALTHY, "NCCL_ALGO": "Tree"}
    scene = worker(sglang(3, server=HEALTHY), 111, other, other)
    row, _ = table(scene).rows
    assert row.value is not None
    assert row.value.reveal() == b"Ring"
    assert row.marks == ("=", "=", "a")
    assert [(letter, value.reveal()) for letter, value in row.others] == [("a", b"Tree")]


def test_the_expected_value_is_the_reference_even_if_nobody_has_it() -> None:
    found = table(sglang(2, server=HEALTHY), "NCCL_ALGO=Tree")
    (row,) = found.rows
    assert row.value is not None
    assert row.value.reveal() == b"Tree"
    assert row.marks == ("a", "a")


def test_unreadable_never_looks_like_absent() -> None:
    scene = sglang(2, server=HEALTHY)
    environments = {**scene.processes[111].environments, View.LIBC: refused(View.LIBC)}
    scene.change(111, environments=environments)
    found = cells(table(scene, "NCCL_ALGO=Ring"))
    assert found["NCCL_ALGO"] == {"server": "=", "TP0": "=", "TP1": "?"}


def test_a_worker_that_cannot_be_read_is_no_difference_and_no_agreement() -> None:
    scene = sglang(2, server=HEALTHY)
    environments = {**scene.processes[111].environments, View.LIBC: refused(View.LIBC)}
    scene.change(111, environments=environments)
    unread = {"server": "=", "TP0": "=", "TP1": "?"}
    assert cells(table(scene)) == {"NCCL_ALGO": unread, "NCCL_PROTO": unread}
    found = table(scene, "NCCL_ALGO=Ring")
    assert (found.same, found.unread, found.differing) == ((), ("NCCL_PROTO",), ())
    worker(scene, 110, {"NCCL_ALGO": "Ring"})
    assert cells(table(scene))["NCCL_PROTO"]["TP0"] == "-"


def test_a_name_missing_in_a_partly_read_view_is_unreadable() -> None:
    scene = sglang(2, server=HEALTHY)
    part = libc_view({"NCCL_ALGO": "Ring"}, status=EnvironmentStatus.PARTIAL)
    scene.change(111, environments={**scene.processes[111].environments, View.LIBC: part})
    found = cells(table(scene, "NCCL_PROTO=Simple"))
    assert found["NCCL_PROTO"]["TP1"] == "?"


def test_what_came_after_the_start_is_marked_late() -> None:
    scene = worker(sglang(2, server={}), 110, HEALTHY, exec={})
    made = report(scene, "NCCL_ALGO")
    (scan,) = made.scans
    assert scan.routing.routes[110, "NCCL_ALGO"].in_time is InTime.NO
    assert cells(table(scene, "NCCL_ALGO"))["NCCL_ALGO"] == {"server": "-", "TP0": "=!", "TP1": "-"}


def test_masked_values_of_equal_length_are_told_apart() -> None:
    scene = sglang(2, server={"HF_TOKEN": "aaaa"})
    worker(scene, 111, {"HF_TOKEN": "bbbb"}, {"HF_TOKEN": "bbbb"})
    (row,) = table(scene, patterns=("HF_*",)).rows
    assert row.marks == ("=", "=", "a")


def test_patterns_and_show_all_add_rows() -> None:
    scene = worker(sglang(2, server=HEALTHY), 111, {"NCCL_ALGO": "Ring"})
    assert set(cells(table(scene, patterns=("NCCL_A*",)))) == {"NCCL_ALGO", "NCCL_PROTO"}
    assert set(cells(table(scene, show_all=True))) == {"NCCL_ALGO", "NCCL_PROTO"}


def test_variables_that_differ_by_design_do_not_unfold_the_columns() -> None:
    scene = sglang(8, server=HEALTHY)
    for rank in range(8):
        worker(scene, 110 + rank, {**HEALTHY, "RANK": str(rank)}, {**HEALTHY, "RANK": str(rank)})
    found = table(scene)
    assert [column.label for column in found.columns] == ["server", "TP0-TP7"]
    assert found.differing == ("RANK",)


def test_helpers_are_columns_only_when_somebody_speaks_of_them() -> None:
    scene = sglang(2, server=HEALTHY)
    assert "resource tracker" not in {one.label for one in table(scene).columns}
    expected = dataclasses.replace(
        scene.context("NCCL_ALGO=Ring").config.expectations[0], role="resource tracker"
    )
    made = scene.context(expected)
    (launch,) = made.routing.launches
    focus = matrix.Focus(Config(expectations=(expected,)), ())
    labels = {one.label for one in matrix.build(made.routing, launch, focus).columns}
    assert "resource tracker" in labels


def heads(scene: Scene) -> list[str]:
    return [column.label for column in table(scene).columns]


def test_workers_without_a_rank_are_told_apart_by_their_pid() -> None:
    scene = sglang(2, server=HEALTHY)
    for pid in (110, 111):
        scene.change(pid, role=Role("worker", "vllm", worker=True))
    assert heads(scene) == ["server", "worker 110, worker 111"]
    assert heads(worker(scene, 111, {"NCCL_ALGO": "Ring"})) == [
        "server",
        "worker 110",
        "worker 111",
    ]


def test_workers_with_the_same_rank_are_told_apart_by_their_pid() -> None:
    scene = sglang(2, server=HEALTHY)
    scene.change(111, role=scene.processes[110].role)
    assert heads(scene) == ["server", "TP0 110, TP0 111"]
