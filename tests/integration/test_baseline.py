"""A configuration made from a healthy server holds for the same server started again."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.programs.actions import Action, py_set, py_unset
from tests.programs.cli import Run, workers
from tests.programs.envprobe_cli import envprobe
from tests.programs.trees import TitledTree

tomllib: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
SECRET = "hf_aBcDeFgHiJkLmNoPqRsT"
ENV = {
    "NCCL_ALGO": "Ring",
    "NCCL_PROTO": 'Simple"\\ \t]]>',
    "NCCL_DEBUG_FILE": "/tmp/nccl.%h.%p",
    "PYTHONPATH": "/opt/hooks:/opt/more",
    "HF_TOKEN": SECRET,
    "SGLANG_RUN_ID": "one",
    "MASTER_PORT": "29500",
    "INVOCATION_ID": "0123456789abcdef0123456789abcdef",
    "NCCL_RAW": "x",
}
RANKS: dict[int | str, Action] = {
    number: Action(after_title=[py_set("LOCAL_RANK", str(number))]) for number in range(2)
}


def tree(actions: dict[int | str, Action] | None = None, **changes: str) -> TitledTree:
    return TitledTree(workers=2, env={**ENV, **changes}, actions={**RANKS, **(actions or {})})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a baseline made from a first start."""
    path = tmp_path_factory.mktemp("baseline") / "envprobe.toml"
    with tree() as running:
        done = envprobe("baseline", "--pid", str(running.root), "--var", "INVOCATION_ID")
        assert done.returncode == 0, done.stderr
    path.write_text(done.stdout, encoding="utf-8")
    return path


def judged(running: TitledTree, config: Path) -> Run:
    return workers("--pid", str(running.root), "--config", str(config))


def test_it_expects_what_all_workers_share_and_lists_the_rest(made: Path) -> None:
    text = made.read_text(encoding="utf-8")
    expect: dict[str, Any] = tomllib.loads(text)["expect"]
    shared = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_DEBUG_FILE", "PYTHONPATH", "NCCL_RAW")
    assert {name: expect["env"][name] for name in shared} == {name: ENV[name] for name in shared}
    assert expect["workers"] == {"scheduler": 2}
    assert not {"sitecustomize", "patch"} & set(expect)
    for name, reason in (
        ("HF_TOKEN", "looks like a credential"),
        ("SGLANG_RUN_ID", "each start has its own"),
        ("MASTER_PORT", "each start has its own"),
        ("INVOCATION_ID", "each start has its own"),
        ("LOCAL_RANK", "differs between workers"),
    ):
        assert f"#   {name}: {reason}\n" in text
        assert name not in expect["env"]
    assert SECRET not in text


def test_it_holds_for_the_next_start(made: Path) -> None:
    changed = {"SGLANG_RUN_ID": "two", "MASTER_PORT": "29501", "HF_TOKEN": SECRET[::-1]}
    with tree(**changed) as running:
        run = judged(running, made)
        assert not run.loud(running.reports), run.loud(running.reports)
        assert run.document["expectations"]
        assert run.document["scans"][0]["verdict"]["counts"]["undetermined"] == 0


def test_a_changed_variable_fails_in_every_worker(made: Path) -> None:
    with tree(NCCL_ALGO="Tree") as running:
        run = judged(running, made)
        assert run.code == 1
        assert run.pids("env-wrong-value", "NCCL_ALGO") == set(running.workers())
        assert not run.findings("env-missing")


def test_a_variable_lost_on_the_way_fails_in_that_worker(made: Path) -> None:
    lost = Action(parent_before=[py_unset("NCCL_ALGO")], after_title=[py_set("LOCAL_RANK", "1")])
    with tree({1: lost}) as running:
        run = judged(running, made)
        assert run.code == 1
        assert run.pids("env-missing", "NCCL_ALGO") == {running.worker(1)}


def test_a_missing_worker_fails(made: Path) -> None:
    with TitledTree(workers=1, env=ENV, actions={0: RANKS[0]}) as running:
        run = judged(running, made)
        assert run.code == 1
        assert run.findings("workers-missing")


def test_an_unhealthy_server_gives_no_baseline() -> None:
    other = Action(parent_before=[py_set("NCCL_ALGO", "Tree")])
    with tree({1: other}) as running:
        done = envprobe("baseline", "--pid", str(running.root))
        pid = running.worker(1)
    assert (done.returncode, done.stdout) == (1, "")
    assert "not healthy" in done.stderr
    assert "peers-differ-critical" in done.stderr
    assert f"(PID {pid})" in done.stderr


def test_what_was_asked_for_inside_is_expected(tmp_path: Path) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    hook = hooks / "sitecustomize.py"
    hook.write_text("import textwrap\n")
    query = "textwrap:TextWrapper.fill"
    config = tmp_path / "envprobe.toml"
    arguments = ("--patch", "sitecustomize", "--patch", query)
    with TitledTree(workers=2, env={"PYTHONPATH": str(hooks)}) as running:
        done = envprobe("baseline", "--pid", str(running.root), *arguments)
        assert done.returncode == 0, done.stderr
        config.write_text(done.stdout)
        expect = tomllib.loads(done.stdout)["expect"]
        assert expect["sitecustomize"] == {"file": str(hook)}
        assert expect["patch"] == {query: "textwrap"}
        assert not judged(running, config).loud(running.reports)
    hook.write_text("import textwrap\ntextwrap.TextWrapper.fill = lambda self, text: text\n")
    with TitledTree(workers=2, env={"PYTHONPATH": str(hooks)}) as running:
        run = judged(running, config)
        assert run.code == 1
        assert run.pids("patch-missing") == set(running.workers())
        unasked = envprobe("baseline", "--pid", str(running.root), "--patch", "no.such:thing")
    assert (unasked.returncode, unasked.stdout) == (2, "")
    assert "no.such:thing is not imported" in unasked.stderr


def test_a_process_that_is_gone_is_exit_4() -> None:
    done = envprobe("baseline", "--pid", "4194303")
    assert (done.returncode, done.stdout) == (4, "")
    assert "there is no process 4194303" in done.stderr
