"""Values that NCCL reads as something else, refuses, or that change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from envprobe.errors import Exit
from tests.programs.nccl_ranks import rank, write
from tests.unit.checks.nccl.judging import judged, only, said, told, with_files

BASE = {"NCCL_SOCKET_IFNAME": "lo"}


def log(folder: Path, reads: dict[str, str], **more: object) -> str:
    return write(folder, [rank(n, 2, {**BASE, **reads}, **more) for n in range(2)])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reads", "check", "severity"),
    [
        ({"NCCL_BUFFSIZE": "8."}, "nccl-value-refused", "error"),
        ({"NCCL_LL_BUFFSIZE": "8."}, "nccl-value-odd", "warning"),
        ({"NCCL_NTHREADS": "100."}, "nccl-value-misread", "error"),
        ({"NCCL_ALGO": "Rings"}, "nccl-value-refused", "error"),
        ({"NCCL_ALGO": "Tree"}, "nccl-value-odd", "warning"),
        ({"NCCL_ALGO": ""}, "nccl-value-odd", "warning"),
        ({"NCCL_SOCKET_FAMILY": "AF_INET6,AF_INET"}, "nccl-value-refused", "error"),
        ({"NCCL_MAX_NCHANNELS": "32."}, "nccl-no-effect", "info"),
    ],
)
def test_one_finding_for_all_ranks(
    tmp_path: Path, reads: dict[str, str], check: str, severity: str
) -> None:
    report = judged(log(tmp_path, reads))
    (name,) = reads
    assert told(report) == [(check, severity, name)]
    assert "ranks 0-1" in said(only(report))


@pytest.mark.parametrize(
    "reads",
    [
        {"NCCL_BUFFSIZE": "8388608."},
        {"NCCL_NTHREADS": "256."},
        {"NCCL_ALGO": "allreduce:tree"},
        {"NCCL_MAX_NCHANNELS": "24."},
        {"NCCL_P2P_LEVEL": "PXB"},
    ],
)
def test_plain_values_have_no_finding(tmp_path: Path, reads: dict[str, str]) -> None:
    assert told(judged(log(tmp_path, reads))) == []


def test_a_level_does_not_count_where_p2p_is_disabled(tmp_path: Path) -> None:
    report = judged(log(tmp_path, {"NCCL_P2P_LEVEL": "NVL", "NCCL_P2P_DISABLE": "1"}))
    assert told(report) == [("nccl-no-effect", "info", "NCCL_P2P_LEVEL")]


def test_vllms_own_number_of_threads_is_a_warning_only(tmp_path: Path) -> None:
    report = judged(log(tmp_path, {"NCCL_NTHREADS": "1."}))
    assert told(report) == [("nccl-value-misread", "warning", "NCCL_NTHREADS")]
    assert "vllm" in said(only(report))
    assert report.verdict.exit is Exit.HOLDS


def test_ll128_is_forced_over_pcie_only(tmp_path: Path) -> None:
    forced = {"NCCL_PROTO": "LL128"}
    report = judged(log(tmp_path, forced, chunk=131072))
    assert told(report) == [("nccl-ll128-forced", "warning", "NCCL_PROTO")]
    assert told(judged(log(tmp_path, forced, chunk=524288))) == []
    assert told(judged(log(tmp_path, {"NCCL_PROTO": "^LL128"}, chunk=131072))) == []
    sized = {**forced, "NCCL_P2P_NVL_CHUNKSIZE": "131072."}
    assert told(judged(log(tmp_path, sized, chunk=131072))) == []


def test_a_line_of_a_configuration_file_explains_a_value(tmp_path: Path) -> None:
    report = judged(log(tmp_path, {"NCCL_ALGO": "Ring"}))
    found = with_files(report, {"/etc/nccl.conf": b"# ours\nNCCL_ALGO=Ring\n"})
    assert told(found) == [("nccl-set-elsewhere", "info", "NCCL_ALGO")]
    assert "/etc/nccl.conf:2" in said(only(found))
    assert told(with_files(report, {"/etc/nccl.conf": b"NCCL_ALGO=Tree\n"})) == []


@pytest.mark.parametrize(
    ("line", "severity", "words"),
    [
        (b"export NCCL_ALGO=Ring", "warning", "begins with `export`"),
        (b"NCCL_ALGO=Ring # all", "warning", "comment after the value"),
        (b"NCCL_BUFFSIZE=8388608 # bytes", "info", "comment after the value"),
        (b"NCCL_ALGO='Ring'", "warning", "quotes"),
        (b"NCCL_ALGO Ring", "warning", "has no ="),
    ],
)
def test_lines_that_are_not_read_as_they_look(
    tmp_path: Path, line: bytes, severity: str, words: str
) -> None:
    report = with_files(judged(log(tmp_path, {})), {"/etc/nccl.conf": line})
    found = [one for one in report.result.findings if one.check == "nccl-conf-file"]
    assert [one.severity.value for one in found] == [severity]
    assert words in said(found[0])
    assert "/etc/nccl.conf:1" in said(found[0])


def test_a_name_in_a_file_that_nobody_reads(tmp_path: Path) -> None:
    report = with_files(judged(log(tmp_path, {})), {"/etc/nccl.conf": b"NCCL_BUFSIZE=1\nOTHER=2"})
    assert told(report) == [("nccl-unread-name", "warning", "NCCL_BUFSIZE")]


def test_a_communicator_that_was_not_completed(tmp_path: Path) -> None:
    path = write(tmp_path, [rank(0, 2, BASE), rank(1, 2, BASE, completed=False)])
    report = judged(path)
    assert told(report) == [("nccl-not-completed", "error", "")]
    assert "rank 1" in said(only(report))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Message truncated : received 12288 bytes instead of 2048", "number of channels"),
        ('Unrecognized element token "Rings" when parsing "Rings"', "a word that this version"),
        ("Cuda failure 1 'invalid argument'", "NCCL_CUMEM_ENABLE"),
    ],
)
def test_warnings_whose_cause_is_known(tmp_path: Path, text: str, words: str) -> None:
    report = judged(write(tmp_path, [rank(n, 2, BASE, warnings=[text]) for n in range(2)]))
    assert told(report) == [("nccl-failure", "error", "")]
    assert words in said(only(report))
    assert text in said(only(report))


def test_other_warnings_are_no_finding(tmp_path: Path) -> None:
    path = write(tmp_path, [rank(n, 2, BASE, warnings=["Something else"]) for n in range(2)])
    assert told(judged(path)) == []


def test_different_versions(tmp_path: Path) -> None:
    ranks = [rank(0, 2, BASE), rank(1, 2, BASE, version="2.27.5+cuda12.9")]
    report = judged(write(tmp_path, ranks))
    assert told(report) == [("nccl-versions-differ", "error", "")]
    assert "2.27.5+cuda12.9 in rank 1" in said(only(report))


def test_lines_that_were_cut_are_counted(tmp_path: Path) -> None:
    path = Path(log(tmp_path, {}))
    path.write_text(
        path.read_text("utf-8") + "node0:100:100 [0] NCCL INFO Channel 00/0 : 0[0", "utf-8"
    )
    report = judged(str(path))
    assert told(report) == [("nccl-log-damaged", "info", "")]
    assert "1 at which a file breaks off" in said(only(report)) or "cut" in said(only(report))
