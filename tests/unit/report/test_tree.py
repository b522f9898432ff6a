"""The tree of processes: every process once, folded where nothing is lost, never endless."""

from __future__ import annotations

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from envprobe.model import Death, Edge, EdgeKind, Role
from envprobe.report import tree
from tests.unit.checks.scene import ROOT, Scene, sglang


def test_children_hang_under_the_process_they_came_from() -> None:
    scene = sglang(2)
    scene.add(120, 101, role=Role("detokenizer", "sglang"), kind=EdgeKind.FORKSERVER)
    lines = [(one.pids, one.branch + one.label, one.edge) for one in tree.build(scene.snapshot())]
    assert lines == [
        ((100,), "server", "root"),
        ((101,), "|- resource tracker", "spawn"),
        ((120,), "|  `- detokenizer", "forkserver"),
        ((110,), "|- scheduler TP0", "spawn"),
        ((111,), "`- scheduler TP1", "spawn"),
    ]


def test_many_alike_are_folded_and_one_with_a_remark_is_not() -> None:
    scene = sglang(20)
    for pid in range(200, 204):
        scene.add(pid, ROOT, role=Role("compile worker"))
    scene.change(113, ended=True)
    lines = {one.label: one for one in tree.build(scene.snapshot())}
    assert len(lines["4 x compile worker"].pids) == 4
    assert len(lines["19 x scheduler TP0-TP2, TP4-TP19"].pids) == 19
    assert lines["scheduler TP3"].remarks == ("ended during the scan",)


def test_the_dead_are_not_said_to_have_ended_during_the_scan() -> None:
    scene = sglang(3)
    scene.change(110, state="Z", ended=True, death=Death.BEFORE)
    scene.change(111, state="Z", ended=True, death=Death.DURING)
    scene.change(112, state="Z")
    remarks = {one.pids: one.remarks for one in tree.build(scene.snapshot())}
    assert remarks[(110,)] == remarks[(111,)] == ("dead (zombie)",)
    assert remarks[(112,)] == ("its main thread has ended, others run",)


def test_sixteen_workers_stay_apart() -> None:
    assert sum("scheduler" in one.label for one in tree.build(sglang(16).snapshot())) == 16


def test_unknown_processes_show_their_command_line_without_credentials() -> None:
    scene = sglang(1).add(300, ROOT, role=Role(""), title=("x", "--api-key", "abc", "\x1b[2J"))
    labels = [one.label for one in tree.build(scene.snapshot())]
    assert "x --api-key <masked> \\x1b[2J" in labels


def test_a_chain_of_thousands_does_not_recurse_or_run_off_the_line() -> None:
    scene = Scene().add(1)
    for pid in range(2, 3000):
        scene.add(pid, pid - 1, role=Role("shell"))
    lines = tree.build(scene.snapshot())
    assert len(lines) == 2999
    assert max(len(one.branch) for one in lines) < 40


@given(st.lists(st.integers(0, 9), min_size=10, max_size=10))
@settings(max_examples=200, deadline=None)
def test_any_parents_even_cycles_show_every_process_once(parents: list[int]) -> None:
    scene = Scene()
    for pid, parent in enumerate(parents):
        scene.add(pid, parent, role=Role("shell" if pid % 2 else ""))
        edge = Edge(EdgeKind.UNKNOWN, parent)
        scene.processes[pid] = dataclasses.replace(scene.processes[pid], ppid=parent, edge=edge)
    shown = [pid for line in tree.build(scene.snapshot()) for pid in line.pids]
    assert sorted(shown) == list(range(10))
