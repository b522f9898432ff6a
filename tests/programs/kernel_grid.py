"""The kernel over a small grid of shapes, for compute-sanitizer; prints the worst error of each.

    compute-sanitizer --tool memcheck --error-exitcode 99 python tests/programs/kernel_grid.py

Errors are parts of the allowed one. Ends with 1 if one of them is above it.
"""

from __future__ import annotations

import json
import sys

import torch

from kernel_ext.launch import VerifyAttention
from kernel_ext.problems import random_problem
from kernel_ext.reference import allowed_error, reference_attention

SHAPES: tuple[tuple[list[int], list[int], int, int], ...] = (
    ([0], [1], 8, 0),
    ([33, 0, 100], [8, 8, 8], 8, 0),
    ([5, 700, 0], [3, 0, 9], 12, 200),
    ([64] * 4, [2] * 4, 128, 0),
    ([1500], [64], 8, 0),
    ([40, 1], [16, 16], 128, 64),
)
"""Prefixes, draft tokens, heads, spare bytes of the mask."""


def main() -> int:
    """Run the grid."""
    kernel = VerifyAttention(torch.cuda.current_device())
    worst = []
    for prefixes, drafts, heads, spare in SHAPES:
        p = random_problem(prefixes, drafts, heads, spare_mask=spare)
        out = p.empty_output()
        kernel(p.q, p.draft_keys, p.pool, out, p.batch, p.scale)
        torch.cuda.synchronize()
        expected, amounts = reference_attention(p.q, p.draft_keys, p.pool, p.batch, p.scale)
        part = (out.float() - expected).abs() / allowed_error(expected, amounts)
        worst.append(float(part.nan_to_num(float("inf")).max()))
    print(json.dumps(worst))
    return int(any(not one <= 1 for one in worst))


if __name__ == "__main__":
    sys.exit(main())
