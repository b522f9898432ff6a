"""The bundled kernel against SGLang's own Triton kernel, on the GPU of this machine.

    python scripts/bench_kernel.py [--json FILE] [--only CASE] [--no-peer]

Needs the extra `kernel`, a CUDA device, and for the peer an environment with SGLang >= 0.5.10. For
every case both kernels get the same random inputs (heads 8, bfloat16, random trees, scattered
slots), are compared with the fp32 reference, and are timed in the same run: medians of CUDA graph
replays whose inputs are not in the second level cache. What bounds them is measured in the same run
too: the device's copy bandwidth, and the rate of mma.sync with nothing else to do.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kernel_ext.launch import VerifyAttention
from kernel_ext.measure import copy_bytes_per_second, median_us, products_per_second
from kernel_ext.peer import triton_kernel
from kernel_ext.problems import HEAD_DIM, Problem, random_problem
from kernel_ext.reference import allowed_error, reference_attention

VALUE_DIM = 512
HEADS = 8
Kernel = Callable[[Problem, torch.Tensor], object]


@dataclass(frozen=True)
class Case:
    """A verify step: so many requests of one prefix length and one number of draft tokens."""

    requests: int
    drafts: int
    prefix: int

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        return f"b{self.requests}-d{self.drafts}-{self.prefix}"

    @property
    def key_bytes(self) -> int:
        """The bytes of all prefix keys, each read once."""
        return self.requests * self.prefix * HEAD_DIM * 2

    @property
    def operations(self) -> int:
        """The multiplications and additions over the prefix."""
        keys = self.requests * self.prefix
        return 2 * keys * self.drafts * HEADS * (HEAD_DIM + VALUE_DIM)


CASES = (
    Case(1, 8, 4096),
    Case(1, 8, 32768),
    Case(8, 8, 32768),
    Case(8, 32, 32768),
    Case(32, 4, 8192),
    Case(64, 8, 2048),
)


def bundled_kernel() -> Kernel:
    """Return the bundled kernel."""
    kernel = VerifyAttention(torch.cuda.current_device())

    def run(problem: Problem, out: torch.Tensor) -> None:
        kernel(problem.q, problem.draft_keys, problem.pool, out, problem.batch, problem.scale)

    return run


def worst_error(kernel: Kernel, problem: Problem) -> float:
    """Return the largest error as a part of the allowed one; infinity for what is no number."""
    out = problem.empty_output()
    kernel(problem, out)
    expected, amounts = reference_attention(
        problem.q, problem.draft_keys, problem.pool, problem.batch, problem.scale
    )
    part = (out.float() - expected).abs() / allowed_error(expected, amounts)
    return float(part.nan_to_num(float("inf")).max())


def measure(case: Case, kernels: dict[str, Kernel]) -> dict[str, Any]:
    """Time the kernels on one problem."""
    problem = random_problem([case.prefix] * case.requests, case.drafts, HEADS)
    row: dict[str, Any] = {"case": case.name}
    for name, kernel in kernels.items():
        row[f"{name}_error"] = worst_error(kernel, problem)
        row[f"{name}_us"] = median_us(functools.partial(kernel, problem, problem.empty_output()))
    row["bytes_per_second"] = case.key_bytes / row["bundled_us"] * 1e6
    row["operations_per_second"] = case.operations / row["bundled_us"] * 1e6
    return row


def show(row: dict[str, Any], copy: float, products: float) -> None:
    """Print one line about one case."""
    line = f"{row['case']:14} bundled {row['bundled_us']:8.1f} us"
    if "triton_us" in row:
        times = row["triton_us"] / row["bundled_us"]
        line += f"  triton {row['triton_us']:8.1f} us  {times:6.1f} times"
    line += f"  keys once {100 * row['bytes_per_second'] / copy:5.1f} % of the copy"
    line += f"  {100 * row['operations_per_second'] / products:5.1f} % of mma.sync"
    print(f"{line}  error {row['bundled_error']:.2f} of the allowed")


def main() -> int:
    """Measure, print, and fail if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--only", choices=[case.name for case in CASES])
    parser.add_argument("--no-peer", action="store_true")
    options = parser.parse_args()
    kernels = {"bundled": bundled_kernel()}
    if not options.no_peer:
        kernels["triton"] = triton_kernel()
    copy, products = copy_bytes_per_second(), products_per_second()
    name = torch.cuda.get_device_name()
    print(f"{name}: copy {copy / 1e12:.2f} TB/s, mma.sync {products / 1e12:.0f} TFLOP/s")
    rows = []
    for case in CASES:
        if options.only in (None, case.name):
            rows.append(measure(case, kernels))
            show(rows[-1], copy, products)
    if options.json:
        report = {"device": name, "copy": copy, "products": products, "rows": rows}
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return int(any(not row["bundled_error"] <= 1 for row in rows))


if __name__ == "__main__":
    sys.exit(main())
