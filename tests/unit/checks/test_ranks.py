from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envprobe.checks import ranks
from envprobe.checks.ranks import Rank


def asked(command: str, framework: str = "sglang") -> set[tuple[int, int, int]] | None:
    found = ranks.from_command(("python3", *command.split()), framework)
    return None if found is None else {tuple(one) for one in found.ranks}  # type: ignore[misc]


def grid(dp: range, pp: range, tp: range) -> set[tuple[int, int, int]]:
    return {(d, p, t) for d in dp for p in pp for t in tp}


@pytest.mark.parametrize(
    ("command", "dp", "pp", "tp"),
    [
        ("--tp 8", range(1), range(1), range(8)),
        ("--tp=8", range(1), range(1), range(8)),
        ("--tp-size 2", range(1), range(1), range(2)),
        ("--tensor-parallel-size 2", range(1), range(1), range(2)),
        ("--tensor_parallel_size 2", range(1), range(1), range(2)),
        ("--tp 4 --tp 2", range(1), range(1), range(2)),
        ("--tp 2 --dp 2", range(2), range(1), range(2)),
        ("--tp 2 --pp-size 2", range(1), range(2), range(2)),
        ("--tp 4 --dp 2 --enable-dp-attention", range(1), range(1), range(4)),
        ("--tp 4 --nnodes 2 --node-rank 1", range(1), range(1), range(2, 4)),
        ("--tp 4 --nnodes 2", range(1), range(1), range(2)),
        ("--tp 4 --nnodes 2 --node-rank 0", range(1), range(1), range(2)),
        ("--tp 4 --pp 2 --nnodes 2 --node-rank 1", range(1), range(1, 2), range(4)),
        ("--tp 4 --pp 2 --nnodes 4 --node-rank 1", range(1), range(1), range(2, 4)),
        ("--tp 4 --pp 2 --nnodes 4 --node-rank 2", range(1), range(1, 2), range(2)),
    ],
)
def test_what_a_command_of_sglang_asks_for(command: str, dp: range, pp: range, tp: range) -> None:
    assert asked(command) == grid(dp, pp, tp)


@pytest.mark.parametrize(
    "command",
    [
        "--model m",
        "--tp",
        "--tp x",
        "--tp -1",
        "--tp 0",
        "--tp 999999",
        "--tp 4096 --dp 2",
        "--tp 2 --config f.yaml",
        "--tp 2 --use-ray",
        "--tp 4 --dp 2 --nnodes 2",
        "--tp 4 --nnodes 2 --node-rank x",
        "tp 8",
    ],
)
def test_where_a_command_does_not_say_nothing_is_guessed(command: str) -> None:
    assert asked(command) is None


@pytest.mark.parametrize(
    ("command", "role", "count"),
    [
        ("-tp 2", "worker", 2),
        ("--tensor-parallel-size 2 --pipeline-parallel-size 2", "worker", 4),
        ("-tp 2 -dp 2", "worker", 4),
        ("-dp 4 --data-parallel-size-local 2", "engine core", 2),
        ("-tp 2 --distributed-executor-backend mp", "worker", 2),
    ],
)
def test_what_a_command_of_vllm_asks_for(command: str, role: str, count: int) -> None:
    found = ranks.from_command(command.split(), "vllm")
    assert found is not None
    assert (found.role, len(found.ranks)) == (role, count)


@pytest.mark.parametrize(
    "command",
    [
        "-tp 2 --distributed-executor-backend ray",
        "-tp 2 --distributed-executor-backend=ray",
        "-tp 2 -dp 2 --data-parallel-backend ray",
        "-tp 2 -dp 2 --data-parallel-rank 1",
        "-tp 4 --nnodes 2",
        "-tp 2 --headless",
    ],
)
def test_workers_of_vllm_that_run_elsewhere_are_not_missed(command: str) -> None:
    assert ranks.from_command(command.split(), "vllm") is None


@pytest.mark.parametrize(
    ("command", "count"),
    [
        ("--nproc-per-node 4", 4),
        ("--nproc_per_node=2", 2),
        ("--nproc-per-node gpu", None),
        ("", None),
    ],
)
def test_what_torchrun_is_asked_for(command: str, count: int | None) -> None:
    found = ranks.from_command(command.split(), "torchrun")
    assert (None if found is None else len(found.ranks)) == count


def test_a_command_of_nothing_known_says_nothing() -> None:
    assert ranks.from_command(("--tp", "8"), "") is None


@pytest.mark.parametrize(
    ("titles", "missing"),
    [
        ([], set()),
        ([{}], set()),
        ([{"tp": 0}, {"tp": 1}], set()),
        ([{"tp": 0}, {"tp": 1}, {"tp": 3}], {(0, 0, 2)}),
        ([{"tp": 2}, {"tp": 3}], set()),
        ([{"pp": 0, "tp": 0}, {"pp": 0, "tp": 1}, {"pp": 1, "tp": 1}], {(0, 1, 0)}),
        ([{"dp": 0, "tp": 0}, {"dp": 0, "tp": 1}, {"dp": 1, "tp": 0}], {(1, 0, 1)}),
        ([{"dp": 0}, {"dp": 2}], {(1, 0, 0)}),
        # Attention data parallelism: every TP rank has one DP index.
        ([{"dp": 0, "tp": 0}, {"dp": 0, "tp": 1}, {"dp": 1, "tp": 2}, {"dp": 1, "tp": 3}], set()),
        ([{"dp": 0, "tp": 0}, {"dp": 1, "tp": 3}, {"dp": 0, "tp": 1}], {(0, 0, 2)}),
        ([{"dp": 1, "tp": 3, "ep": 3}, {"dp": 0, "tp": 2, "ep": 2}], set()),
        ([{"tp": 0}, {"tp": 999999}], set()),
    ],
)
def test_gaps_in_titles(titles: list[dict[str, int]], missing: set[tuple[int, int, int]]) -> None:
    assert ranks.gaps(titles) == missing


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(0, 1000))
def test_one_rank_taken_out_of_the_middle_is_the_one_that_is_missing(
    dp: int, pp: int, tp: int, pick: int
) -> None:
    whole = sorted(grid(range(dp), range(pp), range(tp)))
    titles = [{"dp": d, "pp": p, "tp": t} for d, p, t in whole]
    assert ranks.gaps(titles) == frozenset()
    inner = [one for one in whole[1:-1] if _every_kind_stays(one, whole)]
    if inner and dp * tp * pp > 2 and dp == 1:
        gone = inner[pick % len(inner)]
        rest = [one for one, place in zip(titles, whole, strict=True) if place != gone]
        assert ranks.gaps(rest) == {Rank(*gone)}


def _every_kind_stays(gone: tuple[int, int, int], whole: list[tuple[int, int, int]]) -> bool:
    rest = [one for one in whole if one != gone]
    return all(
        {one[kind] for one in rest} >= {min(o[kind] for o in whole), max(o[kind] for o in whole)}
        for kind in range(3)
    )


def test_absent_ranks_are_named_by_what_tells_them_apart() -> None:
    every = {Rank(*one) for one in grid(range(2), range(1), range(2))}
    assert ranks.labels({Rank(1, 0, 1), Rank(0, 0, 1)}, every) == ["DP0 TP1", "DP1 TP1"]
    tps = {Rank(*one) for one in grid(range(1), range(1), range(2))}
    assert ranks.labels({Rank(0, 0, 1)}, tps) == ["TP1"]
    assert ranks.labels({Rank(0, 0, 0)}, {Rank(0, 0, 0)}) == ["TP0"]
