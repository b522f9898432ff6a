"""The checks on patched attributes: patch-missing, patch-not-imported, patch-unknown."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from envprobe.checks.finding import Severity
from envprobe.checks.verdict import judge, progress
from envprobe.errors import Exit
from envprobe.model import Role
from envprobe.pythonfacts import AnswerState, ClassFact, Inside, PythonState
from tests.unit.checks.insides import (
    BACKEND,
    ORIGINAL,
    ORIGINAL_FILE,
    PATCH,
    PATCH_FILE,
    QUERY,
    expect,
    function,
    holder,
    holds,
    hook,
    inside,
    no_answer,
    no_hook,
    put,
    wrapping,
)
from tests.unit.checks.scene import ROOT, Scene, evidence, of, one, sglang, slugs, text

PATCHED = inside(holds(PATCH))
UNPATCHED = inside(holds(ORIGINAL))
NOT_YET = inside(no_answer(AnswerState.NOT_IMPORTED, f"{BACKEND} is not imported"))
INSIDE_CHECKS = ("patch-missing", "patch-not-imported", "patch-unknown", "hook-differs")


def server(*found: Inside | None) -> Scene:
    return put(sglang(len(found)), *found)


def exit_of(scene: Scene, **config: Any) -> Exit:
    context = scene.context(**config)
    return judge(context, scene.run(**config)).exit


def test_workers_that_are_patched_give_no_finding() -> None:
    scene = server(PATCHED, PATCHED)
    assert scene.run(**expect()).findings == ()
    assert exit_of(scene, **expect()) is Exit.HOLDS


def test_the_worker_that_holds_the_original_is_named_with_its_place() -> None:
    scene = server(PATCHED, UNPATCHED, PATCHED)
    result = scene.run(**expect())
    finding = one(result, "patch-missing")
    assert (finding.severity, finding.pids) == (Severity.ERROR, (111,))
    said = text(finding.message)
    assert said == (
        f"{QUERY} is not patched in scheduler TP1 (PID 111): it holds the original,"
        " srv.backend.Backend.extend (/venv/srv/backend.py:7); expected: from my_kernels."
    )
    assert "It is patched in scheduler TP0 (PID 110) and scheduler TP2 (PID 112)." in evidence(
        finding
    )
    assert exit_of(scene, **expect()) is Exit.FINDING
    assert slugs(result) == {"patch-missing"}


def test_workers_that_hold_the_same_are_one_finding() -> None:
    other = inside(holds(function("tracer", "/venv/tracer.py", 3, "probe")))
    found = of(server(UNPATCHED, other, UNPATCHED).run(**expect()), "patch-missing")
    assert [one.pids for one in found] == [(110, 112), (111,)]
    assert "it holds tracer.probe (/venv/tracer.py:3);" in text(found[1].message)


def test_a_module_that_is_named_and_not_the_source_is_explained() -> None:
    liar = dataclasses.replace(ORIGINAL, module="my_kernels.attn")
    finding = one(server(inside(holds(liar))).run(**expect()), "patch-missing")
    assert "Its __module__ says my_kernels.attn, which is only a name" in evidence(finding)


@pytest.mark.parametrize(
    ("loaded", "says"),
    [
        (no_hook(), "No sitecustomize is loaded there"),
        (hook(), "The sitecustomize loaded there: /opt/hooks/sitecustomize.py."),
    ],
)
def test_the_hook_of_the_unpatched_is_told(loaded: Any, says: str) -> None:
    finding = one(server(inside(holds(ORIGINAL), hooks=(loaded,))).run(**expect()), "patch-missing")
    assert says in evidence(finding)


def test_an_attribute_that_is_not_there_is_not_patched() -> None:
    absent = no_answer(AnswerState.ABSENT, f"{BACKEND} has no Backend.extend")
    finding = one(server(inside(absent)).run(**expect()), "patch-missing")
    assert "it holds nothing, srv.backend has no Backend.extend;" in text(finding.message)
    assert "Correct the name" in text(finding.remedy)


def test_a_name_that_other_workers_have_is_not_called_wrong() -> None:
    absent = no_answer(AnswerState.ABSENT, f"{BACKEND} has no Backend.extend")
    found = of(server(PATCHED, inside(absent), UNPATCHED).run(**expect()), "patch-missing")
    (nothing,) = (one for one in found if one.pids == (111,))
    assert "Other processes have it" in text(nothing.remedy)
    assert "Correct the name" not in text(nothing.remedy)


def test_a_dot_in_the_place_of_the_colon_is_told() -> None:
    query = "srv.backend.Backend.extend"
    reason = f"{query} is not imported"
    remedy, note = f"Write {QUERY}: a colon stands there.", f"did you mean {QUERY}?"
    meant = no_answer(AnswerState.NOT_IMPORTED, reason, query, remedy=remedy, notes=(note,))
    unread = no_answer(AnswerState.NOT_IMPORTED, reason, query)
    finding = one(
        server(inside(unread), inside(meant)).run(**expect(query=query)), "patch-not-imported"
    )
    assert (finding.pids, text(finding.remedy)) == ((110, 111), remedy)
    assert f"did you mean {QUERY}" in evidence(finding)


@pytest.mark.parametrize(
    ("found", "source", "says", "remedy"),
    [
        (
            function("my_kernels", ORIGINAL_FILE, globals_file=PATCH_FILE),
            "my_kernels",
            f"its code is of {ORIGINAL_FILE}, the namespace that it runs in of {PATCH_FILE}",
            "Expect the path of its file",
        ),
        (
            holder("srv.Called", ORIGINAL, "type.__call__"),
            "my_kernels",
            "an object of type srv.Called may call whatever it keeps",
            "Read its code",
        ),
        (
            function("__main__", "/opt/my_kernels.py"),
            "my_kernels",
            "it runs as __main__, and may be my_kernels",
            "Expect the path of its file",
        ),
        (
            ClassFact("my_kernels", "Backend", "type", PATCH_FILE, (ORIGINAL_FILE,)),
            "my_kernels",
            f"it names my_kernels ({PATCH_FILE}) as its module, its methods are of {ORIGINAL_FILE}",
            "Expect the path of its file",
        ),
    ],
)
def test_what_contradicts_itself_is_unknown(
    found: Any, source: str, says: str, remedy: str
) -> None:
    scene = server(inside(holds(found)))
    finding = one(scene.run(**expect(source)), "patch-unknown")
    assert (finding.pids, finding.undetermined) == ((110,), True)
    assert says in text(finding.message)
    assert remedy in text(finding.remedy)
    assert slugs(scene.run(**expect(source))) == {"patch-unknown"}


def test_not_imported_is_neither_patched_nor_unpatched() -> None:
    scene = server(PATCHED, NOT_YET, NOT_YET)
    result = scene.run(**expect())
    finding = one(result, "patch-not-imported")
    assert (finding.pids, finding.undetermined) == ((111, 112), True)
    assert "srv.backend is not imported" in text(finding.message)
    assert "--wait" in text(finding.remedy)
    assert slugs(result) == {"patch-not-imported"}
    assert exit_of(scene, **expect()) is Exit.UNDETERMINED
    accepted = {"allow_unknown": {"patch-not-imported": "lazy"}, **expect()}
    assert exit_of(scene, **accepted) is Exit.HOLDS


def test_a_module_that_is_being_imported_may_still_be_patched() -> None:
    importing = holds(ORIGINAL)
    assert importing.module is not None
    module = dataclasses.replace(importing.module, initializing=True)
    scene = server(inside(dataclasses.replace(importing, module=module)))
    assert slugs(scene.run(**expect())) == {"patch-not-imported"}
    done = dataclasses.replace(holds(PATCH), module=module)
    assert scene.change(110, inside=inside(done)).run(**expect()).findings == ()


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (None, "its interpreter was not read in this scan"),
        (inside(), "it was not asked in this scan"),
        (inside(no_answer(AnswerState.UNREADABLE, "swapped out")), "swapped out"),
        (inside(no_answer(AnswerState.CHANGING)), "changed at each attempt"),
        (Inside(PythonState.NO_PYTHON), "runs no Python"),
        (Inside(PythonState.UNREADABLE, reason="not permitted"), "not permitted"),
        (Inside(PythonState.UNKNOWN_BUILD), "build of Python is not known"),
        (inside(holds(function(BACKEND, "<string>"))), "made at run time (<string>)"),
    ],
)
def test_what_was_not_read_is_never_called_unpatched(found: Inside | None, says: str) -> None:
    scene = server(PATCHED, found)
    finding = one(scene.run(**expect()), "patch-unknown")
    assert (finding.pids, finding.undetermined) == ((111,), True)
    assert says in text(finding.message)
    assert text(finding.remedy)
    assert not of(scene.run(**expect()), "patch-missing")
    assert exit_of(scene, **expect()) is Exit.UNDETERMINED


def test_a_patch_that_a_stranger_wraps_may_or_may_not_run() -> None:
    wrapped = wrapping(function("tracer", "/venv/tracer.py", 3, "probe"), PATCH)
    finding = one(server(inside(holds(wrapped))).run(**expect()), "patch-unknown")
    said = text(finding.message)
    assert "it holds tracer.probe (/venv/tracer.py:3), which holds my_kernels.attn.extend" in said


def test_a_stranger_that_wraps_what_cannot_be_read_may_run_the_patch() -> None:
    hiding = holder("srv.Called", ORIGINAL, "type.__call__")
    wrapped = wrapping(function("tracer", "/venv/tracer.py", 3, "probe"), hiding)
    scene = server(inside(holds(wrapped)))
    assert one(scene.run(**expect()), "patch-unknown").pids == (110,)
    own = wrapping(ORIGINAL, hiding, "closure variable helper")
    assert slugs(server(inside(holds(own))).run(**expect())) == {"patch-missing"}


def test_questions_with_one_reason_are_one_finding() -> None:
    scene = server(None, None)
    patches = (*expect()["patches"], *expect(query=f"{BACKEND}:other")["patches"])
    finding = one(scene.run(patches=patches), "patch-unknown")
    assert finding.pids == (110, 111)
    assert f"{QUERY} and {BACKEND}:other" in text(finding.message)


def test_without_an_expectation_nothing_is_said_of_attributes() -> None:
    scene = server(UNPATCHED, PATCHED, NOT_YET)
    assert not slugs(scene.run()).intersection(INSIDE_CHECKS)


def test_helpers_are_not_spoken_of_unless_their_role_is_named() -> None:
    scene = server(PATCHED).add(120, ROOT, role=Role("detokenizer", "sglang"))
    scene.change(120, inside=UNPATCHED)
    assert scene.run(**expect()).findings == ()
    finding = one(scene.run(**expect(role="detokenizer")), "patch-missing")
    assert finding.pids == (120,)


def test_a_role_that_no_process_has_leaves_it_open() -> None:
    scene = server(PATCHED)
    finding = one(scene.run(**expect(role="detokenizer")), "patch-unknown")
    assert (finding.pids, finding.undetermined) == ((), True)
    assert "no process of the scan has the role detokenizer" in text(finding.message)
    assert exit_of(scene, **expect(role="detokenizer")) is Exit.UNDETERMINED


def test_a_finding_can_be_ignored_and_an_unknown_cannot() -> None:
    scene = server(UNPATCHED, NOT_YET)
    ignore = {"patch-missing": "ticket", "patch-not-imported": "x"}
    result = scene.run(ignore=ignore, **expect())
    assert [finding.check for finding, _ in result.ignored] == ["patch-missing"]
    assert slugs(result) == {"patch-not-imported"}


@pytest.mark.parametrize(
    ("found", "open_"),
    [
        (PATCHED, False),
        (UNPATCHED, False),
        (NOT_YET, True),
        (None, True),
        (inside(no_answer(AnswerState.CHANGING)), True),
        # Another scan would find the same.
        (inside(holds(function(BACKEND, "<string>"))), False),
    ],
)
def test_waiting_goes_on_while_another_scan_may_tell(found: Inside | None, open_: bool) -> None:
    seen = progress(server(PATCHED, found).context(**expect()))
    assert seen.undecided == ((QUERY,) if open_ else ())
    assert seen.decided is not open_


def test_waiting_goes_on_for_a_role_that_is_not_there() -> None:
    seen = progress(server(PATCHED).context(**expect(role="detokenizer")))
    assert seen.undecided == (QUERY,)
