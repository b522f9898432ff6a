"""`--wait`, missing workers and targets that are not there: code, finding and process."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.programs import cli
from tests.programs.actions import Action, leave, retitle
from tests.programs.cli import Run
from tests.programs.envprobe_cli import environment, script
from tests.programs.trees import TitledTree

SECONDS = 30
UNTITLED = Action(title="")


def failure_of(run: Run) -> int:
    """Return the exit code that a document on an error, and no report, states."""
    assert "scans" not in run.document
    assert run.document["error"]["message"] in " ".join(run.stderr.split())
    return int(run.document["verdict"]["exit"])


class Waiting:
    """A running `envprobe workers --wait`, whose progress can be followed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._seen = b""

    def until(self, words: str) -> None:
        """Return once a line of progress says these words."""
        assert self.process.stderr is not None
        limit = time.monotonic() + SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stderr, selectors.EVENT_READ)
            while words.encode() not in self._seen:
                left = limit - time.monotonic()
                assert selector.select(max(left, 0)), f"{words!r} is not in {self._seen!r}"
                chunk = os.read(self.process.stderr.fileno(), 4096)
                assert chunk, f"it ended: {self._seen!r}"
                self._seen += chunk

    def end(self) -> Run:
        """Return what it said at its end."""
        out, err = self.process.communicate(timeout=SECONDS)
        return Run(self.process.returncode, out.decode(), (self._seen + err).decode())


@contextlib.contextmanager
def waiting(*arguments: str) -> Iterator[Waiting]:
    process = subprocess.Popen(
        [*script(), "workers", "--format", "json", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        cwd="/",
    )
    try:
        yield Waiting(process)
    finally:
        process.kill()
        process.communicate()


def test_it_waits_for_titles() -> None:
    """An untitled spawn child may still become the detokenizer, so it is not counted."""
    actions: dict[int | str, Action] = {0: UNTITLED, 1: UNTITLED}
    with TitledTree(workers=2, env={"NCCL_ALGO": "Ring"}, actions=actions) as tree:
        with waiting(
            "--pid", str(tree.root), "--wait=2", "--timeout=60", "--expect=NCCL_ALGO=Ring"
        ) as envprobe:
            envprobe.until("waiting: 0 of 2 workers")
            tree.tell(tree.worker(0), retitle("sglang::scheduler_TP0"))
            envprobe.until("waiting: 1 of 2 workers")
            assert envprobe.process.poll() is None
            tree.tell(tree.worker(1), retitle("sglang::scheduler_TP1"))
            run = envprobe.end()
        assert (run.code, run.loud(tree.reports)) == (0, [])
        assert run.workers() == set(tree.workers())
        assert [run.text(pid, "NCCL_ALGO") for pid in tree.workers()] == ["Ring", "Ring"]
        labels = [run.process(pid)["role"]["label"] for pid in tree.workers()]
        assert labels == ["scheduler TP0", "scheduler TP1"]


def test_the_end_of_the_server_ends_the_waiting() -> None:
    with (
        TitledTree(workers=1) as tree,
        waiting("--pid", str(tree.root), "--wait=2", "--timeout=60") as envprobe,
    ):
        envprobe.until("waiting: 1 of 2 workers")
        tree.tell(tree.root, leave(0), wait=False)
        run = envprobe.end()
    assert (run.code, failure_of(run)) == (4, 4)
    last = run.stderr.splitlines()[-2:]
    assert last[0].startswith("envprobe: ")
    assert str(tree.root) in last[0]


@pytest.fixture(scope="module")
def gap() -> Iterator[TitledTree]:
    """Ranks 0 and 2 are there, rank 1 never started; the command line asks for four."""
    actions: dict[int | str, Action] = {1: Action(title="sglang::scheduler_TP2")}
    with TitledTree(workers=2, actions=actions) as tree:
        yield tree


def missing_workers(run: Run) -> dict[str, Any]:
    (finding,) = run.findings("workers-missing")
    assert isinstance(finding, dict)
    return finding


def test_fewer_workers_at_the_timeout(gap: TitledTree) -> None:
    run = cli.judge("--pid", str(gap.root), "--wait=3", "--timeout=1")
    finding = missing_workers(run)
    assert (run.code, finding["severity"], finding["undetermined"]) == (1, "error", False)
    assert set(finding["pids"]) == set(gap.workers())
    assert "2 of 3" in finding["message"]
    assert "absent: TP1." in finding["message"]
    assert "waiting: 2 of 3 workers" in run.stderr


def test_a_role_is_waited_for(gap: TitledTree) -> None:
    run = cli.judge("--pid", str(gap.root), "--wait=detokenizer=2", "--timeout=0.1")
    finding = missing_workers(run)
    assert (run.code, finding["pids"]) == (1, [gap.pid("root.d")])
    assert "1 of 2 expected detokenizers" in finding["message"]


def test_a_gap_in_the_titles_needs_no_number(gap: TitledTree) -> None:
    run = cli.judge("--pid", str(gap.root))
    finding = missing_workers(run)
    assert (run.code, finding["pids"], finding["confidence"]) == (1, [gap.root], "inferred")
    assert "absent: TP1." in finding["message"]


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (("--tp", "4"), "TP2, TP3"),
        (("--tp-size=2", "--pp", "2"), "PP1 TP0, PP1 TP1"),
        (("--tensor-parallel-size", "1", "--dp-size", "3"), "DP1"),
        (("--tp", "2"), ""),
    ],
    ids=" ".join,
)
def test_the_command_line_says_which_ranks_there_should_be(
    arguments: tuple[str, ...], absent: str
) -> None:
    actions: dict[int | str, Action] = {}
    if "--dp-size" in arguments:
        titles = ("DP0_TP0", "DP2_TP0")
        actions = {n: Action(title=f"sglang::scheduler_{one}") for n, one in enumerate(titles)}
    with TitledTree(workers=2, actions=actions, arguments=arguments) as tree:
        run = cli.judge("--pid", str(tree.root))
        if not absent:
            assert (run.code, run.loud(tree.reports)) == (0, [])
            assert run.workers() == set(tree.workers())
            return
        finding = missing_workers(run)
        assert (run.code, finding["pids"], finding["confidence"]) == (1, [tree.root], "inferred")
        assert f"absent: {absent}." in finding["message"]
        assert arguments[0].partition("=")[0] in str(finding["evidence"])


def test_who_has_no_title_yet_leaves_it_undecided() -> None:
    with TitledTree(workers=2, actions={1: UNTITLED}) as tree:
        run = cli.judge("--pid", str(tree.root), "--wait=2", "--timeout=0.1")
        finding = missing_workers(run)
        assert (run.code, finding["undetermined"]) == (3, True)
        assert finding["pids"] == [tree.worker(0)]
        assert f"PID {tree.worker(1)}" in str(finding["evidence"])
        assert run.process(tree.worker(1))["role"]["final"] is False


def test_an_expectation_of_a_role_that_nobody_has_is_waited_for(
    gap: TitledTree, tmp_path: Any
) -> None:
    config = tmp_path / "envprobe.toml"
    config.write_text('[expect.env-by-role."tokenizer worker"]\nNCCL_ALGO = "Ring"\n')
    run = cli.judge("--pid", str(gap.root), "--config", str(config), "--wait=2", "--timeout=0.1")
    (finding,) = run.findings("env-unknown")
    assert finding["undetermined"] is True
    assert "tokenizer worker" in json.dumps(finding)
    # The gap in the titles is an error besides.
    assert (run.code, len(run.findings("workers-missing"))) == (1, 1)


# --- no such target ------------------------------------------------------------------------------


def test_a_number_that_is_no_process() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    run = cli.workers("--pid", str(ended.pid))
    assert (run.code, failure_of(run)) == (4, 4)
    assert f"there is no process {ended.pid}" in run.stderr


def test_the_main_pid_of_a_unit_that_does_not_run() -> None:
    run = cli.workers("--pid", "0")
    assert (run.code, failure_of(run)) == (4, 4)
    assert "MainPID=0" in run.stderr


def test_a_zombie_is_gone() -> None:
    ended = subprocess.Popen(["true"])
    try:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        run = cli.judge("--pid", str(ended.pid))
    finally:
        ended.wait()
    assert (run.code, failure_of(run)) == (4, 4)
    assert f"process {ended.pid} has ended" in run.stderr


@pytest.mark.parametrize("expectation", ["=x", "!A=1", "A B=1", "A~="])
def test_a_bad_expectation_is_wrong_usage(gap: TitledTree, expectation: str) -> None:
    run = cli.judge("--pid", str(gap.root), f"--expect={expectation}")
    assert (run.code, failure_of(run)) == (2, 2)
    assert run.stderr.startswith("--expect: ")
