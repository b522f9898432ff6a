"""The kernel on a GPU: right over a grid of shapes, in graphs too, and it allocates nothing."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

import pytest

from kernel_ext.launch import VerifyAttention
from kernel_ext.problems import Problem, random_problem
from kernel_ext.reference import allowed_error, reference_attention
from tests.programs.requirement import missing

RAGGED = [31, 0, 33, 1000]


@pytest.fixture(scope="module")
def torch() -> Any:
    if importlib.util.find_spec("torch") is None:
        missing("gpu", "torch is not installed")
    import torch

    if not torch.cuda.is_available():
        missing("gpu", "no CUDA device")
    return torch


@pytest.fixture(scope="module")
def kernel(torch: Any) -> VerifyAttention:
    return VerifyAttention(torch.cuda.current_device())


def run(kernel: VerifyAttention, problem: Problem, out: Any) -> None:
    kernel(problem.q, problem.draft_keys, problem.pool, out, problem.batch, problem.scale)


def worst(problem: Problem, out: Any) -> float:
    """Return the largest error as a part of the allowed one; infinity for what is no number."""
    inputs = (problem.q, problem.draft_keys, problem.pool, problem.batch, problem.scale)
    expected, amounts = reference_attention(*inputs)
    part = (out.float() - expected).abs() / allowed_error(expected, amounts)
    return float(part.nan_to_num(float("inf")).max())


@pytest.mark.parametrize(
    ("prefixes", "drafts", "heads", "more"),
    [
        ([0], 1, 8, {}),
        ([0], 64, 8, {}),
        (RAGGED, 8, 8, {}),
        ([9] * 64, 1, 8, {}),
        ([777] * 64, 8, 8, {"spare_mask": 1000}),
        ([10, 2000, 0], [3, 0, 9], 12, {}),
        ([131072], 2, 8, {}),
        ([131072], 64, 8, {}),
        ([3000, 17], 64, 128, {}),
        ([40000, 1], 16, 128, {}),
        ([2000] * 5, 5, 24, {}),
        ([0] * 64, 2, 128, {}),
        ([512, 100], 64, 8, {"spread": 8.0}),
        ([64, 32, 96], 4, 8, {"spread": 30.0}),
    ],
)
def test_the_error_is_what_bfloat16_explains(
    prefixes: Sequence[int],
    drafts: int | Sequence[int],
    heads: int,
    more: dict[str, Any],
    kernel: VerifyAttention,
) -> None:
    problem = random_problem(prefixes, drafts, heads, **more)
    out = problem.empty_output()
    run(kernel, problem, out)
    assert worst(problem, out) <= 1


def test_a_recorded_call_is_right_for_other_lengths(torch: Any, kernel: VerifyAttention) -> None:
    recorded = random_problem([5000, 3000, 40, 700], 8, 8, spare_mask=1000, seed=1)
    out = recorded.empty_output()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run(kernel, recorded, out)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            run(kernel, recorded, out)
    eager = recorded.empty_output()
    run(kernel, recorded, eager)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, eager)
    other = random_problem([700, 1, 0, 33], 8, 8, seed=2)
    copies = [
        (recorded.q, other.q),
        (recorded.draft_keys, other.draft_keys),
        (recorded.pool, other.pool),
        (recorded.batch.kv_indptr, other.batch.kv_indptr),
        (recorded.batch.kv_indices, other.batch.kv_indices),
        (recorded.batch.mask, other.batch.mask),
        (recorded.batch.mask_indptr, other.batch.mask_indptr),
    ]
    for to, source in copies:
        to[: len(source)].copy_(source)
    out.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    assert worst(other, out) <= 1


def test_a_call_allocates_nothing(torch: Any, kernel: VerifyAttention) -> None:
    problem = random_problem(RAGGED, 8, 8)
    out = problem.empty_output()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    run(kernel, problem, out)
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before
