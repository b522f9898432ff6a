"""One call of SGLang's extend kernel, and whether the bundled kernel can answer it.

The parameters are read by name, not by position: `k_scale` and `v_scale` were put before `sm_scale`
in 0.5.10, and every few releases add a parameter. One that is not known here must have its default
value, or the call falls back: what it would change is unknown.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kernel_ext.launch import Batch

if TYPE_CHECKING:
    from torch import Tensor

HEAD_DIM = 576
VALUE_DIM = 512
MOST_HEADS = 128
MOST_DRAFTS = 64

TENSORS = (
    "q_extend",
    "k_extend",
    "v_extend",
    "o_extend",
    "k_buffer",
    "v_buffer",
    "qo_indptr",
    "kv_indptr",
    "kv_indices",
    "custom_mask",
    "mask_indptr",
)
READ = frozenset({*TENSORS, "max_len_extend", "sm_scale"})

IGNORED = frozenset({"is_causal", "extend_seq_lens_cpu"})
"""The mask replaces the causal test; the lengths on the host serve another grid."""

NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "k_scale": (None, 1.0),
    "v_scale": (None, 1.0),
    "logit_cap": (None, 0.0),
    "skip_prefix_custom_mask": (True,),
    "sliding_window_size": (None, -1),
    "xai_temperature_len": (None, -1),
    "page_size": (1,),
}
"""The values with which a parameter changes nothing; for those not named here, their default."""


@dataclass(frozen=True)
class Call:
    """The arguments of one call that the bundled kernel can answer."""

    q: Tensor
    draft_keys: Tensor
    pool: Tensor
    out: Tensor
    batch: Batch
    scale: float


@lru_cache(maxsize=8)
def _signature(kernel: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(kernel)


def read_call(
    kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Call | str:
    """Return the call, or why the bundled kernel cannot answer it."""
    signature = _signature(kernel)
    try:
        values = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return "arguments that do not fit the kernel's signature"
    for name, value in values.items():
        if name in READ or name in IGNORED:
            continue
        neutral = NEUTRAL.get(name, (signature.parameters[name].default,))
        if not any(value is one or _equal(value, one) for one in neutral):
            return f"argument {name}"
    missing = [name for name in TENSORS if values.get(name) is None]
    if missing:
        return f"no {missing[0]}"
    scale = values.get("sm_scale") or HEAD_DIM**-0.5
    return _tensors(values, values["max_len_extend"], scale)


def _equal(value: object, neutral: object) -> bool:
    return isinstance(value, bool | int | float) and value == neutral


def _tensors(values: Mapping[str, Any], drafts: int, scale: float) -> Call | str:
    q, k, v, out, keys, v_buffer = (values[name] for name in TENSORS[:6])
    heads = q.shape[1]
    if q.shape[2] != HEAD_DIM or keys.shape[1:] != (1, HEAD_DIM):
        return "not absorbed MLA: keys are not 1 x 576"
    if k.shape[1:] != (1, HEAD_DIM) or v.shape[1:] != (1, VALUE_DIM):
        return "not absorbed MLA: new keys and values are not 1 x 576 and 1 x 512"
    if v_buffer.data_ptr() != keys.data_ptr() or v_buffer.stride() != keys.stride():
        return "values are not the first columns of the keys"
    if not 1 <= heads <= MOST_HEADS or not 1 <= drafts <= MOST_DRAFTS:
        return f"{heads} heads and {drafts} draft tokens"
    if len({tensor.dtype for tensor in (q, k, keys, out)}) != 1:
        return "q, keys and output differ in type"
    if not out.is_contiguous() or not all(map(_rows_fit, (q, k, keys))):
        return "rows that do not begin at a multiple of 16 bytes"
    batch = Batch(
        qo_indptr=values["qo_indptr"],
        kv_indptr=values["kv_indptr"],
        kv_indices=values["kv_indices"],
        mask=values["custom_mask"],
        mask_indptr=values["mask_indptr"],
        most_drafts=drafts,
    )
    if batch.mask.element_size() != 1 or batch.mask_indptr.element_size() != 8:
        return "a mask that is not one byte a value"
    return Call(q, k, keys, out, batch, scale)


def _rows_fit(tensor: Tensor) -> bool:
    size = tensor.element_size()
    strides = tensor.stride()
    return (
        strides[-1] == 1
        and tensor.data_ptr() % 16 == 0
        and all(stride * size % 16 == 0 for stride in strides[:-1])
    )
