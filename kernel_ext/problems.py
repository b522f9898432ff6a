"""Random verify steps: the shapes of SGLang's TARGET_VERIFY, on any device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernel_ext.build import VALUE_DIM
from kernel_ext.launch import Batch

if TYPE_CHECKING:
    import torch
    from torch import Tensor

HEAD_DIM = 576
SCALE = 192**-0.5
"""The scale of DeepSeek-V3's and Kimi-K2's attention: 128 + 64 columns before absorption."""


@dataclass(frozen=True)
class Problem:
    """The inputs of one call; see `VerifyAttention.__call__` for the shapes."""

    q: Tensor
    draft_keys: Tensor
    pool: Tensor
    batch: Batch
    scale: float = SCALE

    def empty_output(self) -> Tensor:
        """Return an output filled with a number that no attention yields."""
        return self.q.new_full((*self.q.shape[:2], VALUE_DIM), float("nan"))


def random_problem(
    prefixes: Sequence[int],
    drafts: int | Sequence[int],
    heads: int,
    *,
    device: str = "cuda",
    dtype: torch.dtype | None = None,
    seed: int = 0,
    spare_mask: int = 0,
    spread: float = 1.0,
) -> Problem:
    """Make requests with these prefix lengths and draft tokens, random trees and scattered slots.

    `spare_mask`: so many values more than needed, as in the uint8 buffer that a CUDA graph's mask
    is; 0: a bool mask of just the size. `spread` scales q, and with it how far scores differ.
    """
    import torch

    make = torch.Generator(device=device).manual_seed(seed)
    counts = [drafts] * len(prefixes) if isinstance(drafts, int) else list(drafts)
    dtype = dtype or torch.bfloat16
    tokens, keys = sum(counts), sum(prefixes)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=make, device=device, dtype=torch.float32).to(dtype)

    slots = torch.randperm(keys + 7, generator=make, device=device)[:keys] + 1
    masks = [_mask(prefix, count, make) for prefix, count in zip(prefixes, counts, strict=True)]
    mask = torch.cat(masks) if masks else torch.zeros(0, dtype=torch.bool, device=device)
    if spare_mask:
        mask = torch.cat([mask.to(torch.uint8), mask.new_ones(spare_mask, dtype=torch.uint8)])
    batch = Batch(
        qo_indptr=_offsets(counts, torch.int32, device),
        kv_indptr=_offsets(prefixes, torch.int32, device),
        kv_indices=slots.to(torch.int64),
        mask=mask,
        mask_indptr=_offsets([len(one) for one in masks], torch.int64, device),
        most_drafts=max(counts, default=0),
    )
    q, pool = normal(tokens, heads, HEAD_DIM) * spread, normal(keys + 8, 1, HEAD_DIM)
    return Problem(q, normal(tokens, 1, HEAD_DIM), pool, batch)


def _offsets(counts: Sequence[int], dtype: torch.dtype, device: str) -> Tensor:
    import torch

    ends = torch.tensor([0, *counts], dtype=torch.int64).cumsum(0)
    return ends.to(dtype).to(device)


def _mask(prefix: int, drafts: int, make: torch.Generator) -> Tensor:
    """Make a random tree: each token sees the prefix, itself, its parent and what that one sees."""
    import torch

    tree = torch.eye(drafts, dtype=torch.bool)
    parents = torch.rand(max(drafts, 1), generator=make, device=make.device).tolist()
    for token in range(1, drafts):
        tree[token] |= tree[int(parents[token] * token)]
    sees_prefix = torch.ones((drafts, prefix), dtype=torch.bool, device=make.device)
    return torch.cat([sees_prefix, tree.to(make.device)], dim=1).flatten()
