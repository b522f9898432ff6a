"""The shapes over which a kernel is compared with the reference, and what one comparison finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernel_ext.problems import HEAD_DIM, Problem, random_problem
from kernel_ext.reference import allowed_error, reference_attention

if TYPE_CHECKING:
    from torch import Tensor

Kernel = Callable[[Problem, "Tensor"], object]
BLOCK_BYTES = 96 << 20
"""What the allocator may hold beyond what is in use: it rounds blocks up."""


@dataclass(frozen=True)
class Shape:
    """One verify step: the prefix and the draft tokens of each request, and heads a rank.

    `more` goes to `random_problem`.
    """

    prefixes: Sequence[int]
    drafts: int | Sequence[int]
    heads: int
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Such as `b64 d8 h8 777`, with what is special about it."""
        counts = [self.drafts] if isinstance(self.drafts, int) else sorted(set(self.drafts))
        prefixes = sorted(set(self.prefixes))
        drafts = "-".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
        lengths = "-".join(map(str, dict.fromkeys((prefixes[0], prefixes[-1]))))
        special = "".join(f" {name}={value:g}" for name, value in self.more.items())
        return f"b{len(self.prefixes)} d{drafts} h{self.heads} {lengths}{special}"

    @property
    def need(self) -> int:
        """Bytes of the card's memory that the inputs, the outputs and the reference take at most.

        The reference holds the keys of one request in bfloat16, fp32 and as amounts, its scores
        four times over, and both of its outputs.
        """
        counts = self.drafts
        drafts = [counts] * len(self.prefixes) if isinstance(counts, int) else list(counts)
        keys = [prefix + count for prefix, count in zip(self.prefixes, drafts, strict=True)]
        rows = sum(drafts) * self.heads
        pool = (sum(self.prefixes) + 8) * (HEAD_DIM * 2 + 24)
        masks = 2 * sum(count * one for count, one in zip(drafts, keys, strict=True))
        outputs = rows * (HEAD_DIM * 6 + 512 * 18)
        one = max(
            key * (HEAD_DIM * 6 + 512 * 8) + 16 * count * self.heads * key
            for key, count in zip(keys, drafts, strict=True)
        )
        normal = max(sum(self.prefixes) + 8, rows) * HEAD_DIM * 6
        return pool + masks + outputs + max(one, normal) + BLOCK_BYTES


SHAPES = (
    Shape([0], 1, 8),
    Shape([0], 64, 8),
    Shape([31, 0, 33, 1000], 8, 8),
    Shape([9] * 64, 1, 8),
    Shape([777] * 64, 8, 8, {"spare_mask": 1000}),
    Shape([10, 2000, 0], [3, 0, 9], 12),
    Shape([3000, 17], 64, 128),
    Shape([2000] * 5, 5, 24),
    Shape([0] * 64, 2, 128),
    Shape([512, 100], 64, 8, {"spread": 8.0}),
    Shape([64, 32, 96], 4, 8, {"spread": 30.0}),
    Shape([4096], 8, 16),
    Shape([32768], 8, 8),
    Shape([8192, 1], 16, 128),
    Shape([131072], 2, 8),
    Shape([131072], 64, 8),
    Shape([40000, 1], 16, 128),
)
"""Batches of 1 to 64, 1 to 64 draft tokens, 8 to 128 heads, prefixes of 0 to 131072 keys, requests
of different lengths and drafts, the mask as a graph's over-allocated buffer, wide scores."""


@dataclass(frozen=True)
class Errors:
    """How far a result is from the reference.

    absolute: the largest of an element; relative: the norm of a row's error as a part of the row's
    norm, the largest; part: the largest error as a part of what `allowed_error` allows; wrong: how
    many elements have more than that or are no numbers. No number counts as infinity.
    """

    absolute: float
    relative: float
    part: float
    wrong: int


def compare(problem: Problem, out: Tensor) -> Errors:
    """Return how far `out` is from the fp32 reference; shaped (tokens, heads, 512)."""
    expected, amounts = reference_attention(
        problem.q, problem.draft_keys, problem.pool, problem.batch, problem.scale
    )
    difference = out.float().sub_(expected)
    rows = difference.norm(dim=-1) / expected.norm(dim=-1).clamp_min(1e-12)
    absolute = difference.abs_()
    allowed = allowed_error(expected, amounts)
    wrong = int((~(absolute <= allowed)).sum())
    part = absolute / allowed
    return Errors(_largest(absolute), _largest(rows), _largest(part), wrong)


def _largest(tensor: Tensor) -> float:
    return float(tensor.nan_to_num(float("inf"), float("inf")).max()) if tensor.numel() else 0.0


def run(kernel: Kernel, shape: Shape) -> Errors:
    """Run a kernel on one shape, wait for it, and compare; raises what the launch raises."""
    import torch

    problem = random_problem(shape.prefixes, shape.drafts, shape.heads, **shape.more)
    out = problem.empty_output()
    kernel(problem, out)
    torch.cuda.synchronize()
    return compare(problem, out)
