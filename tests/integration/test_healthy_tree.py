"""On a healthy tree every variable is right in every worker, nothing is unreadable, exit 0."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest

from tests.programs import cli, interpreters
from tests.programs.cli import Run
from tests.programs.interpreters import Interpreter
from tests.programs.requirement import missing
from tests.programs.trees import TitledTree

SET = {
    "NCCL_ALGO": "Ring",
    "NCCL_PROTO": "Simple",
    "NCCL_BUFFSIZE": "8388608",
    "NCCL_MIN_NCHANNELS": "4",
    "NCCL_NTHREADS": "256",
    "NCCL_SOCKET_IFNAME": "eth0",
    "PYTHONPATH": "/opt/hooks:/opt/more",
}
EXPECTED = [f"--expect={name}={value}" for name, value in SET.items()]


def agrees(run: Run, tree: TitledTree) -> None:
    """Check a report against what the workers' own getenv says; nothing was left unread."""
    for pid in tree.workers():
        assert {name: run.text(pid, name) for name in SET} == tree.truth[pid] == SET
        assert b"NCCL" not in _block(pid)
    views = [
        (process["pid"], view, environment["status"])
        for process in run.scan["processes"]
        for view, environment in process["environments"].items()
    ]
    of_tree = {pid for pid, _, _ in views} & set(tree.reports)
    assert of_tree == set(tree.reports)
    assert [view for view in views if view[0] in of_tree and view[2] != "complete"] == []
    unread = [
        (variable["name"], reading["pid"], view)
        for variable in run.scan["variables"]
        for reading in variable["readings"]
        for view, one in reading["views"].items()
        if one["state"] not in ("value", "absent")
    ]
    assert unread == []


def _block(pid: int) -> bytes:
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read()


@pytest.fixture(scope="module")
def eight() -> Iterator[TitledTree]:
    with TitledTree(workers=8, env=SET) as tree:
        yield tree


def test_eight_retitled_workers(eight: TitledTree) -> None:
    assert [psutil.Process(pid).environ() for pid in eight.workers()] == [{}] * 8
    run = cli.workers("--pid", str(eight.root), *EXPECTED)
    agrees(run, eight)
    assert run.code == 0
    assert run.loud(eight.reports) == []
    assert run.pids("block-wiped") == run.pids("exec-view-inferred") == set(eight.workers())
    assert run.workers() == set(eight.workers())
    ranks = [run.process(pid)["role"]["label"] for pid in eight.workers()]
    assert ranks == [f"scheduler TP{rank}" for rank in range(8)]
    assert [run.spans(pid, name) for pid in eight.workers() for name in SET] == [[]] * 8 * len(SET)
    assert run.stderr == ""


def test_without_expectations_and_in_this_process(eight: TitledTree) -> None:
    run = cli.judge("--pid", str(eight.root))
    agrees(run, eight)
    assert (run.code, run.loud(eight.reports), run.pids("block-wiped")) == (
        0,
        [],
        set(eight.workers()),
    )


def test_the_text_report_says_that_all_holds(eight: TitledTree) -> None:
    run = cli.judge("--pid", str(eight.root), "--format", "text", *EXPECTED)
    assert run.code == 0
    first = run.stdout.splitlines()[0]
    assert first.startswith("HOLDS")
    assert f"(PID {eight.root})" in first
    assert "error" not in run.stdout
    assert "warning" not in run.stdout


def test_every_wrong_expectation_is_found_in_every_worker(eight: TitledTree) -> None:
    """The floor above proves something only if the same run can fail."""
    wrong = ["NCCL_ALGO=Tree", "NCCL_MISSING", "!NCCL_PROTO", "PYTHONPATH~=/opt/hook"]
    run = cli.judge("--pid", str(eight.root), *(f"--expect={one}" for one in wrong))
    found = {
        (one["check"], one["variable"], frozenset(one["pids"])) for one in run.loud(eight.reports)
    }
    everyone = frozenset(eight.workers())
    assert run.code == 1
    assert found == {
        ("env-wrong-value", "NCCL_ALGO", everyone),
        ("env-missing", "NCCL_MISSING", everyone),
        ("env-forbidden", "NCCL_PROTO", everyone),
        ("env-wrong-value", "PYTHONPATH", everyone),
    }
    assert {span.causes for span in run.spans(eight.worker(0), "NCCL_MISSING")} == {
        frozenset({"never-set"})
    }


@pytest.mark.parametrize("python", interpreters.found(), ids=str)
def test_every_interpreter(python: Interpreter) -> None:
    with TitledTree(python.path, workers=2, env=SET, titler="own") as tree:
        run = cli.judge("--pid", str(tree.root), *EXPECTED)
        agrees(run, tree)
        assert (run.code, run.loud(tree.reports)) == (0, [])
        assert run.pids("block-wiped") == run.workers() == set(tree.workers())
        found = {run.process(pid)["interpreter"] for pid in tree.workers()}
    (only,) = found
    # Before 3.11 nothing in memory names the micro version.
    assert f"{only}.".startswith(f"CPython {python.version[0]}.{python.version[1]}.")


def test_debian_python_is_among_the_interpreters() -> None:
    """It is static and copy-relocated, unlike most others."""
    paths = [one.path for one in interpreters.found()]
    if not any(path.startswith("/usr/bin/python3") for path in paths):
        missing("debian-python", "there is no /usr/bin/python3")
    if len(paths) < 2:
        missing("interpreters", f"only {paths} were found")
