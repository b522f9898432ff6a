"""Each check of `trace-sitecustomize` on facts that make it fire, and on a faultless start."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from envprobe.checks.finding import Finding, Severity
from envprobe.checks.registry import every, run_checks
from envprobe.checks.trace.about import Expected, TraceContext
from envprobe.checks.trace.registry import CHECKS
from envprobe.model import Confidence
from envprobe.redact import show_sentence
from envprobe.startup.result import (
    Attribute,
    Child,
    Cost,
    Effects,
    Hook,
    Outcome,
    PatchState,
    Reached,
    Run,
    Startup,
)
from envprobe.startup.target import Target
from envprobe.startup.traced import Answer, Traced
from envprobe.startup.types import (
    Asked,
    Bytecode,
    Candidate,
    Entry,
    EntryState,
    FileFacts,
    Kind,
    Launch,
    Origin,
    Question,
    Raised,
    StartupFile,
    Walk,
)

PATH = "/hooks/sitecustomize.py"
LOSER = "/venv/site/sitecustomize.py"
LAUNCH = Launch("/venv/bin/python", {"PYTHONPATH": "/hooks"}, cwd="/srv")
WINNER = Candidate("sitecustomize", FileFacts(PATH, real=PATH, changed=50.0), Kind.SOURCE, 0, 0)
LOST = Candidate("sitecustomize", FileFacts(LOSER), Kind.SOURCE, 1, 1, reason="it comes later")
USER = Hook("usercustomize", Outcome.ABSENT)
RAN = Hook("sitecustomize", Outcome.RAN, PATH, Kind.SOURCE, confirmed=True)
EFFECTS = Effects(
    loaded={"sitecustomize": PATH},
    names={},
    namespaces=(),
    changes=(),
    replaced=(),
    streams=(),
    path=("/hooks",),
    torch_imported=False,
    cuda_initialised=False,
    gpu_files=(),
    threads=1,
    children=(),
    waited_for_children=False,
    python_path="/hooks",
    flags={},
)
WALK = Walk(
    version=(3, 12, 1),
    implementation="cpython",
    executable="/venv/bin/python",
    prefix="/venv",
    base_prefix="/usr",
    stdlib="/usr/lib/python3.12",
    entries=(
        Entry("/hooks", Origin.PYTHONPATH, EntryState.DIRECTORY),
        Entry("/venv/site", Origin.SITE, EntryState.DIRECTORY),
    ),
    candidates=(WINNER,),
    files=(),
    user_site="",
    user_site_enabled=False,
    site_directories=("/venv/site",),
)
GOOD = Startup(
    launch=LAUNCH,
    run=Run(0),
    hooks=(RAN, USER),
    walk=WALK,
    effects=EFFECTS,
    children=(Child("spawn", "sitecustomize", Reached.RAN, PATH),),
    cost=Cost(30.0, 29.0, 5),
)
NOTHING = Expected()
PROCESS = Target(7, "python (PID 7)", 100.0, {"sitecustomize": PATH}, "", 1)


def _hook(outcome: Outcome, **more: Any) -> dict[str, Any]:
    return {"hooks": (dataclasses.replace(RAN, outcome=outcome, **more), USER)}


def _walk(**more: Any) -> dict[str, Any]:
    return {"walk": dataclasses.replace(WALK, **more)}


def _winner(**more: Any) -> dict[str, Any]:
    return _walk(candidates=(dataclasses.replace(WINNER, **more),))


def _effects(**more: Any) -> dict[str, Any]:
    return {"effects": dataclasses.replace(EFFECTS, **more)}


def _launch(**more: Any) -> dict[str, Any]:
    return {"launch": dataclasses.replace(LAUNCH, **more)}


def _child(reached: Reached, method: str = "spawn", **more: Any) -> dict[str, Any]:
    return {"children": (Child(method, "sitecustomize", reached, **more),)}


def _found(
    startup: Startup,
    expected: Expected = NOTHING,
    *,
    target: Target | None = None,
    asked: tuple[Asked, ...] = (Asked.GIVEN,),
    confidence: Confidence = Confidence.PROVED,
    own: bool = False,
) -> list[Finding]:
    asking = tuple(Question(one, startup.launch, confidence, "wiped") for one in asked)
    traced = Traced((Answer(asking, startup),), "given", own, target)
    return list(run_checks(CHECKS, TraceContext(traced, expected), {}).findings)


ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
RAISED = Raised("ValueError", "no", PATH, 3)
LINE = Hook(
    "/venv/site/a.pth", Outcome.RAISED, "/venv/site/a.pth", line=2, text="import x", raised=RAISED
)


def test_a_start_without_a_fault_gives_nothing() -> None:
    assert _found(GOOD) == []
    assert _found(GOOD, target=PROCESS, asked=(Asked.RAN, Asked.NEXT)) == []
    assert _found(GOOD, Expected(PATH, ("spawn",))) == []


def test_all_checks_have_ids_of_this_command_and_names_of_their_own() -> None:
    assert [check.id for check in CHECKS] == [f"EP{n}" for n in range(101, 101 + len(CHECKS))]
    assert len({check.slug for check in every()}) == len(every())


@pytest.mark.parametrize(
    ("changes", "slug", "severity", "said"),
    [
        (_hook(Outcome.RAISED, raised=RAISED), "hook-raised", ERROR, f"ValueError: no at {PATH}:3"),
        (_hook(Outcome.SILENT, reason="why"), "hook-silent", ERROR, "in silence: why"),
        (_hook(Outcome.ENDED, reason="why"), "hook-ends-interpreter", ERROR, "start: why"),
        (_hook(Outcome.STOPPED, reason="why"), "hook-ends-interpreter", ERROR, "start: why"),
        (_walk(candidates=(WINNER, LOST)), "hook-shadowed", WARNING, f"{LOSER} never runs"),
        (
            _walk(
                candidates=(
                    WINNER,
                    dataclasses.replace(LOST, file=FileFacts(LOSER, owner="libpython")),
                )
            ),
            "hook-shadowed",
            INFO,
            f"{LOSER} never runs",
        ),
        (_hook(Outcome.DISABLED, reason="-S"), "hook-disabled", WARNING, "never runs: -S"),
        (_launch(flags=("-I",)), "hook-disabled", WARNING, "PYTHONPATH is set but does not count"),
        (_hook(Outcome.NAMESPACE), "hook-without-code", WARNING, "without __init__.py"),
        ({"hooks": (LINE, RAN, USER)}, "startup-file-failed", ERROR, "Line 2 of /venv/site/a.pth"),
        (
            _walk(files=(StartupFile(FileFacts("/s/a.pth"), (), unreadable="PermissionError"),)),
            "startup-file-failed",
            ERROR,
            "/s/a.pth could not be read",
        ),
        (_winner(bytecode=Bytecode.UNCHECKED), "bytecode-suspect", INFO, "now they agree"),
        (_winner(bytecode=Bytecode.UNCHECKED_STALE), "bytecode-suspect", WARNING, "other code"),
        (_winner(bytecode=Bytecode.AGREES_BUT_DIFFERS), "bytecode-suspect", WARNING, "time and"),
        (_winner(kind=Kind.SOURCELESS), "bytecode-suspect", INFO, "without a source"),
        (_launch(environment={"PYTHONPATH": "/hooks:"}), "path-entry-odd", WARNING, "a colon"),
        (_launch(environment={"PYTHONPATH": "x"}), "path-entry-odd", WARNING, "relative"),
        (
            _walk(entries=(Entry("/hooks", Origin.PYTHONPATH, EntryState.FILE),)),
            "path-entry-odd",
            WARNING,
            "which is a file",
        ),
        (_winner(file=FileFacts(PATH, readable=False)), "hook-unreadable", ERROR, PATH),
        (
            _walk(entries=(Entry("/hooks", Origin.PYTHONPATH, EntryState.UNREADABLE),)),
            "hook-unreadable",
            ERROR,
            "/hooks, an entry of sys.path",
        ),
        (_child(Reached.NOT_RUN, reason="gone"), "hook-not-in-children", WARNING, "spawn: gone"),
        (_child(Reached.ANOTHER_RAN, "subprocess"), "hook-not-in-children", INFO, "subprocess"),
        ({"cost": Cost(300.0, 30.0, 5)}, "hook-slow", WARNING, "slow"),
        (_effects(torch_imported=True), "hook-slow", WARNING, "import torch"),
        (_effects(cuda_initialised=True), "hook-uses-gpu", ERROR, "uses a GPU"),
        (_effects(gpu_files=("/dev/nvidia0",)), "hook-uses-gpu", ERROR, "uses a GPU"),
        (_effects(children=("sleep",)), "hook-starts-processes", ERROR, "start processes"),
        (_effects(waited_for_children=True), "hook-starts-processes", ERROR, "start processes"),
        (_effects(threads=3), "hook-starts-processes", WARNING, "3 threads"),
        ({"run": Run(0, left=("sleep",))}, "hook-starts-processes", ERROR, "start processes"),
        ({"run": Run(0, printed=9)}, "hook-changes-interpreter", WARNING, "print 9 bytes"),
        (_effects(streams=("stderr",)), "hook-changes-interpreter", WARNING, "sys.stderr"),
        (_effects(path=None), "hook-changes-interpreter", WARNING, "no usable sys.path"),
        (
            _winner(file=FileFacts("/other/sitecustomize.py")),
            "trace-and-walk-disagree",
            WARNING,
            "the trace is trusted",
        ),
    ],
)
def test_each_fault_is_found_once(
    changes: dict[str, Any], slug: str, severity: Severity, said: str
) -> None:
    found = _found(dataclasses.replace(GOOD, **changes))
    assert [(one.check, one.severity, one.undetermined) for one in found] == [
        (slug, severity, False)
    ]
    assert found[0].who == LAUNCH.python
    assert said in show_sentence(found[0].message)


@pytest.mark.parametrize(
    "changes",
    [
        {"problems": ("the walk did not end",)},
        {"run": Run(1, answered=False, said="OSError")},
    ],
)
def test_what_was_not_traced_is_not_known(changes: dict[str, Any]) -> None:
    (one,) = _found(dataclasses.replace(GOOD, **changes))
    assert (one.check, one.undetermined) == ("start-not-traced", True)


def test_a_chained_hook_is_no_loser() -> None:
    chains = dataclasses.replace(RAN, chained=(LOSER,))
    startup = dataclasses.replace(GOOD, hooks=(chains, USER), **_walk(candidates=(WINNER, LOST)))
    assert _found(startup) == []


def test_an_expected_winner() -> None:
    (one,) = _found(GOOD, Expected(winner=LOSER))
    assert (one.check, one.severity) == ("winner-unexpected", ERROR)
    assert f"{PATH} does" in show_sentence(one.message)
    failing = dataclasses.replace(GOOD, **_hook(Outcome.RAISED, raised=RAISED))
    checks = [one.check for one in _found(failing, Expected(winner=PATH))]
    assert checks == ["winner-unexpected", "hook-raised"]
    unknown = dataclasses.replace(GOOD, **_hook(Outcome.UNKNOWN))
    (one,) = _found(unknown, Expected(winner=PATH))
    assert one.undetermined
    assert _found(GOOD, Expected(winner="../hooks/sitecustomize.py")) == []


def test_an_expected_reach() -> None:
    expected = Expected(reach=("spawn",))
    missed = dataclasses.replace(GOOD, **_child(Reached.NOT_RUN, importable=True))
    (one,) = _found(missed, expected)
    assert (one.check, one.severity) == ("hook-not-in-children", ERROR)
    assert show_sentence(one.evidence[0]).startswith("The trap:")
    for changes in (_child(Reached.UNKNOWN, error="x"), {"children": ()}):
        (one,) = _found(dataclasses.replace(GOOD, **changes), expected)
        assert (one.check, one.undetermined) == ("hook-not-in-children", True)


@pytest.mark.parametrize(
    ("parent", "child", "undetermined"),
    [
        (PatchState.UNTOUCHED, None, False),
        (PatchState.UNKNOWN, None, True),
        (PatchState.PRESENT, PatchState.ABSENT, False),
        (PatchState.PRESENT, PatchState.UNKNOWN, True),
    ],
)
def test_an_expected_patch(
    parent: PatchState, child: PatchState | None, undetermined: bool
) -> None:
    states = {"m:f": child} if child is not None else {}
    startup = dataclasses.replace(
        GOOD,
        patches={"m:f": parent},
        effects=dataclasses.replace(EFFECTS, patches={"m:f": Attribute("function", "m", "f")}),
        children=(Child("spawn", "sitecustomize", Reached.RAN, PATH, patches=states),),
    )
    (one,) = _found(startup, Expected(patches=("m:f",)))
    assert (one.check, one.severity, one.undetermined) == (
        "patch-not-installed",
        ERROR,
        undetermined,
    )


def test_facts_of_a_process() -> None:
    asked = (Asked.RAN,)
    old = dataclasses.replace(PROCESS, loaded={"sitecustomize": LOSER})
    (one,) = _found(GOOD, target=old, asked=(Asked.AGAIN,))
    assert (one.check, one.severity, one.pids) == ("memory-disagrees", WARNING, (7,))
    assert one.who == "what the process ran"
    assert _found(GOOD, target=old, asked=(Asked.NEXT,)) == []
    expected = Expected(winner=LOSER)
    assert [one.check for one in _found(GOOD, expected, target=old, asked=(Asked.AGAIN,))] == [
        "memory-disagrees"
    ]
    (one, _) = _found(GOOD, Expected(winner=PATH), target=old, asked=(Asked.AGAIN,))
    assert (one.check, one.severity, one.who) == (
        "winner-unexpected",
        ERROR,
        "what the process ran",
    )
    # Neither the start nor the memory is known: nothing is claimed.
    unread = dataclasses.replace(PROCESS, loaded=None)
    how: dict[str, Any] = {"target": unread, "confidence": Confidence.INFERRED}
    (one, _) = _found(GOOD, Expected(winner=PATH), asked=asked, **how)
    assert (one.check, one.undetermined) == ("winner-unexpected", True)
    newer = dataclasses.replace(GOOD, **_winner(file=FileFacts(PATH, changed=200.0)))
    (one,) = _found(newer, target=PROCESS, asked=asked)
    assert (one.check, one.severity) == ("hook-newer-than-process", WARNING)
    (one,) = _found(GOOD, target=PROCESS, asked=asked, confidence=Confidence.INFERRED)
    assert (one.check, one.severity, one.who) == ("start-inferred", INFO, "what the process ran")


def test_the_interpreter_of_envprobe_itself() -> None:
    (one,) = _found(GOOD, own=True)
    assert (one.check, one.severity) == ("own-interpreter", WARNING)
