"""Two reports compared: by role and rank, and what cannot be told is no equality."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envprobe import diff, tables
from envprobe.diff import Comparison, Document, Kind
from envprobe.errors import Exit, UsageError
from envprobe.model import Role, View
from envprobe.report import comparison, document
from envprobe.report.model import Presentation
from envprobe.report.pretty import SCHEMA_VERSION
from tests.unit.checks.scene import Scene, refused, sglang, worker
from tests.unit.report.sample import joined, report

ENV = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple", "SGLANG_RUN_ID": "one"}
TOKEN = "hf_aBcDeFgHiJkLmNoPqRsT"


def loaded(scene: Scene, folder: Path, *expect: str, unmask: bool = False) -> Document:
    path = folder / "report.json"
    path.write_text(document.render(report(scene, *expect), Presentation(unmask=unmask)))
    return diff.load(str(path), SCHEMA_VERSION)


def compared(one: Scene, other: Scene, folder: Path, **options: Any) -> Comparison:
    return diff.compare(loaded(one, folder), loaded(other, folder), **options)


def told(found: Comparison) -> set[tuple[str, str, str, bool]]:
    return {(one.subject, one.before, one.after, one.unknown) for one in found.differences}


def renumbered(scene: Scene) -> str:
    """Return the report of the same server under other numbers of processes."""
    text = document.render(report(scene), Presentation())
    for pid in sorted(scene.processes):
        text = text.replace(str(pid), str(pid + 7000))
    return text


def test_the_same_server_started_again_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(renumbered(sglang(4, server={**ENV, "SGLANG_RUN_ID": "two"})))
    other = diff.load(str(path), SCHEMA_VERSION)
    found = diff.compare(loaded(sglang(4, server=ENV), tmp_path), other)
    assert found.exit is Exit.HOLDS, told(found)
    assert found.left_out == {"SGLANG_RUN_ID": "each start has its own"}
    assert found.compared >= 2
    every = diff.compare(loaded(sglang(4, server=ENV), tmp_path), other, every=True)
    assert every.exit is Exit.FINDING
    assert {one.subject for one in every.differences} >= {"SGLANG_RUN_ID in scheduler TP3"}


def test_a_value_is_told_with_its_rank(tmp_path: Path) -> None:
    scene = sglang(2, server=ENV)
    other = worker(sglang(2, server=ENV), 111, {**ENV, "NCCL_ALGO": "Tree"})
    found = compared(scene, other, tmp_path)
    assert found.exit is Exit.FINDING
    assert ("NCCL_ALGO in scheduler TP1", "Ring", "Tree", False) in told(found)
    kinds = {one.kind for one in found.differences}
    assert kinds == {Kind.VARIABLE, Kind.FINDING}
    (new,) = [
        one for one in found.differences if "peers-differ" in one.subject and "ALGO" in one.subject
    ]
    assert new.before == "not found"
    assert new.after.startswith("found: NCCL_ALGO")


def test_a_worker_that_is_missing_is_a_difference(tmp_path: Path) -> None:
    found = compared(sglang(3, server=ENV), sglang(2, server=ENV), tmp_path)
    assert ("scheduler TP2", "there", "gone", False) in told(found)
    assert found.exit is Exit.FINDING


def test_workers_of_the_same_name_are_told_apart_by_their_order(tmp_path: Path) -> None:
    def both(value: str) -> Document:
        first, second = sglang(1, server=ENV), sglang(1, server={**ENV, "NCCL_ALGO": value})
        path = tmp_path / "both.json"
        made = joined(report(first), report(second))
        path.write_text(document.render(made, Presentation()))
        return diff.load(str(path), SCHEMA_VERSION)

    assert diff.compare(both("Ring"), both("Ring")).exit is Exit.HOLDS
    found = diff.compare(both("Ring"), both("Tree"))
    assert ("NCCL_ALGO in scheduler TP0 (2)", "Ring", "Tree", False) in told(found)


def test_how_many_helpers_there_are_is_no_difference(tmp_path: Path) -> None:
    def helpers(*pids: int) -> Scene:
        scene = sglang(2, server=ENV)
        for pid in pids:
            scene.add(pid, 110, role=Role("compile worker", "torch"), exec=ENV)
        return scene

    assert compared(helpers(300), helpers(300, 301, 302), tmp_path).exit is Exit.HOLDS
    found = compared(helpers(300), helpers(), tmp_path)
    assert told(found) == {("compile worker", "there", "gone", False)}


def test_absent_and_unread_are_not_the_same(tmp_path: Path) -> None:
    without = {name: text for name, text in ENV.items() if name != "NCCL_ALGO"}
    found = compared(sglang(2, server=ENV), sglang(2, server=without), tmp_path)
    assert ("NCCL_ALGO in scheduler TP1", "Ring", "absent", False) in told(found)
    scene = sglang(2, server=ENV)
    environments = {**scene.processes[111].environments, View.LIBC: refused(View.LIBC)}
    other = scene.change(111, environments=environments)
    unread = compared(sglang(2, server=ENV), other, tmp_path)
    assert ("NCCL_ALGO in scheduler TP1", "Ring", "unreadable", True) in told(unread)


def test_a_name_that_was_not_asked_for_is_no_absence(tmp_path: Path) -> None:
    scene = sglang(2, server={**ENV, "MY_OWN": "1"})
    one = loaded(scene, tmp_path, "MY_OWN=1")
    found = diff.compare(one, loaded(sglang(2, server=ENV), tmp_path))
    assert ("MY_OWN in scheduler TP0", "1", "not_asked", True) in told(found)
    assert found.exit is Exit.UNDETERMINED


def test_masked_values_are_never_equal_by_their_masks(tmp_path: Path) -> None:
    def scene(token: str) -> Scene:
        return sglang(2, server={"HF_TOKEN": token})

    found = compared(scene(TOKEN), scene(TOKEN[::-1]), tmp_path)
    assert found.exit is Exit.UNDETERMINED
    assert all(one.unknown and "masked" in one.before for one in found.differences)
    longer = compared(scene(TOKEN), scene(TOKEN + "x"), tmp_path)
    assert longer.exit is Exit.FINDING
    half = diff.compare(loaded(scene(TOKEN), tmp_path), loaded(scene(TOKEN), tmp_path, unmask=True))
    assert half.exit is Exit.UNDETERMINED
    both = diff.compare(
        loaded(scene(TOKEN), tmp_path, unmask=True), loaded(scene(TOKEN), tmp_path, unmask=True)
    )
    assert both.exit is Exit.HOLDS
    ignored = compared(scene(TOKEN), scene(TOKEN[::-1]), tmp_path, ignore=("HF_*",))
    assert ignored.exit is Exit.HOLDS
    assert ignored.left_out == {"HF_TOKEN": "--ignore HF_*"}
    for made in (found, longer, half):
        assert TOKEN not in comparison.render(made, 80) + comparison.document(made)


def test_a_value_that_is_no_text_is_compared_by_its_bytes(tmp_path: Path) -> None:
    one, other = (
        sglang(1, server={"NCCL_X": b"\xff\x01"}),
        sglang(1, server={"NCCL_X": b"\xff\x02"}),
    )
    assert compared(one, one, tmp_path).exit is Exit.HOLDS
    found = compared(one, other, tmp_path)
    assert found.exit is Exit.FINDING
    assert any("NCCL_X in scheduler" in one.subject for one in found.differences)


def test_both_forms_say_the_same_and_nothing_breaks_out(tmp_path: Path) -> None:
    hostile = "a\x1b[31m\n::error::x ##[group]"
    found = compared(
        sglang(1, server=ENV), sglang(1, server={**ENV, "NCCL_ALGO": hostile}), tmp_path
    )
    shown = comparison.render(found, 80)
    assert shown.startswith("DIFFERENT: ")
    assert "(exit 1)" in shown.splitlines()[0]
    assert "\x1b" not in shown
    assert not any(line.lstrip().startswith("::") for line in shown.splitlines())
    made = json.loads(comparison.document(found))
    jsonschema.Draft202012Validator(tables.load("diff.schema")).validate(made)
    assert made["verdict"]["different"] == len(made["differences"])
    assert "##[" not in comparison.document(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no JSON document"),
        ("[]", "is no JSON document"),
        ("{}", "is no report of `envprobe workers`"),
        ('{"schema_version": 2, "scans": []}', "has schema_version 2"),
        ('{"schema_version": 1, "error": {}}', "holds the error that ended a run"),
        ('{"schema_version": 1, "scans": [{}]}', "is no report of `envprobe workers`"),
        ('{"schema_version": 1, "scans": [' * 5000, "is no JSON document"),
    ],
)
def test_what_is_no_report_is_wrong_usage(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        diff.load(str(path), SCHEMA_VERSION)
    assert "-o json=FILE" in caught.value.remedy
    with pytest.raises(UsageError, match="there is no such file"):
        diff.load(str(tmp_path / "none"), SCHEMA_VERSION)
