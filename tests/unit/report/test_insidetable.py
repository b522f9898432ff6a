"""The table of hooks and patched attributes: its rows, its columns, and what each mark says."""

from __future__ import annotations

import dataclasses
from typing import Any

from envprobe.model import Role
from envprobe.pythonfacts import AnswerState, DiskState, FileFact, Inside, PythonState
from envprobe.report import insidetable, text
from envprobe.report.matrix import Matrix
from envprobe.report.model import Presentation
from tests.unit.checks.insides import (
    HOOK_FILE,
    ORIGINAL,
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
from tests.unit.checks.scene import ROOT, Scene, sglang
from tests.unit.report.sample import report

NAME = "Backend.extend"
PLACE = f"my_kernels.attn.extend ({PATCH_FILE}:12)"
OTHER = "srv.backend.Backend.extend (/venv/srv/backend.py:7)"
PATCHED = inside(holds(PATCH))


def table(scene: Scene, **config: Any) -> Matrix:
    context = scene.context(**config)
    (launch,) = context.routing.launches
    return insidetable.build(context, launch)


def cells(found: Matrix) -> dict[str, dict[str, str]]:
    heads = [column.label for column in found.columns]
    return {row.name: dict(zip(heads, row.marks, strict=True)) for row in found.rows}


def row(found: Matrix, name: str) -> tuple[object, list[tuple[str, object]]]:
    (one,) = (one for one in found.rows if one.name == name)
    return one.value, list(one.others)


def test_workers_that_have_the_same_are_one_column() -> None:
    found = table(put(sglang(8), *[PATCHED] * 8).change(ROOT, inside=inside()), **expect())
    assert cells(found) == {
        "sitecustomize": {"server": "=", "TP0-TP7": "="},
        NAME: {"server": ".", "TP0-TP7": "="},
    }
    assert row(found, "sitecustomize") == (HOOK_FILE, [])
    assert row(found, NAME) == (PLACE, [])


def test_the_unpatched_worker_stands_alone_and_says_what_it_holds() -> None:
    unpatched = inside(holds(ORIGINAL), hooks=(no_hook(),))
    found = table(put(sglang(3), PATCHED, unpatched, PATCHED), **expect())
    assert cells(found) == {
        "sitecustomize": {"server": ".", "TP0, TP2": "=", "TP1": "-"},
        NAME: {"server": ".", "TP0, TP2": "=", "TP1": "a"},
    }
    assert row(found, NAME) == (PLACE, [("a", f"{OTHER}, not from my_kernels")])


def test_the_right_place_is_the_reference_even_if_most_have_another() -> None:
    unpatched = inside(holds(ORIGINAL))
    found = table(put(sglang(3), unpatched, PATCHED, unpatched), **expect())
    assert row(found, NAME)[0] == PLACE
    nobody = table(put(sglang(1), unpatched), **expect())
    assert row(nobody, NAME)[0] == "(from my_kernels)"
    assert cells(nobody)[NAME]["TP0"] == "a"
    debian = hook("/usr/lib/python3.11/sitecustomize.py")
    other = put(sglang(1), inside(hooks=(debian,)))
    assert row(table(other, **expect_hook()), "sitecustomize")[0] == HOOK_FILE
    assert cells(table(other, **expect_hook()))["sitecustomize"]["TP0"] == "a"
    assert cells(table(other))["sitecustomize"]["TP0"] == "="


def test_what_was_not_read_never_looks_like_not_loaded() -> None:
    found = table(
        put(
            sglang(5),
            PATCHED,
            inside(no_answer(AnswerState.NOT_IMPORTED)),
            inside(no_answer(AnswerState.UNREADABLE), hooks=(no_hook(),)),
            inside(no_answer(AnswerState.CHANGING)),
            Inside(PythonState.NO_PYTHON),
        ),
        **expect(),
    )
    marks = cells(found)
    assert [marks[NAME][f"TP{rank}"] for rank in range(5)] == ["=", "*", "?", "~", "."]
    assert [marks["sitecustomize"][f"TP{rank}"] for rank in range(5)] == ["=", "=", "-", "=", "."]


def test_a_row_that_nobody_can_fill_says_why() -> None:
    waiting = inside(no_answer(AnswerState.NOT_IMPORTED), hooks=(no_hook(),))
    found = table(put(sglang(1), waiting), patches=())
    assert row(found, "sitecustomize")[0] == "(not loaded)"
    assert row(found, NAME)[0] == "(not imported yet)"


def test_a_stale_file_is_marked() -> None:
    stale = inside(holds(PATCH), files=(FileFact(PATCH_FILE, DiskState.CHANGED, 4000.0),))
    marks = cells(table(put(sglang(2), PATCHED, stale), **expect()))
    assert marks[NAME] == {"server": ".", "TP0": "=", "TP1": "=!"}
    assert marks["sitecustomize"]["TP1"] == "="


def test_what_may_be_a_patch_says_so() -> None:
    doubtful = inside(holds(function("srv.backend", "<string>", 1)))
    found = table(put(sglang(2), PATCHED, doubtful), **expect())
    ((letter, said),) = row(found, NAME)[1]
    assert (letter, str(said).endswith(", perhaps not from my_kernels")) == ("a", True)


def test_usercustomize_is_a_row_where_it_is_loaded_or_expected() -> None:
    scene = put(sglang(1), inside())
    assert "usercustomize" not in cells(table(scene))
    assert "usercustomize" in cells(table(scene, **expect_hook("/u.py", "usercustomize")))
    loaded = put(sglang(1), inside(hooks=(hook("/u.py", "usercustomize"),)))
    assert cells(table(loaded))["usercustomize"]["TP0"] == "="


def test_questions_of_saved_facts_are_rows_without_an_expectation() -> None:
    assert cells(table(put(sglang(1), PATCHED)))[NAME] == {"server": ".", "TP0": "="}


def test_questions_that_end_alike_are_told_apart() -> None:
    one, two = holds(PATCH, "srv.a:Backend.extend"), holds(ORIGINAL, "srv.b:Backend.extend")
    found = cells(table(put(sglang(1), inside(one, two, holds(PATCH, "srv.c:f")))))
    assert set(found) == {"sitecustomize", one.query, two.query, "f"}


def test_a_path_of_kilobytes_is_cut_in_the_middle() -> None:
    scene = put(sglang(1), inside(hooks=(hook("/opt/" + "x" * 40_000 + "/sitecustomize.py"),)))
    shown = text.render(report(scene), Presentation(width=80))
    assert len(shown) < 4000
    assert "(40022characters)" in "".join(shown.split())
    assert "/sitecustomize.py" in shown


def test_a_role_is_a_column_when_it_is_spoken_of() -> None:
    scene = put(sglang(1), PATCHED).add(120, ROOT, role=Role("detokenizer", "sglang"))
    scene.change(120, inside=PATCHED)
    assert "detokenizer" not in cells(table(scene, **expect()))[NAME]
    assert cells(table(scene, **expect(role="detokenizer")))[NAME]["detokenizer"] == "="


def test_without_any_interpreter_there_is_no_table() -> None:
    assert table(sglang(2), **expect()).rows == ()


def test_the_table_as_text_with_its_legend() -> None:
    stale = FileFact(HOOK_FILE, DiskState.CHANGED, 4000.0)
    scene = put(
        sglang(2),
        PATCHED,
        dataclasses.replace(inside(holds(ORIGINAL)), files={HOOK_FILE: stale}),
    )
    shown = text.render(report(scene, **expect()), Presentation(width=100))
    lines = shown.splitlines()
    head = next(n for n, line in enumerate(lines) if line.startswith("inside"))
    assert lines[head].split() == ["inside", "loaded", "from", "server", "TP0", "TP1"]
    assert lines[head + 1].split()[-4:] == [HOOK_FILE, ".", "=", "=!"]
    assert lines[head + 2].split()[-3:] == [".", "=", "a"]
    below = " ".join(" ".join(lines[head + 3 :]).split())
    assert f"a: {NAME} is {OTHER}, not from my_kernels" in below
    assert "= what the second column says; . not asked for; ! its file was changed after" in below
    assert "1 expectation checked" not in shown


def test_a_hostile_path_stays_one_printable_line() -> None:
    scene = put(sglang(1), inside(hooks=(hook("/opt/\x1b[31m\n::error::x/sitecustomize.py"),)))
    shown = text.render(report(scene), Presentation(width=80))
    assert "\x1b" not in shown
    assert not any(line.lstrip().startswith("::") for line in shown.splitlines())
