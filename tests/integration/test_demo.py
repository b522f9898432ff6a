"""The demo: a real tree, exactly the planted faults, and nothing left behind."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from envprobe import cli_workers, collect, demo
from envprobe.checks.verdict import Verdict
from envprobe.model import BlockState, View
from envprobe.report.model import Scan
from tests.programs.envprobe_cli import SECONDS, environment, envprobe, script
from tests.programs.interpreters import Interpreter, found


def scanned(tree: demo.Tree) -> Scan:
    request = collect.Request((tree.pid,), cli_workers.wanted(tree.config, ()))
    (scan,) = cli_workers.judged((collect.collect(request),), tree.config).scans
    return scan


def test_it_shows_the_faults_and_says_what_to_look_at() -> None:
    run = envprobe("demo")
    assert (run.returncode, run.stderr) == (
        0,
        "starting a small process tree with planted faults ...\n",
    )
    shown = " ".join(run.stdout.split())
    for rank, name in demo.PLANTED:
        assert f"{name} is absent in scheduler {rank} (PID " in shown
    assert "scheduler TP0 (PID" in shown
    assert run.stdout.startswith("FAILS: ")
    explanation = run.stdout.partition("What to look at:\n")[2]
    assert [line[:4] for line in explanation.splitlines() if line[2:3].isdecimal()] == [
        "  1.",
        "  2.",
        "  3.",
    ]


@pytest.mark.parametrize("interpreter", found(), ids=lambda one: f"{one.version}-{one.path}")
def test_on_every_interpreter_the_scan_says_what_each_worker_says(interpreter: Interpreter) -> None:
    with demo.tree(str(interpreter.path)) as tree:
        scan = scanned(tree)
        blocks = {
            rank: Path(f"/proc/{pid}/environ").read_bytes() for rank, pid in tree.workers.items()
        }
    assert demo.differences(tree, scan.context, scan.result.findings) == []
    # The block is really overwritten: what a reader of /proc/PID/environ would see is nothing.
    assert {rank for rank, block in blocks.items() if block.strip(b"\0")} == set()
    for pid in tree.workers.values():
        process = scan.snapshot.process(pid)
        assert process is not None
        assert process.environment(View.EXEC).block is BlockState.WIPED
    assert scan.verdict == Verdict(scan.verdict.exit, {**scan.verdict.counts, "undetermined": 0})


def test_a_missed_fault_and_a_made_up_one_are_noticed() -> None:
    with demo.tree() as tree:
        scan = scanned(tree)
    findings = scan.result.findings
    assert any("was not found" in one for one in demo.differences(tree, scan.context, ()))
    moved = tuple(
        dataclasses.replace(one, pids=(tree.workers["TP0"],))
        if one.variable == "NCCL_PROTO"
        else one
        for one in findings
    )
    told = demo.differences(tree, scan.context, moved)
    assert f"that NCCL_PROTO is missing in pid {tree.workers['TP1']} was not found" in told
    assert f"NCCL_PROTO was said to be missing in pid {tree.workers['TP0']}, and is not" in told
    other = dataclasses.replace(tree, truth=dict.fromkeys(tree.truth, "other"))
    assert any("was read wrongly" in one for one in demo.differences(other, scan.context, findings))


def started() -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """Start the demo and return it with its tree once the last worker has its title."""
    run = subprocess.Popen(
        [*script(), "demo"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    deadline = time.monotonic() + SECONDS
    while run.poll() is None and time.monotonic() < deadline:
        below = psutil.Process(run.pid).children(recursive=True)
        if len(below) >= 3:
            return run, below
    run.kill()
    run.communicate()
    raise AssertionError("the demo started no tree")


def gone(processes: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(processes, timeout=20)[1]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_signal_ends_the_whole_tree(number: signal.Signals, code: int) -> None:
    run, below = started()
    group = os.getpgid(below[0].pid)
    run.send_signal(number)
    _, err = run.communicate(timeout=SECONDS)
    assert run.returncode == code
    assert "Traceback" not in err
    assert gone(below)
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)


def test_the_tree_ends_even_when_envprobe_is_killed() -> None:
    run, below = started()
    group = os.getpgid(below[0].pid)
    run.kill()
    run.communicate(timeout=SECONDS)
    assert run.returncode == -signal.SIGKILL
    assert gone(below)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("a process of the demo's group is left")
