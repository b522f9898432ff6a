"""Ranks of one communicator that differ, and those that only look so."""

from __future__ import annotations

from pathlib import Path

from envprobe.errors import Exit
from envprobe.model import Confidence
from tests.programs.nccl_ranks import rank, write
from tests.unit.checks.nccl.judging import judged, only, said, told

CRITICAL = "nccl-ranks-differ-critical"
BASE = {"NCCL_SOCKET_IFNAME": "lo"}
BUFFER = {**BASE, "NCCL_BUFFSIZE": "8388608."}


def test_equal_ranks_have_no_finding(tmp_path: Path) -> None:
    report = judged(write(tmp_path, [rank(0, 2, BUFFER), rank(1, 2, BUFFER)]))
    assert (told(report), report.verdict.exit) == ([], Exit.HOLDS)


def test_one_rank_that_lacks_a_buffer_size_gives_wrong_sums(tmp_path: Path) -> None:
    ranks = [rank(number, 4, BASE if number == 2 else BUFFER) for number in range(4)]
    report = judged(write(tmp_path, ranks))
    assert told(report) == [(CRITICAL, "error", "NCCL_BUFFSIZE")]
    found = only(report)
    assert (found.confidence, report.verdict.exit) == (Confidence.INFERRED, Exit.FINDING)
    assert "8388608 in ranks 0-1, 3; not read in rank 2" in said(found)
    assert "wrong numbers" in said(found)
    assert "node0:102" in said(found)
    assert found.pids == (100, 101, 103, 102)


def test_two_values_are_proved(tmp_path: Path) -> None:
    ranks = [rank(0, 2, {"NCCL_PROTO": "LL"}), rank(1, 2, {"NCCL_PROTO": "Simple"})]
    found = only(judged(write(tmp_path, ranks)))
    assert (found.check, found.confidence) == (CRITICAL, Confidence.PROVED)
    assert "hangs" in said(found)


def test_an_unmeasured_difference_is_a_warning(tmp_path: Path) -> None:
    ranks = [
        rank(0, 2, {**BASE, "NCCL_IGNORE_CPU_AFFINITY": "1."}),
        rank(1, 2, BASE),
    ]
    report = judged(write(tmp_path, ranks))
    assert told(report) == [("nccl-ranks-differ", "warning", "NCCL_IGNORE_CPU_AFFINITY")]
    assert report.verdict.exit is Exit.HOLDS


def test_the_default_against_nothing_is_no_difference(tmp_path: Path) -> None:
    ranks = [rank(0, 2, {**BASE, "NCCL_BUFFSIZE": "4194304."}), rank(1, 2, BASE)]
    report = judged(write(tmp_path, ranks))
    assert told(report) == [("nccl-ranks-differ-default", "info", "NCCL_BUFFSIZE")]


def test_the_default_of_another_version_is_a_difference(tmp_path: Path) -> None:
    timeout = {**BASE, "NCCL_GRAPH_REGISTER": "0."}
    new = [rank(0, 2, timeout), rank(1, 2, BASE)]
    old = [rank(n, 2, reads, version="2.18.5+cuda12.2") for n, reads in ((0, timeout), (1, BASE))]
    assert told(judged(write(tmp_path, new)))[0][0] == "nccl-ranks-differ"
    assert told(judged(write(tmp_path, old)))[0][0] == "nccl-ranks-differ-default"


def test_what_differs_by_design_is_no_difference(tmp_path: Path) -> None:
    reads = [{"NCCL_HOSTID": f"h{n}", "NCCL_SOCKET_IFNAME": f"eth{n}"} for n in range(2)]
    assert told(judged(write(tmp_path, [rank(n, 2, reads[n]) for n in range(2)]))) == []


def test_what_only_some_ranks_print_is_no_difference(tmp_path: Path) -> None:
    only_sender = {**BASE, "NCCL_IB_TC": "106.", "NCCL_LAUNCH_MODE": "PARALLEL"}
    ranks = [rank(0, 2, {**only_sender, "NCCL_TOPO_DUMP_FILE": "/tmp/t"}), rank(1, 2, BASE)]
    assert told(judged(write(tmp_path, ranks))) == []


def test_two_values_of_what_only_some_print_are_a_difference(tmp_path: Path) -> None:
    ranks = [rank(n, 2, {**BASE, "NCCL_IB_TC": f"{n}."}) for n in range(2)]
    assert told(judged(write(tmp_path, ranks))) == [("nccl-ranks-differ", "warning", "NCCL_IB_TC")]


def test_a_rank_that_logged_no_variable_is_unknown_and_not_lacking(tmp_path: Path) -> None:
    report = judged(write(tmp_path, [rank(0, 2, BUFFER), rank(1, 2, {})]))
    assert told(report) == [("nccl-environment-not-logged", "unknown", "")]
    assert report.verdict.exit is Exit.UNDETERMINED


def test_a_rank_without_any_line_is_unknown(tmp_path: Path) -> None:
    report = judged(write(tmp_path, [rank(0, 4, BUFFER), rank(1, 4, BUFFER)]))
    assert told(report) == [("nccl-ranks-missing", "unknown", "")]
    assert "ranks 2-3" in said(only(report))
    assert report.verdict.exit is Exit.UNDETERMINED


def test_rays_deduplication_makes_absence_prove_nothing(tmp_path: Path) -> None:
    lines = rank(0, 2, BUFFER)
    lines[-1] += " [repeated 3x across cluster]"
    ranks = [["(Worker pid=100) " + line for line in lines]]
    ranks.append(["(Worker pid=101) " + line for line in rank(1, 2, BASE)])
    found = told(judged(write(tmp_path, ranks)))
    assert [one for one in found if one[0] == CRITICAL] == []


def test_equal_differences_of_several_communicators_are_one_finding(tmp_path: Path) -> None:
    ranks = []
    for number, reads in ((0, {**BASE, "NCCL_PROTO": "LL"}), (1, BASE)):
        second = [
            line for line in rank(number, 2, reads, comm_id="0xbeef") if "version" not in line
        ]
        ranks.append(rank(number, 2, reads) + second)
    report = judged(write(tmp_path, ranks))
    assert told(report) == [(CRITICAL, "error", "NCCL_PROTO")]
    assert "2 communicators" in said(only(report))


def test_a_rank_alone_never_reads_the_protocol(tmp_path: Path) -> None:
    assert told(judged(write(tmp_path, [rank(0, 1, BASE)]))) == []


def test_what_a_rank_read_for_another_communicator_proves_nothing(tmp_path: Path) -> None:
    """Rank 0 alone is in a second communicator, for which it reads a chunk size."""
    chunks = {"NCCL_P2P_NET_CHUNKSIZE": "262144."}

    def more(number: int, reads: dict[str, str]) -> list[str]:
        lines = rank(number, 2, reads, comm_id="0xbeef", host=f"node{number}")
        return [line for line in lines if "version" not in line]

    first = rank(0, 2, BASE, host="node0") + more(0, chunks)
    second = rank(1, 2, BASE, host="node1")
    report = judged(write(tmp_path, [first, second]))
    assert told(report) == [("nccl-ranks-missing", "unknown", "")]
    third = rank(0, 2, BASE, host="node0") + more(0, {"NCCL_BUFFSIZE": "8388608."})
    report = judged(write(tmp_path, [third, second], "other.log"))
    assert (CRITICAL, "error", "NCCL_BUFFSIZE") in told(report)
