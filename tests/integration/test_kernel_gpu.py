"""The kernel on a GPU: right over a grid of shapes, in graphs too, and it allocates nothing.

SGLang's real TritonAttnBackend is patched and called there, too, where SGLang is installed beside
torch; compiled packages that its CUDA paths import, and that are missing, have stand-ins that
compute nothing (tests/programs/compiled_neighbours.py).
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kernel_ext.launch import VerifyAttention
from kernel_ext.patch import ROW_TOLERANCE
from kernel_ext.problems import Problem, random_problem
from kernel_ext.reference import allowed_error, reference_attention
from tests.programs.requirement import missing

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "programs" / "sglang_verify.py"
SECONDS = 300
RAGGED = [31, 0, 33, 1000]

REAL_CLASS: dict[str, dict[str, Any]] = {
    "taken": {"heads": 8, "prefixes": [1900, 37, 0, 5]},
    "flat q": {"heads": 16, "prefixes": [0, 300], "flat": True},
    "128 heads": {"heads": 128, "prefixes": [300, 1000]},
    "nothing is stored": {"heads": 8, "arguments": {"save_kv_cache": False}},
    "plain extend": {"heads": 8, "mode": "EXTEND"},
    "logit cap": {"heads": 8, "layer": {"logit_cap": 30.0}},
    "validate": {"heads": 8, "prefixes": [1000, 64], "kernel": "validate"},
    "off": {"heads": 8, "kernel": "off"},
    "graph": {"heads": 8, "prefixes": [700, 1500, 33, 8], "then": [1900, 0, 64, 301]},
    "padded graph": {"heads": 8, "prefixes": [700, 1500, 33, 8, 90, 4], "then": [1900, 0, 301]},
}
COUNTED: dict[str, dict[str, int]] = {
    "plain extend": {"other_modes": 1},
    "logit cap": {"fallen_back": 1},
    "validate": {"compared": 1},
    "off": {},
    "graph": {"taken": 2, "recorded": 1},
    "padded graph": {"taken": 2, "recorded": 1},
}
SGLANGS_OWN = {"plain extend", "logit cap", "validate", "off"}


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


def graph_of(torch: Any, kernel: VerifyAttention, problem: Problem, out: Any) -> Any:
    """Record a call, after a run outside of the graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run(kernel, problem, out)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            run(kernel, problem, out)
    return graph


def copy_inputs(to: Problem, source: Problem) -> None:
    """Put a problem into the tensors of one that is not smaller."""
    pairs = [(to.q, source.q), (to.draft_keys, source.draft_keys), (to.pool, source.pool)]
    names = ("kv_indptr", "kv_indices", "mask", "mask_indptr")
    pairs += [(getattr(to.batch, name), getattr(source.batch, name)) for name in names]
    for static, new in pairs:
        static[: len(new)].copy_(new)


def test_a_recorded_call_is_right_for_other_lengths(torch: Any, kernel: VerifyAttention) -> None:
    recorded = random_problem([5000, 3000, 40, 700], 8, 8, spare_mask=1000, seed=1)
    out = recorded.empty_output()
    graph = graph_of(torch, kernel, recorded, out)
    eager = recorded.empty_output()
    run(kernel, recorded, eager)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, eager)
    other = random_problem([700, 1, 0, 33], 8, 8, seed=2)
    copy_inputs(recorded, other)
    out.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    assert worst(other, out) <= 1


def padded(recorded: Problem, real: Problem, drafts: int, left: int) -> None:
    """Fill a recorded batch as SGLang's graph runner pads one with fewer requests.

    The others have a prefix of one key, that of request 0, and a whole request's draft tokens; the
    mask, `left` before, gets what the real ones need. SGLang 0.5.21 triton_backend.py:567, 1350.
    """
    batch, requests = recorded.batch, len(real.batch.kv_indptr) - 1
    batch.mask.fill_(left)
    copy_inputs(recorded, real)
    more = range(1, len(batch.kv_indptr) - requests)
    keys, at = int(real.batch.kv_indptr[-1]), int(real.batch.mask_indptr[-1])
    for number in more:
        batch.kv_indices[keys + number - 1] = real.batch.kv_indices[0]
        batch.kv_indptr[requests + number] = keys + number
        batch.mask_indptr[requests + number] = at + number * drafts * (1 + drafts)


@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("prefixes", [[2000], [700, 0, 33], [5000, 3, 1, 64, 32]])
def test_a_recorded_call_is_right_for_fewer_requests_and_sglangs_padding(
    prefixes: list[int], left: int, torch: Any, kernel: VerifyAttention
) -> None:
    recorded = random_problem([3000, 2500, 40, 700, 9, 1], 8, 8, spare_mask=1000, seed=1)
    out = recorded.empty_output()
    graph = graph_of(torch, kernel, recorded, out)
    real = random_problem(prefixes, 8, 8, seed=2)
    padded(recorded, real, 8, left)
    out.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    assert worst(real, out[: len(real.q)]) <= 1
    assert worst(recorded, out) <= 1


def test_a_call_allocates_nothing(torch: Any, kernel: VerifyAttention) -> None:
    problem = random_problem(RAGGED, 8, 8)
    out = problem.empty_output()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    run(kernel, problem, out)
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before


@pytest.fixture(scope="module")
def reports(torch: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    if importlib.util.find_spec("sglang") is None:
        missing("gpu", "SGLang is not installed beside torch")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path_factory.mktemp("model")), "cuda"],
        input=json.dumps(list(REAL_CLASS.values())),
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(zip(REAL_CLASS, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("name", REAL_CLASS)
def test_the_patched_real_class_beside_stand_ins_equals_the_unpatched(
    name: str, reports: dict[str, dict[str, Any]]
) -> None:
    report = reports[name]
    counted = {key: value for key, value in report["counters"].items() if value}
    assert counted == COUNTED.get(name, {"taken": 1})
    assert report["dtype"] == "torch.bfloat16"
    assert report["applied"] == (name != "off")
    assert report["row_error"] <= (0 if name in SGLANGS_OWN else ROW_TOLERANCE)
    assert (report["row_error"] > 0) == (name not in SGLANGS_OWN)
    assert report["stored"] == [name != "nothing is stored"] * 2
    assert report["kernel_is_back"]
    assert report["removed"]


def test_it_is_said_that_a_replay_calls_no_python(reports: dict[str, dict[str, Any]]) -> None:
    first, second = reports["graph"]["said"]
    assert first == "the bundled verify kernel answers (8 heads)"
    assert "its replays run the kernel without Python" in second
    assert "counters stands still" in second
