"""SGLang's own Triton kernel, called as its `TritonAttnBackend.forward_extend` calls it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernel_ext.build import VALUE_DIM

if TYPE_CHECKING:
    from torch import Tensor

    from kernel_ext.problems import Problem


def triton_kernel() -> Callable[[Problem, Tensor], object]:
    """Return SGLang's kernel. Raises ImportError, and whatever else its import raises."""
    return functools.partial(_run, extend_attention())


def extend_attention() -> Callable[..., Any]:
    """Return the function `extend_attention_fwd` of the installed SGLang (moved in 0.5.16)."""
    try:
        from sglang.kernels.ops.attention.extend_attention import extend_attention_fwd
    except ModuleNotFoundError as problem:
        if not (problem.name or "").startswith("sglang.kernels"):
            raise
        from sglang.srt.layers.attention.triton_ops.extend_attention import extend_attention_fwd
    return extend_attention_fwd  # type: ignore[no-any-return]


def _run(kernel: Callable[..., Any], problem: Problem, out: Tensor) -> object:
    batch = problem.batch
    scales = {"k_scale": 1.0, "v_scale": 1.0}  # parameters from 0.5.10 on
    known = inspect.signature(kernel).parameters
    return kernel(
        q_extend=problem.q,
        k_extend=problem.draft_keys,
        v_extend=problem.draft_keys[..., :VALUE_DIM],
        o_extend=out,
        k_buffer=problem.pool,
        v_buffer=problem.pool[..., :VALUE_DIM],
        qo_indptr=batch.qo_indptr,
        kv_indptr=batch.kv_indptr,
        kv_indices=batch.kv_indices,
        custom_mask=batch.mask,
        is_causal=True,
        mask_indptr=batch.mask_indptr,
        max_len_extend=batch.most_drafts,
        sm_scale=problem.scale,
        **{name: value for name, value in scales.items() if name in known},
    )
