from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from envprobe.model import Edge, EdgeKind, Identity, Process, Role
from envprobe.nccl import log
from envprobe.nccl.join import Source, joined
from envprobe.nccl.livelogs import _NoLog, expanded
from envprobe.ncclfacts import LogState, NcclLog

START = 1000.0
INIT = "[0] NCCL INFO comm 0x1 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1 commId 0xabc - Init"


def process(pid: int = 500, inner: int | None = 7, cwd: str | None = "/srv") -> Process:
    return Process(
        pid=pid,
        identity=Identity(pid, 1),
        ppid=1,
        state="S",
        start_time=START,
        uid=0,
        comm="python3",
        title=("python3",),
        exe=None,
        role=Role("scheduler", worker=True),
        edge=Edge(EdgeKind.ROOT, None),
        image_owner=pid,
        inner_pid=inner,
        cwd=cwd,
    )


def lines(host: str, pid: int, tid: int, value: str = "Ring") -> str:
    head = f"{host}:{pid}:{tid}"
    return (
        f"{head} [0] NCCL INFO NCCL version 2.28.9+cuda12.9\n"
        f"{head} {INIT} START\n"
        f"{head} [0] NCCL INFO NCCL_ALGO set by environment to {value}\n"
        f"{head} {INIT} COMPLETE\n"
    )


def found(
    folder: Path,
    *texts: str,
    host: str | None = "node1.example.org",
    written: float = START + 5,
    living: frozenset[int] = frozenset(),
    of: Process | None = None,
) -> NcclLog:
    path = folder / "nccl.log"
    path.write_text("".join(texts))
    source = Source(log.read([str(path)]), {str(path): written}, asked=True)
    return joined(of or process(), host, source, lambda: living)


def test_host_is_cut_at_the_first_dot_and_the_number_is_the_inner_one(tmp_path: Path) -> None:
    both = (lines("node1", 7, 70), lines("node1", 500, 501, "Tree"))
    one = found(tmp_path, *both, living=frozenset({7, 70}))
    assert (one.state, one.host, one.pid, one.sure) == (LogState.JOINED, "node1", 7, True)
    (member,) = one.members
    assert (member.communicator, member.rank, member.nranks) == ("0xabc", 1, 2)
    (read,) = one.reads
    assert (read.name, read.value.reveal(), read.member) == ("NCCL_ALGO", b"Ring", 0)
    assert one.versions == ("2.28.9+cuda12.9",)


def test_in_a_shared_log_only_a_living_thread_makes_it_sure(tmp_path: Path) -> None:
    own, other = lines("node1", 7, 70), lines("node1", 8, 80)
    alone = found(tmp_path, own)
    assert (alone.state, alone.sure) == (LogState.JOINED, True)
    shared = found(tmp_path, own, other, living=frozenset({7}))
    assert (shared.state, shared.sure) == (LogState.JOINED, False)
    assert "a predecessor's" in shared.evidence


def test_without_an_inner_number_the_outer_one_counts(tmp_path: Path) -> None:
    one = found(tmp_path, lines("node1", 500, 500), of=process(inner=None))
    assert (one.state, one.pid) == (LogState.JOINED, 500)


def test_another_host_is_never_joined(tmp_path: Path) -> None:
    one = found(tmp_path, lines("node2", 7, 7))
    assert (one.state, one.members) == (LogState.NOT_IN_LOG, ())
    assert one.reason == "the log has node2:7, and not node1:7"


def test_an_unknown_host_joins_by_number_alone_and_says_so(tmp_path: Path) -> None:
    one = found(tmp_path, lines("node2", 7, 7), host=None)
    assert (one.state, one.sure, one.host) == (LogState.JOINED, False, "node2")
    two = found(tmp_path, lines("node2", 7, 7), lines("node3", 7, 7), host=None)
    assert two.state is LogState.AMBIGUOUS
    assert [one.partition(" from")[0] for one in two.candidates] == ["node2:7", "node3:7"]


def test_a_log_that_ended_before_the_start_is_refused(tmp_path: Path) -> None:
    assert found(tmp_path, lines("node1", 7, 7), written=START - 1).state is LogState.OLDER
    assert found(tmp_path, lines("node1", 7, 7), written=START).state is LogState.JOINED


def test_of_two_with_one_number_the_one_with_living_threads_is_it(tmp_path: Path) -> None:
    # The banner of each start tells that they are two; a helper of the second is 72.
    texts = [
        lines("node1", 7, 7, value) + f"node1:7:{helper} [0] NCCL INFO Using network Socket\n"
        for value, helper in (("Tree", 71), ("Ring", 72))
    ]
    assert found(tmp_path, *texts).state is LogState.AMBIGUOUS
    assert found(tmp_path, *texts, living=frozenset({7})).state is LogState.AMBIGUOUS
    one = found(tmp_path, *texts, living=frozenset({7, 72}))
    assert one.state is LogState.JOINED
    assert [read.value.reveal() for read in one.reads] == [b"Ring"]
    assert "only this one has its threads" in one.evidence


def test_a_log_without_nccl_says_so(tmp_path: Path) -> None:
    one = found(tmp_path, "hello\n")
    assert one.state is LogState.NOT_IN_LOG
    assert "no line of NCCL" in one.reason


@pytest.mark.parametrize(
    ("pattern", "made"),
    [
        ("/tmp/a", "/tmp/a"),
        ("log.%h.%p", "log.node1.7"),
        ("%p%p", "77"),
        ("100%%.%p", "100%.7"),
        ("%%p", "%p"),
        ("a%x%", "a%x%"),
    ],
)
def test_the_name_of_a_log_is_made_as_nccl_makes_it(pattern: str, made: str) -> None:
    assert expanded(pattern, process(), "node1.example.org") == made


def test_a_host_name_that_is_not_known_is_not_guessed() -> None:
    assert expanded("log.%p", process(), None) == "log.7"
    with pytest.raises(_NoLog) as caught:
        expanded("log.%h", process(), None)
    assert caught.value.args[0] is LogState.UNREADABLE


@pytest.mark.parametrize(("cut", "damaged"), [(0, False), (12, True)])
def test_a_log_that_breaks_off_may_have_lost_lines(cut: int, damaged: bool, tmp_path: Path) -> None:
    path = tmp_path / "nccl.log.gz"
    whole = gzip.compress(lines("node1", 7, 7).encode() + b"x\n" * 400, 0)
    path.write_bytes(whole[: len(whole) - cut])
    source = Source(log.read([str(path)]), {}, asked=True)
    one = joined(process(), None, source, frozenset)
    assert (one.state, one.damaged) == (LogState.JOINED, damaged)
