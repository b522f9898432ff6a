"""`envprobe workers` reads inside each worker's interpreter, and never takes unread for absent."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs import cli
from tests.programs.actions import (
    CHURN,
    FORK,
    Action,
    become,
    c_setenv,
    c_unsetenv,
    py_data_set,
    py_putenv,
    py_set,
)
from tests.programs.cbuild import build
from tests.programs.cli import Run
from tests.programs.ctarget import CTarget
from tests.programs.requirement import missing
from tests.programs.trees import TitledTree

NOBODY = 65534
C_SIDE = {"c-level-setenv", "os-putenv"}
ENV = {
    "NCCL_ALGO": "Ring",
    "NCCL_PROTO": "Simple",
    "NCCL_X_GONE": "1",
    "SGLANG_API_KEY": "sk-0123456789",
    "SPT_NOENV": "1",
}
NAMES = ["NCCL_NTHREADS", "NCCL_X_BOTH"]


@pytest.fixture(scope="module")
def tree() -> Iterator[TitledTree]:
    actions: dict[int | str, Action] = {
        1: Action(after_title=[c_setenv("NCCL_NTHREADS", "256")]),
        2: Action(after_title=[py_putenv("NCCL_ALGO", "Tree")]),
        3: Action(after_title=[py_data_set("NCCL_PROTO", "LL")]),
        4: Action(after_title=[c_unsetenv("NCCL_X_GONE")]),
        5: Action(after_title=[py_set("NCCL_X_BOTH", "1"), FORK]),
    }
    with TitledTree(workers=6, env=ENV, actions=actions, names=NAMES) as running:
        yield running


@pytest.fixture(scope="module")
def run(tree: TitledTree) -> Run:
    return cli.judge("--pid", str(tree.root))


# --- the third view ------------------------------------------------------------------------------


def test_both_views_are_what_the_processes_say_themselves(tree: TitledTree, run: Run) -> None:
    assert run.code == 0
    for pid in tree.workers():
        assert run.process(pid)["environments"]["python"]["status"] == "complete"
        for name in ("NCCL_ALGO", "NCCL_PROTO", "NCCL_X_GONE", *NAMES):
            assert run.text(pid, name) == tree.truth[pid][name]
            assert run.text(pid, name, "python") == tree.python_truth[pid][name]


@pytest.mark.parametrize(
    ("worker", "name", "change", "causes", "severity"),
    [
        (1, "NCCL_NTHREADS", "lost", {*C_SIDE, "nccl-conf-file"}, "warning"),
        (2, "NCCL_ALGO", "changed", C_SIDE, "warning"),
        (3, "NCCL_PROTO", "changed", {"os-environ-edited"}, "warning"),
        (4, "NCCL_X_GONE", "appeared", C_SIDE, "info"),
    ],
)
def test_who_disagrees_and_why(
    tree: TitledTree,
    run: Run,
    worker: int,
    name: str,
    change: str,
    causes: set[str],
    severity: str,
) -> None:
    pid = tree.worker(worker)
    (finding,) = run.findings("c-and-python-disagree", name)
    assert (finding["severity"], finding["pids"]) == (severity, [pid])
    span = run.spans(pid, name)[-1]
    assert (span.change, span.causes) == (change, causes)
    assert (span.before, span.after) == ((pid, "libc"), (pid, "python"))
    assert span.confidence == ("proved" if len(causes) == 1 else "inferred")


def test_what_python_sets_properly_is_no_disagreement(tree: TitledTree, run: Run) -> None:
    assert run.findings("c-and-python-disagree", "NCCL_X_BOTH") == []
    assert len(run.findings("c-and-python-disagree")) == 4


def test_the_interpreter_of_workers_and_launcher_is_in_the_report(
    tree: TitledTree, run: Run
) -> None:
    for pid in (tree.root, *tree.workers()):
        inside = run.process(pid)["inside"]
        assert inside["state"] == "read"
        assert inside["python"]["version"] == ".".join(map(str, sys.version_info[:3]))
        assert inside["python"]["prefix"] == sys.prefix
        assert [one["query"] for one in inside["hooks"]] == ["sitecustomize", "usercustomize"]
    assert "inside" not in run.process(tree.pid("root.d"))
    assert run.findings("other-interpreter") == []


def test_credentials_in_os_environ_are_masked(tree: TitledTree) -> None:
    run = cli.judge("--pid", str(tree.root), "--show-all")
    assert "sk-0123456789" not in run.stdout
    assert run.reading(tree.worker(0), "SGLANG_API_KEY", "python")["value"] == {"masked": 13}


def test_no_python_reads_nothing_inside(tree: TitledTree) -> None:
    run = cli.judge("--pid", str(tree.root), "--no-python")
    assert run.code == 0
    assert run.workers() == set(tree.workers())
    for pid in tree.workers():
        assert "inside" not in run.process(pid)
        assert set(run.process(pid)["environments"]) == {"exec", "libc"}
    assert run.findings("c-and-python-disagree") == []


def test_no_python_and_a_question_do_not_go_together(tree: TitledTree) -> None:
    run = cli.judge("--pid", str(tree.root), "--no-python", "--patch", "json:loads=json")
    assert run.code == 2
    assert "--no-python leaves out what --patch asks for" in run.stderr


def test_saved_facts_give_the_same_report(tree: TitledTree, tmp_path: Path) -> None:
    path = str(tmp_path / "facts")
    options = ("--patch", "json.decoder:JSONDecoder.decode=json")
    live = cli.judge("--pid", str(tree.root), "--save-facts", path, *options)
    again = cli.judge("--from-facts", path, *options)
    assert live.code == again.code
    assert live.scan == again.scan
    (answer,) = again.process(tree.worker(0))["inside"]["answers"]
    assert (answer["state"], answer["callable"]["qualname"]) == ("value", "JSONDecoder.decode")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert "sk-0123456789" not in text
    assert json.loads(text)["kind"] == "envprobe-facts"


# --- what the interpreters were told -------------------------------------------------------------


def through(folder: Path, *command: str) -> str:
    """Return a script that multiprocessing starts in place of the interpreter."""
    path = folder / "python"
    path.write_text(f'#!/bin/sh\nexec {" ".join(command)} "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("noenv", [{"SPT_NOENV": "1"}, {}])
def test_pythonpath_of_an_isolated_worker(tmp_path: Path, noenv: dict[str, str]) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text("")
    isolated = Action(executable=through(tmp_path, sys.executable, "-I"))
    env = {"PYTHONPATH": f"{hooks}:plugins", **noenv}
    with TitledTree(workers=2, env=env, actions={1: isolated}) as tree:
        run = cli.judge("--pid", str(tree.root))
        loaded, ignoring = tree.worker(0), tree.worker(1)
        assert run.text(ignoring, "PYTHONPATH") == f"{hooks}:plugins"
        (finding,) = run.findings("pythonpath-ignored")
        assert (finding["pids"], finding["severity"]) == ([ignoring], "warning")
        assert "-I" in finding["message"]
        assert any(str(Path.cwd() / "plugins") in one for one in finding["evidence"])
        hook, _ = run.process(loaded)["inside"]["hooks"]
        assert hook["module"]["file"] == str(hooks / "sitecustomize.py")
        assert [one["state"] for one in hook["files"]] == ["unchanged"]
        hook, _ = run.process(ignoring)["inside"]["hooks"]
        assert str(hooks) not in json.dumps(hook)


def test_a_worker_outside_the_virtual_environment(tmp_path: Path) -> None:
    if sys.prefix == sys.base_prefix:
        missing("venv", "the tests do not run in a virtual environment")
    base = Action(executable=through(tmp_path, os.path.realpath(sys.executable)))
    with TitledTree(workers=3, env=ENV, actions={1: base}) as tree:
        run = cli.judge("--pid", str(tree.root))
        (finding,) = run.findings("other-interpreter")
        assert (finding["pids"], finding["severity"]) == ([tree.worker(1)], "warning")
        assert any(f"prefix {sys.base_prefix}" in one for one in finding["evidence"])


# --- what cannot be read -------------------------------------------------------------------------


def test_a_worker_that_is_no_python() -> None:
    with CTarget(build("target"), env={"NCCL_ALGO": "Ring"}, argv0="sglang::scheduler_TP0") as one:
        run = cli.judge("--pid", str(one.pid), "--expect=NCCL_ALGO=Ring")
        assert run.code == 0
        assert run.process(one.pid)["inside"]["state"] == "no_python"
        assert run.process(one.pid)["environments"]["python"]["status"] == "not_applicable"
        assert run.reading(one.pid, "NCCL_ALGO", "python")["state"] == "not_applicable"


def test_a_worker_of_another_user_is_unreadable_and_not_absent() -> None:
    if os.geteuid():
        missing("root", "only root can become another user")
    with TitledTree(workers=2, env=ENV, actions={1: Action(after_title=[become(2, 2)])}) as tree:
        asked = ("--pid", str(tree.root), "--expect=NCCL_ALGO=Ring")
        assert cli.judge(*asked).code == 0
        run = cli.judge_as(NOBODY, *asked)
        assert run.code == 3
        for pid in tree.workers():
            inside = run.process(pid)["inside"]
            assert inside["state"] == "unreadable"
            assert inside["reason"]
            assert inside["remedy"]
            assert {one["state"] for one in inside["hooks"]} == {"unreadable"}
            assert run.reading(pid, "NCCL_ALGO", "python")["state"] == "unreadable"


def test_a_worker_that_imports_without_pause() -> None:
    with TitledTree(workers=2, env=ENV, actions={1: Action(after_title=[CHURN])}) as tree:
        run = cli.judge("--pid", str(tree.root), "--expect=NCCL_ALGO=Ring")
        assert run.code == 0
        calm, busy = (run.process(pid)["inside"] for pid in tree.workers())
        assert calm["state"] == "read"
        assert busy["state"] in ("read", "changing")
        for hook in busy["hooks"]:
            assert hook["state"] in (calm["hooks"][0]["state"], "changing")
        reading = run.reading(tree.worker(1), "NCCL_ALGO", "python")
        assert reading["state"] == "changing" or reading["value"] == {"text": "Ring"}
        assert run.findings("c-and-python-disagree") == []
