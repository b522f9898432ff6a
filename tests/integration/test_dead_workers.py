"""Workers that have died and that their launcher has not collected: zombies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from typing import Any

import psutil
import pytest

from envprobe import collect
from tests.programs import cli
from tests.programs.actions import Action
from tests.programs.cbuild import build
from tests.programs.cli import Run
from tests.programs.ctarget import CTarget
from tests.programs.envprobe_cli import envprobe
from tests.programs.trees import TitledTree

SET = {"NCCL_ALGO": "Ring"}
EXPECT = "--expect=NCCL_ALGO=Ring"
LIMIT_S = 30
METHODS = ("spawn", "fork")  # a forkserver collects its children at once


def kill(*pids: int) -> None:
    """Kill processes and wait until each is a zombie."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    limit = time.monotonic() + LIMIT_S
    while any(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids):
        assert time.monotonic() < limit
        time.sleep(0.002)


def plain(workers: int, method: str = "spawn") -> TitledTree:
    """Give a server of multiprocessing alone, whose workers have no titles."""
    actions = {number: Action(title="", method=method) for number in range(workers)}
    return TitledTree(workers=workers, env=SET, actions=actions, detokenizer=False)


def checks(run: Run, among: Iterable[int]) -> list[tuple[str, str]]:
    return [(one["check"], one["severity"]) for one in run.loud(among)]


@pytest.mark.parametrize("method", METHODS)
def test_an_untitled_worker_that_is_dead_is_not_passed_over(method: str) -> None:
    with plain(4, method) as tree:
        dead, *living = tree.workers()
        kill(dead)
        run = cli.judge("--pid", str(tree.root), EXPECT)
    assert run.workers() == set(living)
    assert checks(run, [tree.root, *tree.workers()]) == [("worker-vanished", "warning")]
    (finding,) = run.findings("worker-vanished")
    assert finding["pids"] == [dead]
    assert "dead (zombie), since before the scan" in str(finding)
    assert "it may have been a worker" in str(finding)
    assert run.process(dead)["role"]["name"] == "dead child"
    assert run.code == 0


def test_the_tree_calls_a_dead_worker_dead() -> None:
    with plain(2) as tree:
        dead, _ = tree.workers()
        kill(dead)
        run = envprobe("workers", "--pid", str(tree.root), EXPECT)
    lines = run.stdout.splitlines()
    (place,) = (number for number, line in enumerate(lines) if "dead child" in line)
    assert lines[place].split()[0] == str(dead)
    assert lines[place + 1].strip() == "dead (zombie)"
    assert "ended during the scan" not in run.stdout
    assert run.returncode == 0


def test_where_all_workers_are_dead_they_are_not_said_to_be_starting() -> None:
    with plain(2) as tree:
        kill(*tree.workers())
        run = cli.judge("--pid", str(tree.root), EXPECT)
    (finding,) = run.findings("no-workers")
    assert "are dead (zombie) and may have been workers" in str(finding)
    assert "may be starting" not in str(finding)
    assert "--wait" not in str(finding)
    assert run.pids("worker-vanished") == set(tree.workers())
    assert run.code == 3


def test_a_titled_worker_that_is_dead_is_neither_there_nor_one_too_many() -> None:
    with TitledTree(workers=4, env=SET) as tree:
        dead = tree.worker(2)
        kill(dead)
        run = cli.judge("--pid", str(tree.root), EXPECT)
    assert run.workers() == {*tree.workers()} - {dead}
    assert sorted(checks(run, [tree.root, *tree.workers()])) == [
        ("worker-vanished", "error"),
        ("workers-missing", "error"),
    ]
    (missing,) = run.findings("workers-missing")
    assert "3 of 4 workers of" in str(missing)
    assert "absent: TP2." in str(missing)
    (finding,) = run.findings("worker-vanished")
    assert finding["pids"] == [dead]
    assert "dead (zombie), since before the scan" in str(finding)
    assert run.code == 1


def test_the_dead_detokenizer_was_no_worker() -> None:
    with TitledTree(workers=2, env=SET) as tree:
        dead = tree.pid("root.d")
        kill(dead)
        run = cli.judge("--pid", str(tree.root), EXPECT)
    assert checks(run, [tree.root, dead, *tree.workers()]) == []
    assert run.process(dead)["role"]["name"] == "detokenizer"
    assert run.code == 0


@pytest.mark.parametrize("again", [False, True], ids=["one scan", "two scans"])
def test_a_worker_that_dies_during_the_scan_keeps_its_rank(
    again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had its title when it was listed; that counts in a second scan too."""
    with TitledTree(workers=3, env=SET) as tree:
        dead = tree.worker(1)
        name = "_assemble" if again else "_read"
        original = getattr(collect._Scan, name)
        waiting = [dead]

        def first_kill(scan: Any) -> Any:
            if waiting:
                kill(waiting.pop())
            return original(scan)

        monkeypatch.setattr(collect._Scan, name, first_kill)
        if again:
            holds = iter([False, True])
            monkeypatch.setattr(collect._Scan, "still_holds", lambda scan: next(holds))
        run = cli.judge("--pid", str(tree.root), EXPECT)
    assert run.scan["snapshot"]["scans"] == 1 + again
    (finding,) = run.findings("worker-vanished")
    assert finding["pids"] == [dead]
    assert "scheduler TP1" in str(finding)
    assert "died during the scan" in str(finding)
    assert run.process(dead)["role"]["ranks"] == {"tp": 1}
    assert dead not in run.workers()
    assert run.pids("env-unknown") == set()
    assert run.code == 1


def test_a_dead_worker_that_is_collected_during_the_scan_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first scan finds a zombie, the second nothing: what vanished was a worker."""
    title = f"sglang::scheduler_TP{os.getpid() % 1000}"
    with (
        CTarget(build("target"), env=SET, argv0=title) as dead,
        CTarget(build("target"), env=SET, argv0="sglang::scheduler_TP1001") as living,
    ):
        read, assemble = collect._Scan._read, collect._Scan._assemble
        waiting = [dead]

        def kill_first(scan: Any) -> Any:
            if waiting:
                kill(waiting.pop().pid)
            return read(scan)

        def collect_it(scan: Any) -> Any:
            made = assemble(scan)
            dead.close()
            return made

        monkeypatch.setattr(collect._Scan, "_read", kill_first)
        monkeypatch.setattr(collect._Scan, "_assemble", collect_it)
        run = cli.judge(f"--match={title}", "--match=sglang::scheduler_TP1001", EXPECT)
    assert run.workers() == {living.pid}
    assert [gone["pid"] for gone in run.scan["vanished"]] == [dead.pid]
    assert run.pids("worker-vanished") == {dead.pid}
    assert run.code == 1
