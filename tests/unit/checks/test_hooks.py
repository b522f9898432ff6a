"""The checks on start-up hooks and on the files of code: expected, the same everywhere, current."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from envprobe.checks.finding import Severity
from envprobe.checks.verdict import progress
from envprobe.model import Confidence, EdgeKind, Environment, EnvironmentStatus, Role, View
from envprobe.pythonfacts import (
    Answer,
    AnswerState,
    DiskState,
    FileFact,
    Inside,
    ModuleFact,
    PythonState,
    files_of,
)
from tests.unit.checks.insides import (
    BACKEND,
    HOOK_FILE,
    MODULE,
    ORIGINAL,
    ORIGINAL_FILE,
    PATCH,
    PATCH_FILE,
    expect,
    expect_hook,
    function,
    holds,
    hook,
    inside,
    no_answer,
    no_hook,
    put,
)
from tests.unit.checks.scene import (
    ROOT,
    Scene,
    evidence,
    of,
    one,
    scheduler,
    sglang,
    slugs,
    text,
    values,
)

DEBIAN = "/usr/lib/python3.11/sitecustomize.py"


def having(*hooks: Answer | None) -> Scene:
    """Return a server whose workers have these hooks; None: not read."""
    found = [None if one is None else inside(hooks=(one,)) for one in hooks]
    return put(sglang(len(found)), *found)


# --- hook-differs --------------------------------------------------------------------------------


@pytest.mark.parametrize("exact", [True, False])
def test_the_expected_hook_in_every_worker(exact: bool) -> None:
    source = HOOK_FILE if exact else "/opt/hooks"
    scene = having(hook(), hook())
    assert scene.run(**expect_hook(source, exact=exact)).findings == ()


@pytest.mark.parametrize(
    ("loaded", "says"),
    [
        (hook(DEBIAN), f"is {DEBIAN}; expected: {HOOK_FILE}."),
        (no_hook(), f"is not loaded; expected: {HOOK_FILE}."),
        (
            hook(None, search=("/opt/empty/sitecustomize",)),
            "is an empty namespace package, in which no code ran (/opt/empty/sitecustomize);",
        ),
        (hook(None), "is a module without a file;"),
    ],
)
def test_another_hook_or_none(loaded: Answer, says: str) -> None:
    result = having(hook(), loaded, loaded).run(**expect_hook())
    finding = one(result, "hook-differs")
    assert (finding.severity, finding.pids) == (Severity.ERROR, (111, 112))
    assert says in text(finding.message)
    assert slugs(result) == {"hook-differs"}


def test_why_another_hook_came_first() -> None:
    finding = one(having(hook(DEBIAN)).run(**expect_hook()), "hook-differs")
    assert "/opt/hooks is entry 1 of 2 of its sys.path" in evidence(finding)
    away = one(having(hook()).run(**expect_hook("/srv/h/sitecustomize.py")), "hook-differs")
    assert "/srv/h is not on its sys.path." in evidence(away)


def with_python(found: Inside, **changes: Any) -> Inside:
    assert found.python is not None
    return dataclasses.replace(found, python=dataclasses.replace(found.python, **changes))


@pytest.mark.parametrize(
    ("name", "flags", "option"),
    [
        ("sitecustomize", {"no_site": 1}, "-S"),
        ("sitecustomize", {"ignore_environment": 1}, "-E"),
        ("sitecustomize", {"isolated": 1, "ignore_environment": 1, "no_user_site": 1}, "-I"),
        ("usercustomize", {"no_user_site": 1}, "-s"),
        ("sitecustomize", {"no_user_site": 1}, ""),
    ],
)
def test_the_flag_that_keeps_a_hook_out_is_told(
    name: str, flags: dict[str, int], option: str
) -> None:
    scene = put(sglang(1), with_python(inside(hooks=(no_hook(name),)), flags=flags))
    finding = one(scene.run(**expect_hook(f"/opt/hooks/{name}.py", name)), "hook-differs")
    assert (f"runs with {option}: " in evidence(finding)) is bool(option)
    assert (f"without {option};" in text(finding.remedy)) is bool(option)


def test_between_peers_the_flag_of_the_one_without_is_told() -> None:
    bare = with_python(inside(hooks=(no_hook(),)), flags={"isolated": 1})
    finding = one(put(sglang(2), inside(), bare).run(), "hook-differs")
    assert "The interpreter of PID 111 runs with -I: " in evidence(finding)
    assert "without -I;" in text(finding.remedy)


def test_sys_path_of_a_spawned_child_does_not_tell_what_was_there_at_its_start() -> None:
    found = with_python(
        inside(hooks=(no_hook(),)), orig_argv=("python", "-c", "x", "--multiprocessing-fork")
    )
    said = evidence(one(put(sglang(1), found).run(**expect_hook()), "hook-differs"))
    assert "copied that from the parent after the hooks were loaded" in said
    assert "wins" not in said


def test_a_hook_that_may_have_failed_is_told_with_its_folder() -> None:
    scene = having(no_hook())
    edge = dataclasses.replace(scene.processes[110].edge, kind=EdgeKind.EXEC)
    said = evidence(one(scene.change(110, edge=edge).run(**expect_hook()), "hook-differs"))
    assert "/opt/hooks has none, or it raised an error" in said


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({}, "There is no PYTHONPATH in the environment of PID 110."),
        ({"PYTHONPATH": "/a:/b"}, "PYTHONPATH=/a:/b of PID 110 does not name /opt/hooks;"),
        (
            {"PYTHONPATH": "/a:/opt/hooks/"},
            "PYTHONPATH=/a:/opt/hooks/ of PID 110 names /opt/hooks;",
        ),
    ],
)
def test_the_variable_that_leads_to_no_hook_is_told(variables: dict[str, str], says: str) -> None:
    view = Environment(View.EXEC, EnvironmentStatus.COMPLETE, values(variables))
    scene = having(no_hook()).change(110, environments={View.EXEC: view})
    said = evidence(one(scene.run(**expect_hook()), "hook-differs"))
    assert says in said
    scene.change(110, environments={View.LIBC: dataclasses.replace(view, view=View.LIBC)})
    assert says in evidence(one(scene.run(**expect_hook()), "hook-differs"))


def test_workers_without_a_hook_for_other_reasons_are_told_apart() -> None:
    bare, flagged = inside(hooks=(no_hook(),)), {"isolated": 1}
    scene = put(sglang(3), bare, bare, with_python(bare, flags=flagged))
    view = Environment(View.EXEC, EnvironmentStatus.COMPLETE, values({"PYTHONPATH": "/broken"}))
    scene.change(110, environments={View.EXEC: view})
    found = of(scene.run(**expect_hook()), "hook-differs")
    assert {one.pids for one in found} == {(110,), (111,), (112,)}


def test_a_hook_that_says_two_files_is_unknown() -> None:
    """A hook can set its own __file__: then neither is believed."""
    liar = hook(HOOK_FILE, origin="/opt/other/sitecustomize.py")
    result = having(liar).run(**expect_hook())
    finding = one(result, "patch-unknown")
    said = f"it is /opt/other/sitecustomize.py, although its __file__ says {HOOK_FILE}"
    assert (finding.pids, said in text(finding.message)) == ((110,), True)
    assert slugs(result) == {"patch-unknown"}
    assert having(hook(HOOK_FILE, origin=HOOK_FILE)).run(**expect_hook()).findings == ()


def test_a_hook_that_could_not_be_read_is_unknown_and_waited_for() -> None:
    refused = Inside(PythonState.UNREADABLE, reason="not permitted", remedy="Run as root.")
    scene = put(sglang(2), inside(), refused)
    result = scene.run(**expect_hook())
    finding = one(result, "patch-unknown")
    assert (finding.pids, finding.undetermined) == ((111,), True)
    assert "sitecustomize holds in scheduler TP1 (PID 111): not permitted." in text(finding.message)
    assert slugs(result) == {"patch-unknown"}
    assert progress(scene.context(**expect_hook())).undecided == ("sitecustomize",)
    unread = put(sglang(1), inside(hooks=(no_answer(AnswerState.CHANGING, query="sitecustomize"),)))
    assert slugs(unread.run(**expect_hook())) == {"patch-unknown"}


def test_a_relative_hook_is_resolved_where_the_process_is() -> None:
    scene = having(hook("hooks/sitecustomize.py")).change(110, cwd="/opt")
    assert scene.run(**expect_hook()).findings == ()
    assert slugs(scene.change(110, cwd=None).run(**expect_hook())) == {"patch-unknown"}


def test_workers_with_other_hooks_than_their_peers_without_any_expectation() -> None:
    scene = having(hook(), hook(), no_hook(), hook(DEBIAN), None)
    finding = one(scene.run(), "hook-differs")
    assert (finding.severity, finding.pids) == (Severity.WARNING, (112, 113))
    said = text(finding.message)
    assert "sitecustomize is not the same in all workers of server (PID 100)" in said
    assert f"{HOOK_FILE} in scheduler TP0 (PID 110) and scheduler TP1 (PID 111)" in said
    assert "not loaded in scheduler TP2 (PID 112)" in said


def test_an_expected_hook_is_not_told_twice() -> None:
    result = having(hook(), hook(), no_hook()).run(**expect_hook())
    assert [finding.severity for finding in of(result, "hook-differs")] == [Severity.ERROR]


def test_workers_of_two_launches_are_not_compared() -> None:
    scene = having(hook(), hook())
    scene.add(200, None).add(210, 200, role=scheduler(0), inside=inside(hooks=(no_hook(),)))
    scene.fields["roots"] = (100, 200)
    assert scene.run().findings == ()


# --- code-changed-since-start --------------------------------------------------------------------


def stale(path: str, state: DiskState = DiskState.CHANGED, changed: float | None = 4000.0) -> Any:
    return FileFact(path, state, changed)


def test_a_hook_that_was_changed_after_the_start() -> None:
    found = inside(files=(stale(HOOK_FILE),))
    result = put(sglang(2), found, found).run()
    finding = one(result, "code-changed-since-start")
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.PROVED)
    assert finding.pids == (110, 111)
    assert text(finding.message).startswith(f"{HOOK_FILE} was changed at ")
    assert slugs(result) == {"code-changed-since-start"}


def test_a_module_may_have_been_imported_after_the_change() -> None:
    found = inside(holds(PATCH), files=(stale(PATCH_FILE), stale("/elsewhere.py")))
    finding = one(put(sglang(1), found).run(**expect()), "code-changed-since-start")
    assert finding.confidence is Confidence.INFERRED
    assert PATCH_FILE in text(finding.message)
    assert "Unless it was imported after the change" in evidence(finding)


def test_a_file_that_is_gone() -> None:
    found = inside(holds(ORIGINAL), files=(stale(ORIGINAL_FILE, DiskState.MISSING, None),))
    finding = one(put(sglang(1), found).run(), "code-changed-since-start")
    assert f"{ORIGINAL_FILE} is no longer there" in text(finding.message)
    assert "runs without this file" in text(finding.remedy)


@pytest.mark.parametrize(
    ("code", "space"), [("/build/b.py", "/venv/b.pyc"), ("/gen/made.py", ORIGINAL_FILE)]
)
def test_a_file_that_only_code_names_is_not_missed(code: str, space: str) -> None:
    """Byte code without its source, and code from compile(), name what was never here."""
    answer = holds(function(BACKEND, code, globals_file=space))
    gone = stale(code, DiskState.MISSING, None)
    found = inside(answer, files=(gone, stale(space, DiskState.UNCHANGED, 900.0)))
    assert not of(put(sglang(1), found).run(), "code-changed-since-start")
    assert (space in files_of(answer)) is True


def test_byte_code_that_was_replaced_is_told() -> None:
    answer = holds(function(BACKEND, "/build/b.py", globals_file="/venv/b.pyc"))
    finding = one(
        put(sglang(1), inside(answer, files=(stale("/venv/b.pyc"),))).run(),
        "code-changed-since-start",
    )
    assert text(finding.message).startswith("/venv/b.pyc was changed at ")


def test_the_module_of_an_attribute_that_is_not_there_counts() -> None:
    absent = no_answer(AnswerState.ABSENT, "no such name", module=MODULE)
    found = inside(absent, files=(stale(ORIGINAL_FILE),))
    assert "code-changed-since-start" in slugs(put(sglang(1), found).run())


@pytest.mark.parametrize("state", [DiskState.UNCHANGED, DiskState.UNREADABLE])
def test_what_is_unchanged_or_not_known_is_no_finding(state: DiskState) -> None:
    found = inside(files=(stale(HOOK_FILE, state, 900.0),))
    assert put(sglang(1), found).run().findings == ()


def test_a_fork_child_has_the_code_of_its_parents_start() -> None:
    found = inside(files=(stale(HOOK_FILE, DiskState.UNCHANGED, 1001.5),))
    scene = sglang(1).change(110, image_owner=ROOT, edge=sglang(1).processes[110].edge)
    assert scene.processes[ROOT].start_time < 1001.5 < scene.processes[110].start_time
    edge = dataclasses.replace(scene.processes[110].edge, kind=EdgeKind.FORK)
    scene.change(110, edge=edge)
    assert "code-changed-since-start" in slugs(put(scene, found).run())
    spawned = sglang(1)
    assert "code-changed-since-start" not in slugs(put(spawned, found).run())


def test_helpers_count_only_when_their_role_is_named() -> None:
    scene = put(sglang(1), inside(holds(PATCH)))
    scene.add(120, ROOT, role=Role("detokenizer", "sglang"))
    scene.change(120, inside=inside(holds(PATCH), files=(stale(HOOK_FILE),)))
    assert not of(scene.run(**expect()), "code-changed-since-start")
    assert of(scene.run(**expect(role="detokenizer")), "code-changed-since-start")


# --- module-twice --------------------------------------------------------------------------------


def test_two_copies_of_a_module_in_one_worker() -> None:
    other = function(BACKEND, "/old/srv/backend.py")
    result = put(sglang(1), inside(holds(other))).run()
    finding = one(result, "module-twice")
    assert (finding.severity, finding.pids) == (Severity.WARNING, (110,))
    assert f"from {ORIGINAL_FILE} and /old/srv/backend.py." in text(finding.message)


def test_workers_that_loaded_a_module_from_another_copy() -> None:
    other = function("my_kernels.attn", "/old/my_kernels/attn.py")
    scene = put(sglang(3), inside(holds(PATCH)), inside(holds(other)), inside(holds(PATCH)))
    finding = one(scene.run(**expect()), "module-twice")
    assert finding.pids == (111,)
    said = text(finding.message)
    assert f"{PATCH_FILE} in scheduler TP0 (PID 110) and scheduler TP2 (PID 112)" in said
    assert "/old/my_kernels/attn.py in scheduler TP1 (PID 111)" in said


@pytest.mark.parametrize(
    "found",
    [
        holds(ORIGINAL),
        holds(PATCH),
        # An alias: os.path is posixpath.
        dataclasses.replace(
            holds(function("posixpath", "/usr/lib/posixpath.py"), "os.path:join"),
            module=ModuleFact("os.path", "module", "/usr/lib/posixpath.py", spec_name="posixpath"),
        ),
        # Code of one file in the namespace of another says nothing of a second copy.
        holds(function(BACKEND, "/gen/backend.py", globals_file="/gen/space.py")),
        holds(function("__main__", "/a.py")),
        # Modules that do not say what they are.
        dataclasses.replace(
            holds(ModuleFact("made", "module", "/a.py")), module=ModuleFact("m", "module", "/b.py")
        ),
    ],
)
def test_one_copy_is_no_finding(found: Answer) -> None:
    scene = put(sglang(2), inside(found), inside(holds(ORIGINAL, "srv.backend:other")))
    assert not of(scene.run(), "module-twice")
