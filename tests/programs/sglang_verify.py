"""Drive SGLang's real `TritonAttnBackend` through verify steps, in its environment.

    TRITON_INTERPRET=1 python sglang_verify.py MODEL_DIRECTORY < cases.json
    python sglang_verify.py MODEL_DIRECTORY cuda < cases.json

SGLang's own kernel runs in Triton's interpreter, in float32: the interpreter gets bfloat16 wrong.
The bundled CUDA kernel cannot run here; where the patch would start it, the torch reference does.
With `cuda` all runs on the GPU, in bfloat16, and the bundled kernel answers. Compiled packages that
SGLang imports there, and that are not installed, have stand-ins (`compiled_neighbours.py`): nothing
in a case's way calls them. A case with `then` is recorded in a CUDA graph, with the lengths of
`prefixes`, and replayed with those of `then`; where these are fewer, the batch is padded as
SGLang's graph runner does: requests of its fill value's length that read row 0 and write to slot 0.
Standard input has a list of cases, standard output gets a list of reports.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

RANK, ROPE, DRAFTS = 512, 64, 4
TREE = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]], dtype=torch.bool)
SCALE = 192**-0.5
SLOTS, LONGEST = 8192, 2048
DEVICE = sys.argv[2] if len(sys.argv) > 2 else "cpu"
DTYPE = torch.bfloat16 if DEVICE == "cuda" else torch.float32


class ReferenceRunner:
    """The stand-in for the CUDA kernel."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def refuses(self, call: Any) -> str | None:
        return None

    def run(self, call: Any, out: Any) -> None:
        from kernel_ext.reference import reference_attention

        expected, _ = reference_attention(
            call.q, call.draft_keys, call.pool, call.batch, call.scale
        )
        out.view(expected.shape).copy_(expected * self.factor)


def make_model(directory: Path, heads: int) -> None:
    """Write the configuration of a tiny DeepSeek-V3 whose attention has its real dimensions."""
    directory.mkdir(parents=True, exist_ok=True)
    sizes = {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "vocab_size": 320,
        "hidden_size": 128,
        "intermediate_size": 128,
        "moe_intermediate_size": 64,
        "num_hidden_layers": 2,
        "first_k_dense_replace": 2,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "n_routed_experts": 8,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
        "kv_lora_rank": RANK,
        "q_lora_rank": 64,
        "qk_rope_head_dim": ROPE,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "max_position_embeddings": LONGEST,
        "torch_dtype": "bfloat16",
    }
    (directory / "config.json").write_text(json.dumps(sizes))


class Server:
    """A backend with its pool."""

    def __init__(self, model: Path, heads: int) -> None:
        from sglang.srt.configs.model_config import ModelConfig
        from sglang.srt.layers.attention import triton_backend
        from sglang.srt.mem_cache.kv_index_translator import KVIndexTranslator
        from sglang.srt.mem_cache.memory_pool import MLATokenToKVPool, ReqToTokenPool
        from sglang.srt.runtime_context import SpawnRanks, publish
        from sglang.srt.server_args import ServerArgs

        make_model(model, heads)
        arguments = ServerArgs(
            model_path=str(model),
            device=DEVICE,
            attention_backend="triton",
            load_format="dummy",
            disable_cuda_graph=True,
            speculative_num_draft_tokens=DRAFTS,
        )
        ranks = SpawnRanks(world_rank=0, dp_rank=None, gpu_id=0)
        publish(arguments, role="scheduler", ranks=ranks)
        self.pool = MLATokenToKVPool(SLOTS, 1, DTYPE, RANK, ROPE, 1, DEVICE, False)
        self.requests = ReqToTokenPool(8, LONGEST, DEVICE, False)
        allocator = SimpleNamespace(get_kvcache=lambda: self.pool)
        translator = KVIndexTranslator(
            req_to_token=self.requests.req_to_token,
            token_to_kv_pool_allocator=allocator,
            token_to_kv_pool=self.pool,
            page_size=1,
            device=DEVICE,
        )
        # Only these carriers of attributes are not SGLang's.
        runner = SimpleNamespace(
            req_to_token_pool=self.requests,
            sliding_window_size=None,
            token_to_kv_pool=self.pool,
            token_to_kv_pool_allocator=allocator,
            page_size=1,
            kv_index_translator=translator,
            decode_num_tokens_per_req=lambda **_: DRAFTS,
            model_config=ModelConfig.from_server_args(arguments),
            device=DEVICE,
            gpu_id=0,
            is_draft_worker=False,
            spec_algorithm=SimpleNamespace(is_dspark=lambda: False),
            kv_cache_dtype=DTYPE,
        )
        self.module = triton_backend
        self.backend = triton_backend.TritonAttnBackend(runner)

    def layer(self, heads: int, changes: dict[str, Any]) -> Any:
        """Make an absorbed MLA layer with these attributes changed."""
        from sglang.srt.layers.radix_attention import RadixAttention

        layer = RadixAttention(
            num_heads=heads,
            head_dim=RANK + ROPE,
            scaling=SCALE,
            num_kv_heads=1,
            layer_id=0,
            v_head_dim=RANK,
        )
        for name, value in changes.items():
            setattr(layer, name, value)
        return layer

    def batch(self, mode: str, prefixes: list[int]) -> Any:
        """Fill the pool with random keys at random slots, and describe the batch."""
        from sglang.srt.model_executor.forward_batch_info import ForwardMode

        torch.manual_seed(0)
        torch.set_default_device(DEVICE)
        count = len(prefixes)
        slots = torch.randperm(SLOTS - 1)[: sum(prefixes) + count * DRAFTS] + 1
        self.pool.kv_buffer[0].normal_(std=0.3)
        self.slots, at = [], 0
        for request, prefix in enumerate(prefixes):
            own = slots[at : at + prefix]
            self.requests.req_to_token[request, :prefix] = own.to(torch.int32)
            self.slots.append(slots[at + prefix : at + prefix + DRAFTS])
            at += prefix + DRAFTS
        sees = [
            torch.cat([torch.ones(DRAFTS, n, dtype=torch.bool), TREE.to(DEVICE)], 1)
            for n in prefixes
        ]
        lengths = torch.tensor(prefixes, dtype=torch.int64)
        drafts = torch.full((count,), DRAFTS, dtype=torch.int64)
        verify = mode == "TARGET_VERIFY"
        return SimpleNamespace(
            batch_size=count,
            forward_mode=ForwardMode[mode],
            spec_info=SimpleNamespace(
                custom_mask=torch.cat([one.flatten() for one in sees]),
                num_tokens_per_req=DRAFTS,
                kv_indptr=None,
            )
            if verify
            else None,
            req_pool_indices=torch.arange(count),
            seq_lens=lengths if verify else lengths + drafts,
            seq_lens_sum=int(lengths.sum()),
            kv_loc_plan=SimpleNamespace(
                is_read_by=lambda _: True, has_read_table=lambda *_, **__: False
            ),
            out_cache_loc=torch.cat(self.slots).long(),
            out_cache_loc_is_physical=True,
            mha_one_shot=False,
            attn_attend_prefix_cache=None,
            extend_seq_lens=drafts,
            extend_seq_lens_cpu=[DRAFTS] * count,
            extend_prefix_lens=lengths,
            extend_prefix_lens_cpu=prefixes,
            positions=None,
            encoder_lens=None,
        )

    def inputs(self, case: dict[str, Any], prefixes: list[int]) -> tuple[Any, Any, Any]:
        """Make a batch, its queries and its new keys; the same ones for the same lengths."""
        batch = self.batch(case.get("mode", "TARGET_VERIFY"), prefixes)
        tokens, heads = len(prefixes) * DRAFTS, case.get("heads", 1)
        q = torch.randn(tokens, heads, RANK + ROPE).to(DTYPE) * 0.3
        k = torch.randn(tokens, 1, RANK + ROPE).to(DTYPE) * 0.3
        return batch, q.flatten(1) if case.get("flat") else q, k

    def run(self, case: dict[str, Any], prefixes: list[int]) -> tuple[Any, bool]:
        """Call forward_extend; its result, and whether the new keys are in the pool afterwards."""
        batch, q, k = self.inputs(case, prefixes)
        extra, heads = dict(case.get("arguments", {})), case.get("heads", 1)
        if case.get("sinks"):
            extra["sinks"] = torch.zeros(heads)
        self.backend.init_forward_metadata(batch)
        layer = self.layer(heads, case.get("layer", {}))
        out = self.backend.forward_extend(q, k, k[..., :RANK], layer, batch, **extra)
        return out, torch.equal(self.pool.kv_buffer[0][batch.out_cache_loc], k)

    def replay(self, case: dict[str, Any]) -> tuple[Any, bool]:
        """Record forward_extend as SGLang's graph runner does, and replay it for other lengths."""
        batch, q, k = self.inputs(case, case["prefixes"])
        layer = self.layer(case.get("heads", 1), {})
        self.backend.init_cuda_graph_state(batch.batch_size, len(q))
        self.backend.init_forward_metadata_out_graph(batch, in_capture=True)
        play, out = recorded(lambda: self.backend.forward_extend(q, k, k[..., :RANK], layer, batch))
        later, later_q, later_k = self.inputs(case, case["then"])
        real = later.out_cache_loc
        batch.out_cache_loc.zero_()
        for static, new in ((q, later_q), (k, later_k), (batch.out_cache_loc, real)):
            static[: len(new)].copy_(new)
        self.pad(later, batch.batch_size)
        self.backend.init_forward_metadata_out_graph(later)
        play()
        return out[: len(later_q)], torch.equal(self.pool.kv_buffer[0][real], later_k)

    def pad(self, batch: Any, count: int) -> None:
        """Fill a batch up to the size that was recorded; its mask stays that of the real ones.

        From SGLang 0.5.21 model_executor/runner/base_runner.py and decode_cuda_graph_runner.py.
        """
        more, length = count - batch.batch_size, self.backend.get_cuda_graph_seq_len_fill_value()
        batch.batch_size = count
        batch.req_pool_indices = torch.cat(
            [batch.req_pool_indices, batch.req_pool_indices.new_zeros(more)]
        )
        batch.seq_lens = torch.cat([batch.seq_lens, batch.seq_lens.new_full((more,), length)])
        batch.seq_lens_sum += more * length


def recorded(call: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
    """Record a call in a CUDA graph, after a run outside of it; return its replay and result."""
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        call()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            result = call()
    stream.synchronize()

    def play() -> None:
        graph.replay()
        torch.cuda.synchronize()

    return play, result


def row_error(got: Any, expected: Any) -> float:
    """Return the largest error of a row of one head, as a part of the row's norm."""
    rows = (-1, RANK)
    difference = (got.float() - expected.float()).view(rows).norm(dim=1)
    return float((difference / expected.float().view(rows).norm(dim=1)).max())


class Said(logging.Handler):
    """Keeps what the patch logs."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())

    def take(self) -> list[str]:
        """Return the messages, and forget them."""
        taken, self.messages = self.messages, []
        return taken


def counted() -> dict[str, int]:
    """Return the counters, and set them back."""
    from kernel_ext import counters

    numbers = {name: value for name, value in vars(counters).items() if isinstance(value, int)}
    for name in numbers:
        setattr(counters, name, 0)
    return numbers


def run_case(server: Server, case: dict[str, Any], said: Said) -> dict[str, Any]:
    """Run one case unpatched and patched."""
    from kernel_ext import counters, patch

    original = server.module.TritonAttnBackend.forward_extend
    prefixes = case.get("then", case.get("prefixes", [5]))
    expected, stored_before = server.run(case, prefixes)
    os.environ[patch.VARIABLE] = case.get("kernel", "on")
    runner = ReferenceRunner(case.get("factor", 1.0)) if DEVICE == "cpu" else None
    applied = patch.apply(server.module, runner)
    current = server.module.TritonAttnBackend.forward_extend
    kernel = server.backend.extend_attention_fwd
    got, stored = server.replay(case) if "then" in case else server.run(case, prefixes)
    patch.remove(server.module)
    reasons = dict(counters.reasons)
    counters.reasons.clear()
    return {
        "applied": applied,
        "function_of": current.__code__.co_filename,
        "kernel_is_back": server.backend.extend_attention_fwd is kernel,
        "removed": server.module.TritonAttnBackend.forward_extend is original,
        "error": float((got - expected).abs().max()),
        "row_error": row_error(got, expected),
        "scale": float(expected.abs().max()),
        "shape": list(got.shape),
        "dtype": str(got.dtype),
        "stored": [stored_before, stored],
        "counters": counted(),
        "reasons": reasons,
        "said": said.take(),
    }


def main() -> None:
    """Run the cases that standard input describes."""
    cases = json.load(sys.stdin)
    if DEVICE == "cuda":
        from tests.programs import compiled_neighbours

        compiled_neighbours.install()
    server = Server(Path(sys.argv[1]), 8)
    said, log = Said(), logging.getLogger("kernel_ext")
    log.addHandler(said)
    log.setLevel(logging.INFO)
    print(json.dumps([run_case(server, case, said) for case in cases]))


if __name__ == "__main__":
    main()
