"""The target programs themselves: what a tree says of itself is so, and it ends without a trace."""

from __future__ import annotations

import os
import sys
import time

import psutil
import pytest

from tests.programs import interpreters
from tests.programs.actions import (
    CLEARENV,
    FORK,
    Action,
    c_putenv,
    c_setenv,
    c_unsetenv,
    execute,
    leave,
    py_set,
    py_unset,
    retitle,
)
from tests.programs.interpreters import Interpreter
from tests.programs.trees import TitledTree


@pytest.mark.parametrize("python", interpreters.found(), ids=str)
def test_every_interpreter_gives_the_same_tree(python: Interpreter) -> None:
    actions = {
        0: Action(parent_before=[py_unset("A")], parent_after=[py_set("A", "2")]),
        1: Action(method="fork", after_title=[py_set("A", "3")]),
        2: Action(method="forkserver", parent_before=[py_set("A", "4")]),
    }
    with TitledTree(python.path, workers=3, env={"A": "1"}, actions=actions, titler="own") as tree:
        values = [tree.truth[pid]["A"] for pid in tree.workers()]
        # The forkserver started when its first child did, after the change.
        assert values == [None, "3", "4"]
        assert tree.truth[tree.root]["A"] == "4"
        assert set(tree.pids_by_title) == {
            *(f"sglang::scheduler_TP{number}" for number in range(3)),
            "sglang::detokenizer",
        }
        assert psutil.Process(tree.worker(0)).cmdline()[0] == "sglang::scheduler_TP0"
        assert {tree.tracker, tree.forkserver} <= set(psutil.pids())


def test_ways_to_set_and_unset() -> None:
    ways = [
        [py_set("A", "x"), py_unset("B")],
        [c_setenv("A", "x"), c_unsetenv("B")],
        [c_putenv("A", "x")],
        [CLEARENV],
    ]
    actions = {number: Action(after_title=steps) for number, steps in enumerate(ways)}
    with TitledTree(workers=4, env={"A": "1", "B": "2"}, actions=actions) as tree:
        libc = [tree.truth[pid] for pid in tree.workers()]
        python = [tree.python_truth[pid] for pid in tree.workers()]
        starts = [tree.reports[pid].start for pid in tree.workers()]
    set_and_unset = {"A": "x", "B": None}
    untouched = {"A": "1", "B": "2"}
    assert libc == [set_and_unset, set_and_unset, {"A": "x", "B": "2"}, {"A": None, "B": None}]
    assert python == [set_and_unset, untouched, untouched, untouched]
    assert starts == [untouched] * 4


def test_other_ways_to_start_a_child() -> None:
    script = 'export NEW=2; unset OLD; "$@"; true'
    actions = {
        0: Action(method="subprocess", wrapper=["/bin/sh", "-c", script, "sh"]),
        1: Action(method="subprocess", wrapper=["env", "-u", "OLD"]),
        2: Action(method="subprocess", env={"PATH": os.defpath, "LANG": "C.UTF-8", "ONLY": "1"}),
        3: Action(children=[Action(title="grandchild")], exits=True),
    }
    with TitledTree(workers=4, env={"OLD": "1"}, names=["NEW"], actions=actions) as tree:
        names = ("NEW", "OLD", "ONLY")
        truth = [[tree.truth[tree.worker(n)][name] for name in names] for n in range(3)]
        shell = psutil.Process(tree.worker(0)).ppid()
        assert psutil.Process(shell).ppid() == tree.root
        assert psutil.Process(tree.pid("root.w3.0")).ppid() not in (tree.root, tree.worker(3))
    assert truth == [["2", None, None], [None, None, None], [None, None, "1"]]


def test_a_running_process_takes_orders() -> None:
    value = "v" * 131_000
    with TitledTree(workers=1, env={"A": "1"}, actions={0: Action(after_title=[FORK])}) as tree:
        pid = tree.worker(0)
        tree.tell(pid, c_setenv("A", value), retitle("other title"))
        assert tree.truth[pid]["A"] == value
        assert tree.truth[tree.pid("root.w0.fork")]["A"] == "1"
        assert psutil.Process(pid).cmdline()[0] == "other title"
        tree.tell(pid, execute("/bin/sleep", "1000"), wait=False)
        tree.tell(tree.root, leave(3), wait=False)


def test_nothing_is_left_of_a_tree_even_after_a_failure() -> None:
    pids: set[int | None] = set()

    def fail() -> None:
        with TitledTree(workers=2, actions={1: Action(after_title=[FORK])}) as tree:
            pids.update(tree.reports, [tree.tracker])
            tree.tell(tree.worker(0), execute("/bin/sleep", "1000"), wait=False)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert len(pids) == 6
    living = {p.pid for p in psutil.process_iter(["status"]) if p.info["status"] != "zombie"}
    assert not pids & living


def test_a_tree_that_cannot_start_says_why() -> None:
    with (
        pytest.raises(RuntimeError, match="No module named no_such_module"),
        TitledTree(
            sys.executable,
            actions={"root": Action(wrapper=[sys.executable, "-m", "no_such_module"])},
        ),
    ):
        pass
    began = time.monotonic()
    with (
        pytest.raises(RuntimeError, match=r"(?s)root\.w1 failed.*KeyError: 'no_such_verb'"),
        TitledTree(workers=2, actions={1: Action(after_title=[["no_such_verb"]])}),
    ):
        pass
    assert time.monotonic() - began < 20
    with pytest.raises(ValueError, match="do not exist: \\['9'\\]"):
        TitledTree(workers=2, actions={9: Action()})
