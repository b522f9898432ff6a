"""Verdicts on logs of real communicators on two GPUs, against what the runs really did.

The logs and what each rank was given are of scripts/nccl_gpu.py; tests/data/nccl/gpu/cases.json
says on which machine.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from envprobe.checks.nccl import cells
from envprobe.checks.nccl.cells import Shown
from envprobe.errors import Exit
from envprobe.nccl.values import interpret
from envprobe.report.nccl_model import Report
from tests.unit.checks.nccl.judging import NOW, judged, said, told

DATA = Path(__file__).resolve().parents[1] / "data" / "nccl" / "gpu"
CASES: list[dict[str, Any]] = json.loads((DATA / "cases.json").read_text("utf-8"))["cases"]
CRITICAL = "nccl-ranks-differ-critical"
QUIET = ("nccl-failure", "nccl-not-completed")
"""What a run that failed has besides: its warnings, and communicators that never were made."""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpu")
    with tarfile.open(DATA / "logs.tar.gz") as archive:
        for member in archive.getmembers():
            found = archive.extractfile(member)
            assert found is not None
            (folder / member.name).write_bytes(found.read())
    return folder


def named(part: str) -> list[dict[str, Any]]:
    return [case for case in CASES if part in case["case"]]


def is_equal(case: dict[str, Any]) -> bool:
    return all(one == case["given"][0] for one in case["given"])


def judge(logs: Path, case: dict[str, Any], *, expect: bool = True) -> Report:
    given = case["given"][0] if expect and is_equal(case) else {}
    path = str(logs / f"{case['case']}.log")
    return judged(path, *(f"{name}={text}" for name, text in given.items()), files={})


def loud(report: Report) -> list[tuple[str, str, str]]:
    return [one for one in told(report) if one[0] not in QUIET]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_each_rank_shows_what_it_was_given_and_nothing_else(
    logs: Path, case: dict[str, Any]
) -> None:
    report = judge(logs, case, expect=False)
    communicators = report.context.log.communicators
    assert [len(one.ranks) for one in communicators] == [len(case["given"])]
    for rank in communicators[0].ranks:
        given = case["given"][rank.rank]
        names = {name for one in case["given"] for name in one}
        for name in names:
            cell = cells.cell(report.context, communicators[0], rank, name)
            printed = interpret(name, given[name], NOW).printed if name in given else None
            shown = None if cell.value is None else cell.value.reveal().decode()
            assert shown == printed, (rank.rank, name)
            lacking = name not in given and not is_equal(case)
            assert (cell.shown is Shown.LACKING) == lacking, (rank.rank, name)


@pytest.mark.parametrize("case", named("-equal") + named("-plain"), ids=lambda case: case["case"])
def test_ranks_that_agree_have_no_finding(logs: Path, case: dict[str, Any]) -> None:
    report = judge(logs, case)
    assert (case["outcome"], told(report), report.verdict.exit) == ("right", [], Exit.HOLDS)


@pytest.mark.parametrize(
    "case", named("-differs") + named("-one-lacks"), ids=lambda case: case["case"]
)
def test_ranks_that_differ_are_named_whatever_came_of_it(logs: Path, case: dict[str, Any]) -> None:
    report = judge(logs, case)
    (name,) = {name for one in case["given"] for name in one}
    # Between nodes there is nothing that the level could decide.
    level_over_sockets = case["case"] == "socket-p2p_level-differs"
    check = "nccl-ranks-differ" if level_over_sockets else CRITICAL
    (found,) = (one for one in report.result.findings if one.check == check)
    assert found.variable == name
    for number, given in enumerate(case["given"]):
        if name not in given:
            assert f"not read in rank {number}." in said(found)
    assert level_over_sockets or report.verdict.exit is Exit.FINDING
    assert not level_over_sockets or (case["outcome"], report.verdict.exit) == ("right", Exit.HOLDS)


@pytest.mark.parametrize(
    ("case", "findings"),
    [
        ("p2p-suffix", [("nccl-value-misread", "error", "NCCL_BUFFSIZE")]),
        ("p2p-lower-case-level", [("nccl-value-refused", "error", "NCCL_P2P_LEVEL")]),
        ("p2p-level-number", []),
        ("p2p-bad-multiple", [("nccl-value-misread", "error", "NCCL_NTHREADS")]),
        ("p2p-unknown-word", [("nccl-value-refused", "error", "NCCL_ALGO")]),
        ("p2p-excluded", []),
        ("p2p-forced-ll128", []),
        ("p2p-one-function", []),
        ("p2p-misspelt", [("nccl-unread-name", "error", "NCCL_BUFSIZE")]),
        ("p2p-empty", [("nccl-value-odd", "warning", "NCCL_ALGO")]),
        ("socket-buffered", []),
    ],
)
def test_values_that_are_not_what_they_look_like(
    logs: Path, case: str, findings: list[tuple[str, str, str]]
) -> None:
    (run,) = named(case)
    assert loud(judge(logs, run)) == findings


def test_without_knowing_what_was_given_the_crash_of_a_suffix_is_found(logs: Path) -> None:
    (run,) = named("p2p-suffix")
    assert run["outcome"] == "crash"
    report = judge(logs, run, expect=False)
    assert loud(report) == [("nccl-value-refused", "error", "NCCL_BUFFSIZE")]


def test_no_run_that_went_wrong_passes(logs: Path) -> None:
    for case in CASES:
        if case["outcome"] != "right":
            report = judge(logs, case, expect=False)
            assert report.verdict.exit is Exit.FINDING, case["case"]
