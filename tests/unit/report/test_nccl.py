"""The report on a log as text: folded tables, marks, and what each rank used."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from envprobe.report import nccl
from envprobe.report.model import Presentation
from tests.programs.nccl_ranks import ID, rank, write
from tests.unit.checks.nccl.judging import judged

BASE = {"NCCL_SOCKET_IFNAME": "lo"}


def shown(path: str, *expect: str, **presentation: object) -> list[str]:
    given = dataclasses.replace(Presentation(width=100), **presentation)  # type: ignore[arg-type]
    return nccl.render(judged(path, *expect), given).splitlines()


def row(lines: list[str], name: str) -> list[str]:
    """Return the words of the first line of a variable."""
    (line,) = (one for one in lines if one.split(" ")[0] == name)
    return line.split()


def test_a_variable_has_a_line_for_each_group_of_ranks(tmp_path: Path) -> None:
    ranks = [
        rank(n, 8, {**BASE, "NCCL_PROTO": "Simple", "NCCL_ALGO": "Tree" if n == 5 else "Ring"})
        for n in range(8)
    ]
    lines = shown(write(tmp_path, ranks))
    assert row(lines, "NCCL_PROTO")[:4] == ["NCCL_PROTO", "all", "8", "Simple"]
    assert row(lines, "NCCL_ALGO")[:4] == ["NCCL_ALGO", "0-4,", "6-7", "Ring"]
    second = lines[lines.index(next(one for one in lines if one.startswith("NCCL_ALGO"))) + 1]
    assert second.split()[:2] == ["5", "Tree"]


def test_each_mark_is_explained_where_it_is_used(tmp_path: Path) -> None:
    ranks = [
        rank(0, 2, {**BASE, "NCCL_NTHREADS": "100.", "NCCL_ALGO": "Rings"}),
        rank(1, 2, {**BASE, "NCCL_NTHREADS": "100."}),
    ]
    lines = shown(write(tmp_path, ranks), "NCCL_NET=Socket")
    assert row(lines, "NCCL_NTHREADS")[3:6] == ["100", "->", "512"]
    assert row(lines, "NCCL_ALGO")[1:4] == ["0", "Rings", "!"]
    assert row(lines, "NCCL_NET")[3:] == ["?", "network", "Socket"]
    text = " ".join(" ".join(lines).split())
    for mark, meaning in nccl.MEANINGS.items():
        assert f"{mark} {meaning}" in text
    plain = " ".join(shown(write(tmp_path, [rank(n, 2, BASE) for n in range(2)])))
    assert not any(meaning in plain for meaning in nccl.MEANINGS.values())


def test_very_many_values_are_counted(tmp_path: Path) -> None:
    ranks = [rank(n, 20, {"NCCL_HOSTID": f"h{n}"}) for n in range(20)]
    path = write(tmp_path, ranks)
    lines = shown(path)
    assert any("8-19" in one and "12 other values (--show-all)" in one for one in lines)
    assert any(one.split()[:2] == ["19", "h19"] for one in shown(path, show_all=True))


def test_alike_communicators_are_one_table(tmp_path: Path) -> None:
    ranks = []
    for number in range(2):
        again = [line for line in rank(number, 2, BASE, comm_id="0xbeef") if "version" not in line]
        ranks.append(rank(number, 2, BASE) + again)
    lines = shown(write(tmp_path, ranks))
    assert sum(one.startswith("communicator ") for one in lines) == 1
    assert "  and alike: 0xbeef" in lines
    assert lines[0].startswith("HOLDS: no fault in 4 ranks of 2 communicators in 2 processes")


def test_communicators_that_differ_have_a_table_each(tmp_path: Path) -> None:
    ranks = []
    for number in range(2):
        again = rank(number, 2, {**BASE, "NCCL_PROTO": "LL"}, comm_id="0xbeef")
        ranks.append(rank(number, 2, BASE) + [line for line in again if "version" not in line])
    lines = shown(write(tmp_path, ranks))
    titles = [one for one in lines if one.startswith("communicator ")]
    assert [one.split()[1] for one in titles] == [ID, "0xbeef"]


def test_what_ranks_used_is_said_apart_where_it_differs(tmp_path: Path) -> None:
    ranks = [rank(n, 2, BASE, channels=24 - 8 * n) for n in range(2)]
    lines = shown(write(tmp_path, ranks))
    assert any(one.startswith("  rank 0 used: 24 channels, network Socket") for one in lines)
    assert any(one.startswith("  rank 1 used: 16 channels, network Socket") for one in lines)


def test_no_line_is_wider_than_the_terminal(tmp_path: Path) -> None:
    ranks = [rank(n, 9, {"NCCL_TOPO_FILE": "/" + "x" * 300 + str(n)}) for n in range(9)]
    assert max(map(len, shown(write(tmp_path, ranks), width=80)[3:-3])) <= 110
    table = [one for one in shown(write(tmp_path, ranks), width=80) if "NCCL_TOPO_FILE  " in one]
    assert table
    assert max(map(len, table)) <= 80
