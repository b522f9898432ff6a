"""`passive-reading-disagrees`: a rehearsed process says one thing, the reading shows another."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import pytest

from envprobe.checks.finding import Finding, Severity
from envprobe.checks.rehearse import passive_disagrees
from envprobe.checks.rehearse.about import RehearseContext, Rehearsed
from envprobe.checks.unit.about import UnitContext
from envprobe.launch.definition import Context, of_command
from envprobe.model import Environment, EnvironmentStatus, Role, Snapshot, View
from envprobe.pythonfacts import AnswerState
from envprobe.rehearsal import plan
from envprobe.rehearsal.plan import Wanted
from envprobe.rehearsal.types import End, Member, Node, Rehearsal, Stopped
from envprobe.startup.declared import starts_of
from envprobe.startup.reach import Told
from envprobe.values import Value
from tests.unit.checks.insides import HOOK_FILE, hook, inside, no_answer, no_hook
from tests.unit.checks.scene import ROOT, Scene, refused, scheduler, sglang, text, values

VARIABLES = {"PATH": "/usr/bin", "NCCL_ALGO": "Ring"}
DEFINITION = of_command(
    ["python3", "-m", "sglang.launch_server", "--tp", "2"], Context({"PATH": "/usr/bin"}), "/"
)
(START,) = starts_of(DEFINITION)
DETOKENIZER = 120
OTHER = "/srv/sitecustomize.py"


def facts(loaded: str) -> dict[str, Any]:
    """Return what payload/startup_probe.py tells of a process with one hook, "" for none."""
    one = {"loaded": bool(loaded), "origin": loaded, "file": loaded, "names": [], "loader": ""}
    return {
        "hooks": {"sitecustomize": one},
        "environment": VARIABLES,
        "cwd": "/",
        "torch": {"imported": False, "initialised": False},
        "path": [],
        "threads": 1,
        "children": [],
        "waited_for_children": False,
        "flags": {},
        "chained": {},
        **dict.fromkeys(("replaced", "streams", "gpu_files"), ()),
    }


def member(
    node: Node | None,
    pid: int,
    said: Mapping[str, str] = VARIABLES,
    loaded: str = HOOK_FILE,
    titled: bool = True,
) -> Member:
    """Return a process that says this of itself."""
    told = Told({"facts": facts(loaded), "patches": {}, "importable": {}}, START.launch)
    environment = {name: Value(os.fsencode(one)) for name, one in said.items()}
    titled = titled and node is not None
    return Member(node, pid, ROOT, told, {}, environment, titled=titled)


PLAN = plan.make(START, Wanted(), "0.5.23")
NODES = {node.name: node for node in PLAN.walk()}
TOLD = (
    member(None, ROOT),
    member(NODES["scheduler TP0"], 110),
    member(NODES["scheduler TP1"], 111),
    member(NODES["detokenizer"], DETOKENIZER),
)


def scene() -> Scene:
    """Return the same processes as they are read from outside."""
    made = sglang(2).add(DETOKENIZER, ROOT, role=Role("detokenizer", "sglang", evidence="title"))
    for pid in (ROOT, 110, 111, DETOKENIZER):
        made.change(pid, inside=inside())
        mirrored(made, pid, VARIABLES)
    return made


def mirrored(made: Scene, pid: int, variables: Mapping[str, str | None]) -> None:
    """Give one process a reading of os.environ; None: the value was not asked for."""
    view = Environment(View.PYTHON, EnvironmentStatus.COMPLETE, values(variables))
    put(made, pid, view)


def put(made: Scene, pid: int, view: Environment) -> None:
    """Give one process a view."""
    made.change(pid, environments={**made.processes[pid].environments, view.view: view})


def judged(
    snapshot: Snapshot | None, *told: Member, unread: str = "", whole: tuple[Member, ...] = TOLD
) -> list[Finding]:
    """Return what the check finds; `told` stand in for the members with their pids."""
    others = {one.pid: one for one in told}
    members = tuple(others.get(one.pid, one) for one in whole)
    end = End(0, Stopped.NO, 1.0)
    one = Rehearsal(START, PLAN, end, members, snapshot=snapshot, unread=unread)
    rehearsed = Rehearsed(one, None, "server")
    context = RehearseContext(DEFINITION, (rehearsed,), UnitContext((DEFINITION,)))
    return list(passive_disagrees.CHECK.run(context))


def disagreement(found: list[Finding], name: str, pid: int) -> str:
    """Return how the only finding, which is about one process, says that the two differ."""
    (one,) = found
    assert (one.check, one.severity) == ("passive-reading-disagrees", Severity.ERROR)
    assert (one.pids, one.undetermined, one.who) == ((pid,), False, "server")
    assert "fault of envprobe" in text(one.remedy)
    head = f"What {name} says of itself and what is read from outside differ: "
    said = text(one.message)
    assert said.startswith(head)
    return said[len(head) :]


def test_two_that_agree_give_nothing() -> None:
    assert judged(scene().snapshot()) == []


@pytest.mark.parametrize(
    ("read", "said"),
    [
        ({**VARIABLES, "NCCL_ALGO": "Tree"}, "NCCL_ALGO has another value."),
        ({**VARIABLES, "NCCL_PROTO": "LL"}, "NCCL_PROTO is only read."),
        ({**VARIABLES, "NCCL_PROTO": None}, "NCCL_PROTO is only read."),
        ({"PATH": "/usr/bin"}, "NCCL_ALGO is not read."),
    ],
)
def test_a_variable_that_is_read_otherwise(read: dict[str, str | None], said: str) -> None:
    made = scene()
    mirrored(made, 111, read)
    assert disagreement(judged(made.snapshot()), "scheduler TP1", 111) == said


def test_the_first_process_is_compared_as_well() -> None:
    made = scene()
    mirrored(made, ROOT, {})
    said = disagreement(judged(made.snapshot()), "the first process", ROOT)
    assert said == "NCCL_ALGO is not read and PATH is not read."


def test_what_is_not_read_disagrees_with_nothing() -> None:
    made = scene()
    mirrored(made, 110, dict.fromkeys(VARIABLES))
    put(made, 111, refused(View.PYTHON))
    assert judged(made.snapshot()) == []
    long = Environment(
        View.PYTHON,
        EnvironmentStatus.COMPLETE,
        {"PATH": Value(b"/usr/bin"), "NCCL_ALGO": Value(b"Ri", length=4)},
    )
    put(made, 110, long)
    assert judged(made.snapshot()) == []


@pytest.mark.parametrize(
    ("loaded", "read", "said"),
    [
        (HOOK_FILE, no_hook(), f"sitecustomize is {HOOK_FILE}, read is none."),
        ("", hook(), f"sitecustomize is not loaded, read is {HOOK_FILE}."),
        (HOOK_FILE, hook(OTHER), f"sitecustomize is {HOOK_FILE}, read is {OTHER}."),
    ],
)
def test_a_hook_that_is_read_otherwise(loaded: str, read: Any, said: str) -> None:
    made = scene().change(110, inside=inside(hooks=(read,)))
    told = member(NODES["scheduler TP0"], 110, loaded=loaded)
    assert disagreement(judged(made.snapshot(), told), "scheduler TP0", 110) == said


@pytest.mark.parametrize("state", [AnswerState.UNREADABLE, AnswerState.CHANGING])
def test_a_hook_that_could_not_be_read_disagrees_with_nothing(state: AnswerState) -> None:
    unread = no_answer(state, "it moves", "sitecustomize")
    assert judged(scene().change(110, inside=inside(hooks=(unread,))).snapshot()) == []
    assert judged(scene().change(110, inside=None).snapshot()) == []


def test_one_path_written_in_two_ways_is_one_hook() -> None:
    made = scene().change(110, inside=inside(hooks=(hook("/opt/./hooks/sitecustomize.py"),)))
    assert judged(made.snapshot()) == []


def test_a_role_that_is_read_otherwise() -> None:
    made = scene().change(110, role=scheduler(7))
    said = disagreement(judged(made.snapshot()), "scheduler TP0", 110)
    assert said == "its role is scheduler TP7, and it stands for scheduler TP0."
    # Without a title there is nothing that its role could be read from.
    untitled = member(NODES["scheduler TP0"], 110, titled=False)
    assert judged(made.snapshot(), untitled) == []


def test_a_process_that_is_not_in_the_tree() -> None:
    made = scene()
    del made.processes[111]
    said = disagreement(judged(made.snapshot()), "scheduler TP1", 111)
    assert said == "it is not in the tree."


def test_a_stranger_is_taken_for_a_worker() -> None:
    made = scene()
    role = dataclasses.replace(made.processes[DETOKENIZER].role, worker=True)
    (found,) = judged(made.change(DETOKENIZER, role=role).snapshot())
    assert (found.severity, found.undetermined, found.who) == (Severity.ERROR, False, "server")
    assert text(found.message) == (
        f"detokenizer (PID {DETOKENIZER}) is taken for a worker,"
        " and the rehearsal started it as none."
    )
    # What a hook has started is none of the rehearsal's own.
    assert judged(scene().add(130, ROOT, role=scheduler(7)).snapshot()) == []


def test_what_could_not_be_read_at_all_is_no_agreement() -> None:
    (found,) = judged(None, unread="not permitted")
    assert (found.undetermined, found.pids) == (True, ())
    assert "could not be read from outside: not permitted." in text(found.message)
    assert judged(None) == []
