"""The JSON report: valid against the shipped schema, ASCII, and nothing secret in it."""

from __future__ import annotations

import base64
import dataclasses
import enum
import json
from typing import Any

import jsonschema
import pytest

from envprobe import factsfile, tables
from envprobe.errors import TargetGoneError
from envprobe.model import (
    BlockState,
    Carries,
    EdgeKind,
    EnvironmentStatus,
    Role,
    State,
    Vanished,
    View,
)
from envprobe.ncclfacts import LogState
from envprobe.pythonfacts import (
    Answer,
    AnswerState,
    Datum,
    Inside,
    Kind,
    PythonFact,
    PythonState,
)
from envprobe.report import document, failure
from envprobe.report.model import Presentation, Report
from envprobe.routes.types import CauseId, Change, NcclCauseId, ReadTime
from envprobe.values import Value
from tests.unit.checks.scene import Scene, libc_view, refused, sglang, worker
from tests.unit.report.sample import joined, report

HEALTHY = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"}
SCHEMA = tables.load("report.schema")


def parsed(made: Report, **presentation: bool) -> Any:
    shown = document.render(made, Presentation(**presentation))
    assert shown.isascii()
    assert shown.endswith("}\n")
    assert not [one for one in shown if one != "\n" and not " " <= one <= "~"]
    found = json.loads(shown)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    return found


def variable(found: Any, name: str) -> dict[int, Any]:
    (one,) = [one for one in found["scans"][0]["variables"] if one["name"] == name]
    return {reading["pid"]: reading["views"]["libc"] for reading in one["readings"]}


def test_the_schema_is_one_and_knows_every_word_of_the_model() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    words: dict[str, type[enum.Enum]] = {
        "reading.state": State,
        "environment.status": EnvironmentStatus,
        "environment.block": BlockState,
        "edge.kind": EdgeKind,
        "edge.carries": Carries,
        "break.change": Change,
        "cause.id": CauseId,
        "nccl_cause.id": NcclCauseId,
        "nccl_log.state": LogState,
        "route.read_time": ReadTime,
    }
    for place, kind in words.items():
        definition, _, field = place.partition(".")
        stated = SCHEMA["$defs"][definition]["properties"][field]["enum"]
        assert set(stated) == {one.value for one in kind}, place
    assert set(SCHEMA["$defs"]["environments"]["propertyNames"]["enum"]) == {v.value for v in View}


def test_each_worker_has_its_reading_in_each_view_with_its_source() -> None:
    found = parsed(report(worker(sglang(2, server=HEALTHY), 111, {"NCCL_ALGO": "Tree"})))
    readings = variable(found, "NCCL_ALGO")
    assert readings[110]["value"] == {"text": "Ring"}
    assert readings[111]["value"] == {"text": "Tree"}
    assert readings[111]["source"] == "C environ"
    assert variable(found, "NCCL_PROTO")[111] == {
        "state": "absent",
        "source": "C environ",
        "confidence": "proved",
    }


def test_what_was_read_inside_a_worker_is_there_and_harmless() -> None:
    token = Answer(
        "pkg:API_TOKEN", AnswerState.VALUE, Kind.VALUE, value=Datum("str", Value(b"hunter2"))
    )
    hook = Answer("sitecustomize", AnswerState.UNREADABLE, reason="a\x1b[31m")
    python = PythonFact("3.11.7", "release", "known", path=("/lib", "plugins"))
    inside = Inside(PythonState.READ, python, (hook,), (token,))
    found = parsed(report(sglang(2).change(110, inside=inside)))
    first, second = [one for one in found["scans"][0]["processes"] if one["role"]["worker"]]
    assert first["inside"]["state"] == "read"
    assert first["inside"]["python"]["path"] == [
        {"entry": "/lib", "resolved": "/lib"},
        {"entry": "plugins", "resolved": "/srv/plugins"},
    ]
    assert first["inside"]["answers"][0]["value"] == {"kind": "str", "masked": 7}
    assert "inside" not in second


def test_a_break_names_its_stops_and_every_cause() -> None:
    found = parsed(report(worker(sglang(2, server=HEALTHY), 111, {"NCCL_ALGO": "Ring"}, {})))
    (route,) = [
        one
        for one in found["scans"][0]["routes"]
        if (one["pid"], one["name"]) == (111, "NCCL_PROTO")
    ]
    (broken,) = route["breaks"]
    before, after = route["stops"][broken["before"]], route["stops"][broken["after"]]
    assert before["reading"]["state"] == "value"
    assert after["reading"]["state"] == "absent"
    assert broken["causes"]
    assert all(cause["sentence"] for cause in broken["causes"])


def test_findings_have_id_process_variable_and_verdict() -> None:
    found = parsed(report(worker(sglang(2, server=HEALTHY), 111, {}), "NCCL_PROTO=Simple"))
    (finding,) = [one for one in found["scans"][0]["findings"] if one["check"] == "env-missing"]
    assert (finding["id"], finding["pids"], finding["variable"]) == ("EP003", [111], "NCCL_PROTO")
    assert found["verdict"]["exit"] == 1
    assert found["verdict"]["counts"] == found["scans"][0]["verdict"]["counts"]
    assert found["expectations"][0]["values"] == [{"text": "Simple"}]


def test_unreadable_is_no_absence_and_is_counted_apart() -> None:
    scene = sglang(2, server=HEALTHY)
    environments = {**scene.processes[111].environments, View.LIBC: refused(View.LIBC)}
    found = parsed(report(scene.change(111, environments=environments)))
    reading = variable(found, "NCCL_ALGO")[111]
    assert reading == {"state": "unreadable", "reason": "not permitted", "remedy": "Run as root."}
    assert found["verdict"]["exit"] == 3
    assert found["verdict"]["counts"]["undetermined"] > 0
    accepted = parsed(report(scene, allow_unknown={"worker-unreadable": "known"}))
    (finding,) = [one for one in accepted["scans"][0]["findings"] if one["undetermined"]]
    assert finding["accepted"] is True


def test_bytes_that_are_no_utf8_survive_as_base64() -> None:
    raw = b"\xff\x00\x1b[2J"
    found = parsed(report(sglang(1, server={"NCCL_ALGO": raw})))
    assert base64.b64decode(variable(found, "NCCL_ALGO")[110]["value"]["base64"]) == raw


def test_names_that_are_no_text_are_escaped_and_their_bytes_given() -> None:
    name = b"NCCL_\xff\x1b".decode("utf-8", "surrogateescape")
    found = parsed(report(sglang(1, server={name: "1"})))
    (one,) = found["scans"][0]["variables"]
    assert one["name"] == '"NCCL_\\xff\\x1b"'
    assert base64.b64decode(one["name_base64"]) == b"NCCL_\xff\x1b"


def test_a_cut_value_says_so() -> None:
    scene = sglang(1, server=HEALTHY)
    view = libc_view({})
    view.entries["NCCL_ALGO"] = Value(b"abc", length=5_000_000, digest="0")
    scene.change(110, environments={**scene.processes[110].environments, View.LIBC: view})
    reading = variable(parsed(report(scene)), "NCCL_ALGO")[110]
    assert reading["value"] == {"text": "abc", "length": 5_000_000, "truncated": True}


def test_credentials_are_a_length_everywhere_unless_asked_for() -> None:
    scene = sglang(2, server={"HF_TOKEN": "topsecret", "VLLM_URL": "http://u:topsecret@h/"})
    worker(scene, 111, {"HF_TOKEN": "another1!"})
    scene.change(100, title=("python3", "--api-key", "topsecret"))
    made = report(scene, "HF_TOKEN=topsecret")
    assert "topsecret" not in document.render(made, Presentation(show_all=True))
    found = parsed(made)
    readings = variable(found, "HF_TOKEN")
    # Equal lengths, other values: the masks say nothing, the finding does.
    assert readings[110]["value"] == readings[111]["value"] == {"masked": 9}
    assert "env-wrong-value" in {one["check"] for one in found["scans"][0]["findings"]}
    assert variable(parsed(made, unmask=True), "HF_TOKEN")[110]["value"] == {"text": "topsecret"}


def test_what_a_facts_file_has_masked_stays_masked() -> None:
    scene = sglang(2, server={"NCCL_X": "http://u:topsecret@h/"})
    again = factsfile.loads(factsfile.dumps(scene.snapshot()).encode())
    restored = Scene({process.pid: process for process in again.processes})
    found = parsed(report(restored), unmask=True)
    assert variable(found, "NCCL_X")[110]["value"] == {"masked": 21}


def hostile() -> Scene:
    evil = "\x1b]0;x\x07\n::error::\u2028\u202e\udcff\U0001f600"
    scene = sglang(2, server={f"NCCL_{evil}": evil.encode("utf-8", "surrogateescape")})
    scene.add(300, 100, title=(evil,), comm=evil, exe=evil, cwd=evil, role=Role(evil, evil))
    scene.fields["notes"] = (evil,)
    scene.fields["host"] = evil
    scene.fields["vanished"] = (Vanished(301, Role(""), (evil,)),)
    return scene


@pytest.mark.parametrize(
    "made",
    [
        report(sglang(0)),
        report(sglang(3, server=HEALTHY, wipe=True), "NCCL_ALGO=Tree", "!NCCL_PROTO", "X"),
        report(hostile()),
        joined(report(sglang(1)), report(hostile())),
        report(worker(sglang(2, server=HEALTHY), 110, {}), ignore={"peers-differ-critical": "why"}),
    ],
    ids=["nobody", "wiped", "hostile", "joined", "ignored"],
)
@pytest.mark.parametrize("show_all", [False, True])
def test_every_report_is_valid(made: Report, show_all: bool) -> None:
    found = parsed(made, show_all=show_all)
    assert found["verdict"]["exit"] == made.exit


def test_exit_zero_changes_nothing_but_says_so() -> None:
    made = report(worker(sglang(2, server=HEALTHY), 111, {}), "NCCL_PROTO=Simple")
    plain, only = parsed(made), parsed(dataclasses.replace(made, exit_zero=True))
    assert plain["verdict"]["exit_zero"] is False
    assert only["verdict"] == {**plain["verdict"], "exit_zero": True}
    assert only["verdict"]["exit"] == 1


def test_an_error_is_a_document_of_its_own_that_no_reader_takes_for_a_report() -> None:
    error = TargetGoneError("there is no process 7\nu://a:topsecret@h \x1b[2J", "Look it up.")
    shown = failure.render(error, "json")
    assert shown.isascii()
    found = json.loads(shown)
    validator = jsonschema.Draft202012Validator(SCHEMA)
    validator.validate(found)
    assert found["verdict"]["exit"] == 4
    assert found["error"]["message"].startswith("there is no process 7 <masked>")
    assert found["error"]["remedy"] == "Look it up."
    report_ = parsed(report(sglang(1)))
    for bad in (
        {**report_, **found},
        {**found, "scans": []},
        {**report_, "verdict": found["verdict"]},
    ):
        assert not validator.is_valid(bad)
    assert failure.render(error, "text") == (
        "NO REPORT: there is no process 7 <masked> \\x1b[2J (exit 4). Look it up.\n"
    )
