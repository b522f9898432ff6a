"""A call of SGLang's kernel is read right whatever the release, and refused if it asks for more."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from kernel_ext.call import Call, read_call

RELEASES: dict[str, Any] = json.loads(
    Path(__file__).with_name("sglang-signatures.json").read_text()
)
SCALE = 0.0721
DRAFTS = 4
TOKENS, HEADS, SLOTS = 8, 16, 300


@dataclass(frozen=True)
class Shape:
    """What read_call asks of a tensor; torch is not installed where these tests run."""

    shape: tuple[int, ...]
    strides: tuple[int, ...] = ()
    dtype: str = "bfloat16"
    size: int = 2
    address: int = 4096

    def stride(self) -> tuple[int, ...]:
        return self.strides or self.dense()

    def dense(self) -> tuple[int, ...]:
        steps = [1]
        for length in self.shape[:0:-1]:
            steps.insert(0, steps[0] * length)
        return tuple(steps)

    def is_contiguous(self) -> bool:
        return self.stride() == self.dense()

    def data_ptr(self) -> int:
        return self.address

    def element_size(self) -> int:
        return self.size


POOL = Shape((SLOTS, 1, 576), address=1 << 20)

# What the names in forward_extend stand for in a verify step; see the fourth column of the table of
# signatures. Everything that is not named here is None.
MEANING: dict[str, Any] = {
    "q.view(-1, layer.tp_q_head_num, layer.qk_head_dim)": Shape((TOKENS, HEADS, 576)),
    "k.contiguous()": Shape((TOKENS, 1, 576)),
    "k.contiguous() if self.dllm_attention is None else k": Shape((TOKENS, 1, 576)),
    "v.contiguous()": Shape((TOKENS, 1, 512)),
    "v.contiguous() if self.dllm_attention is None else v": Shape((TOKENS, 1, 512)),
    "o.view(-1, layer.tp_q_head_num, layer.v_head_dim)": Shape((TOKENS, HEADS, 512)),
    "self.token_to_kv_pool.get_key_buffer(layer.layer_id)": POOL,
    "self.token_to_kv_pool.get_value_buffer(layer.layer_id)": replace(
        POOL, shape=(SLOTS, 1, 512), strides=(576, 576, 1)
    ),
    "forward_batch.token_to_kv_pool.get_key_buffer(layer.layer_id)": POOL,
    "forward_batch.token_to_kv_pool.get_value_buffer(layer.layer_id)": replace(
        POOL, shape=(SLOTS, 1, 512), strides=(576, 576, 1)
    ),
    "self.forward_metadata.qo_indptr": Shape((3,), dtype="int32", size=4),
    "kv_indptr": Shape((3,), dtype="int32", size=4),
    "kv_indices": Shape((40,), dtype="int64", size=8),
    "self.forward_metadata.custom_mask": Shape((200,), dtype="bool", size=1),
    "self.forward_metadata.mask_indptr": Shape((3,), dtype="int64", size=8),
    "self.forward_metadata.max_extend_len": DRAFTS,
    "causal": True,
    "k_descale": 1.0,
    "v_descale": 1.0,
    "layer.scaling": SCALE,
    "logits_soft_cap": 0.0,
    "sliding_window_size": -1,
    "layer.xai_temperature_len": -1,
    "self.page_size": 1,
    "forward_batch.extend_seq_lens_cpu": [DRAFTS, DRAFTS],
}
UNSET = {"sinks", "window_kv_offsets", "score_mod", "aux_tensors"}


def declared(release: str) -> Callable[..., None]:
    """Declare a kernel with the release's signature."""
    space: dict[str, Any] = {}
    exec(f"def kernel({RELEASES[release]['kernel']}): pass", space)
    kernel: Callable[..., None] = space["kernel"]
    return kernel


def called(release: str, **changes: Any) -> Call | str:
    """Read the call that the release's forward_extend makes, with the named values changed."""
    facts = RELEASES[release]
    meaning = MEANING | dict.fromkeys(UNSET) | changes
    words = {name: meaning[text] for name, text in facts["keywords"].items()}
    return read_call(declared(release), tuple(meaning[text] for text in facts["positional"]), words)


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_is_read_right(release: str) -> None:
    call = called(release)
    assert isinstance(call, Call), call
    assert call.scale == SCALE  # 1.0 where positions of another release were taken
    assert call.q.shape == (TOKENS, HEADS, 576)
    assert call.draft_keys.shape == (TOKENS, 1, 576)
    assert call.pool is POOL
    assert call.out.shape == (TOKENS, HEADS, 512)
    assert call.batch.most_drafts == DRAFTS
    assert call.batch.kv_indices.dtype == "int64"
    assert call.batch.mask.dtype == "bool"
    assert call.batch.mask_indptr is MEANING["self.forward_metadata.mask_indptr"]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("logits_soft_cap", 30.0, "argument logit_cap"),
        ("sliding_window_size", 128, "argument sliding_window_size"),
        ("layer.xai_temperature_len", 8192, "argument xai_temperature_len"),
        ("sinks", Shape((HEADS,)), "argument sinks"),
        ("self.forward_metadata.custom_mask", None, "no custom_mask"),
        ("self.forward_metadata.max_extend_len", 65, "16 heads and 65 draft tokens"),
    ],
)
def test_what_the_kernel_lacks_falls_back(
    release: str, name: str, value: object, reason: str
) -> None:
    assert called(release, **{name: value}) == reason


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("k_descale", 0.5, "argument k_scale"),
        ("self.page_size", 64, "argument page_size"),
        ("score_mod", print, "argument score_mod"),
        ("aux_tensors", [1], "argument aux_tensors"),
    ],
)
def test_newer_arguments_fall_back(name: str, value: object, reason: str) -> None:
    assert called("0.5.23", **{name: value}) == reason


def test_an_argument_of_a_later_release_falls_back_unless_it_has_its_default() -> None:
    space: dict[str, Any] = {}
    exec(f"def kernel({RELEASES['0.5.23']['kernel']}, new=3): pass", space)
    facts = RELEASES["0.5.23"]
    meaning = MEANING | dict.fromkeys(UNSET)
    args = tuple(meaning[text] for text in facts["positional"])
    assert isinstance(read_call(space["kernel"], args, {"new": 3}), Call)
    assert read_call(space["kernel"], args, {"new": 4}) == "argument new"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        (
            "q.view(-1, layer.tp_q_head_num, layer.qk_head_dim)",
            Shape((TOKENS, HEADS, 192)),
            "not absorbed MLA: keys are not 1 x 576",
        ),
        (
            "q.view(-1, layer.tp_q_head_num, layer.qk_head_dim)",
            Shape((TOKENS, HEADS, 576), strides=(HEADS * 577, 577, 1)),
            "rows that do not begin at a multiple of 16 bytes",
        ),
        (
            "self.token_to_kv_pool.get_value_buffer(layer.layer_id)",
            Shape((SLOTS, 1, 512), address=1 << 21),
            "values are not the first columns of the keys",
        ),
        (
            "self.token_to_kv_pool.get_key_buffer(layer.layer_id)",
            replace(POOL, dtype="float8_e4m3fn"),
            "q, keys and output differ in type",
        ),
        (
            "k.contiguous()",
            Shape((TOKENS, HEADS, 192)),
            "not absorbed MLA: new keys and values are not 1 x 576 and 1 x 512",
        ),
        (
            "q.view(-1, layer.tp_q_head_num, layer.qk_head_dim)",
            Shape((TOKENS, 256, 576)),
            "256 heads and 4 draft tokens",
        ),
    ],
)
def test_other_shapes_fall_back(name: str, value: object, reason: str) -> None:
    assert called("0.5.21", **{name: value}) == reason


def test_arguments_that_do_not_fit_fall_back() -> None:
    assert read_call(declared("0.5.21"), (1, 2), {}) == (
        "arguments that do not fit the kernel's signature"
    )
