"""Whether each rank read what was expected, and what a log cannot tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from envprobe.errors import Exit
from tests.programs.nccl_ranks import rank, write
from tests.unit.checks.nccl.judging import judged, only, said, told

BASE = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_PROTO": "Simple"}
BUFFER = {**BASE, "NCCL_BUFFSIZE": "8388608."}


def log(folder: Path, *reads: dict[str, str], version: str = "2.28.9+cuda13.0") -> str:
    ranks = [rank(n, len(reads), one, version=version) for n, one in enumerate(reads)]
    return write(folder, ranks)


@pytest.mark.parametrize(
    "expression",
    [
        "NCCL_BUFFSIZE=8388608",
        "NCCL_BUFFSIZE=0x800000",
        "NCCL_BUFFSIZE",
        "NCCL_PROTO=Simple",
        "NCCL_PROTO~=Simple",
        "!NCCL_ALGO",
    ],
)
def test_what_every_rank_read_holds(tmp_path: Path, expression: str) -> None:
    report = judged(log(tmp_path, BUFFER, BUFFER), expression)
    assert (told(report), report.verdict.exit) == ([], Exit.HOLDS)


def test_another_value(tmp_path: Path) -> None:
    report = judged(log(tmp_path, BUFFER, BUFFER), "NCCL_BUFFSIZE=4194304")
    assert told(report) == [("nccl-unexpected-value", "error", "NCCL_BUFFSIZE")]
    assert "all 2 ranks of the log: 8388608" in said(only(report))
    assert "Expected: 4194304" in said(only(report))
    assert report.verdict.exit is Exit.FINDING


def test_present_where_it_should_be_absent(tmp_path: Path) -> None:
    report = judged(log(tmp_path, BUFFER, BUFFER), "!NCCL_PROTO")
    assert told(report) == [("nccl-unexpected-value", "error", "NCCL_PROTO")]


def test_the_rank_that_lacks_it_is_named(tmp_path: Path) -> None:
    report = judged(log(tmp_path, BUFFER, BASE), "NCCL_BUFFSIZE=8388608")
    found = [one for one in report.result.findings if one.check == "nccl-unexpected-value"]
    assert len(found) == 1
    assert "was not read in rank 1 of communicator" in said(found[0])


def test_what_no_rank_shows_is_unknown_with_the_reasons_of_this_log(tmp_path: Path) -> None:
    report = judged(log(tmp_path, BASE, BASE), "NCCL_BUFFSIZE=8388608")
    assert told(report) == [("nccl-not-shown", "unknown", "NCCL_BUFFSIZE")]
    assert report.verdict.exit is Exit.UNDETERMINED


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("NCCL_NET=Socket", "without printing anything"),
        ("NCCL_IB_TIMEOUT=22", "InfiniBand transport is not in use (the network is Socket)"),
        ("NCCL_IB_TIMEOUT=22", "connection to another node only"),
        ("NCCL_IB_TC=106", "send over InfiniBand only"),
        ("NCCL_LAUNCH_MODE=GROUP", "the first rank of the process prints it"),
        ("NCCL_P2P_LEVEL", "a level that NCCL does not know is ignored"),
    ],
)
def test_reasons(tmp_path: Path, expression: str, reason: str) -> None:
    report = judged(log(tmp_path, BASE, BASE), expression)
    assert reason in said(only(report))
    assert only(report).undetermined


def test_the_network_that_was_used_is_said_where_reading_it_prints_nothing(tmp_path: Path) -> None:
    assert "Used in rank 0: network Socket" in said(
        only(judged(log(tmp_path, BASE, BASE), "NCCL_NET=Socket"))
    )


def test_a_log_of_warnings_only_says_so(tmp_path: Path) -> None:
    path = tmp_path / "warn.log"
    path.write_text("\nnode0:1:1 [0] init.cc:1 NCCL WARN something\n", "utf-8")
    report = judged(str(path), "NCCL_PROTO=Simple")
    assert told(report) == [("nccl-no-communicator", "unknown", "")]
    assert report.verdict.exit is Exit.UNDETERMINED


def test_a_lower_case_level_is_refused(tmp_path: Path) -> None:
    report = judged(log(tmp_path, BASE, BASE), "NCCL_P2P_LEVEL=nvl")
    assert told(report) == [("nccl-value-refused", "error", "NCCL_P2P_LEVEL")]
    assert "upper case" in said(only(report))


def test_a_levels_number_is_met_by_its_name(tmp_path: Path) -> None:
    reads = {**BASE, "NCCL_P2P_LEVEL": "PXB"}
    assert told(judged(log(tmp_path, reads, reads), "NCCL_P2P_LEVEL=2")) == []
    report = judged(log(tmp_path, reads, reads), "NCCL_P2P_LEVEL=3")
    assert told(report) == [("nccl-unexpected-value", "error", "NCCL_P2P_LEVEL")]


def test_p2p_disable_of_an_old_version_is_met_by_the_level_it_prints(tmp_path: Path) -> None:
    reads = {**BASE, "NCCL_P2P_LEVEL": "LOC"}
    path = log(tmp_path, reads, reads, version="2.21.5+cuda12.4")
    assert told(judged(path, "NCCL_P2P_DISABLE=1")) == []


def test_a_suffix_is_misread(tmp_path: Path) -> None:
    reads = {**BASE, "NCCL_BUFFSIZE": "8."}
    report = judged(log(tmp_path, reads, reads), "NCCL_BUFFSIZE=8M")
    assert told(report) == [("nccl-value-misread", "error", "NCCL_BUFFSIZE")]
    assert "8M is read as 8 in ranks 0-1" in said(only(report))


@pytest.mark.parametrize(
    ("name", "words", "meant"),
    [
        ("NCCL_BUFSIZE", "no variable of NCCL", "NCCL_BUFFSIZE"),
        ("NCCL_TREE_THRESHOLD", "no version of NCCL from 2.17 on", "NCCL_ALGO"),
        ("NCCL_BLOCKING_WAIT", "PyTorch", "TORCH_NCCL_BLOCKING_WAIT"),
        ("NCCL_WORK_FIFO_DEPTH", "removed before this version", "NCCL_WORK_FIFO_BYTES"),
        ("NCCL_RMA_DISABLE", "only by later versions", ""),
    ],
)
def test_names_that_nobody_reads(tmp_path: Path, name: str, words: str, meant: str) -> None:
    report = judged(log(tmp_path, BASE, BASE), f"{name}=1")
    assert told(report) == [("nccl-unread-name", "error", name)]
    assert words in said(only(report))
    assert meant in said(only(report))
    assert report.verdict.exit is Exit.FINDING
