"""Drives SGLang's real `TritonAttnBackend` through verify steps, outside a server.

The backend, its pools, its metadata and its layer are SGLang's own; only the carriers of
attributes around them (a model runner, a batch) are made here. Written for 0.5.21 to 0.5.23; what
another version wants raises, and the caller says so.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from kernel_ext.problems import HEAD_DIM, Problem

if TYPE_CHECKING:
    from torch import Tensor

RANK, ROPE, HEADS = 512, 64, 8
MODEL = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "vocab_size": 320,
    "hidden_size": 128,
    "intermediate_size": 128,
    "moe_intermediate_size": 64,
    "num_hidden_layers": 2,
    "first_k_dense_replace": 2,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
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
    "max_position_embeddings": 2048,
    "torch_dtype": "bfloat16",
}
"""A tiny DeepSeek-V3 whose attention has its real dimensions."""


def unpatched(module: ModuleType) -> ModuleType:
    """Return SGLang's module executed once more under another name: hooks did not touch it."""
    name = f"{module.__name__}__as_installed"
    assert module.__file__ is not None
    spec = importlib.util.spec_from_file_location(name, module.__file__)
    assert spec is not None
    assert spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    sys.modules[name] = copy
    spec.loader.exec_module(copy)
    return copy


class Server:
    """What a server has around its backends: pools and a runner, on `device` ("cpu" or "cuda").

    slots: of the pool of keys, one token each; requests: how many fit; context: the longest.
    """

    def __init__(self, device: str, dtype: Any, *, slots: int, requests: int, context: int) -> None:
        from sglang.srt.configs.model_config import ModelConfig
        from sglang.srt.mem_cache.kv_index_translator import KVIndexTranslator
        from sglang.srt.mem_cache.memory_pool import MLATokenToKVPool, ReqToTokenPool
        from sglang.srt.runtime_context import SpawnRanks, publish
        from sglang.srt.server_args import ServerArgs

        self.device = device
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "config.json").write_text(json.dumps(MODEL))
            arguments = ServerArgs(
                model_path=directory,
                device=device,
                attention_backend="triton",
                load_format="dummy",
                disable_cuda_graph=True,
            )
            publish(
                arguments,
                role="scheduler",
                ranks=SpawnRanks(world_rank=0, dp_rank=None, gpu_id=0),
            )
            model = ModelConfig.from_server_args(arguments)
        self.pool = MLATokenToKVPool(slots, 1, dtype, RANK, ROPE, 1, device, False)
        self.requests = ReqToTokenPool(requests, context, device, False)
        allocator = SimpleNamespace(get_kvcache=lambda: self.pool)
        translator = KVIndexTranslator(
            req_to_token=self.requests.req_to_token,
            token_to_kv_pool_allocator=allocator,
            token_to_kv_pool=self.pool,
            page_size=1,
            device=device,
        )
        self.drafts = 1
        self.runner = SimpleNamespace(
            req_to_token_pool=self.requests,
            sliding_window_size=None,
            token_to_kv_pool=self.pool,
            token_to_kv_pool_allocator=allocator,
            page_size=1,
            kv_index_translator=translator,
            decode_num_tokens_per_req=lambda **_: self.drafts,
            model_config=model,
            device=device,
            gpu_id=0,
            is_draft_worker=False,
            spec_algorithm=SimpleNamespace(is_dspark=lambda: False),
            kv_cache_dtype=dtype,
        )

    def step(self, backend_class: Any, problem: Problem) -> Step:
        """Prepare a verify step of `problem` with a new backend of this class.

        Every request must have the same number of draft tokens.
        """
        return Step(self, backend_class, problem)


class Step:
    """One verify step, ready to be run; `run` may be called again."""

    def __init__(self, server: Server, backend_class: Any, problem: Problem) -> None:
        from sglang.srt.layers.radix_attention import RadixAttention
        from sglang.srt.model_executor.forward_batch_info import ForwardMode

        self._problem = problem
        prefixes = problem.batch.kv_indptr.diff().tolist()
        server.drafts = drafts = problem.batch.most_drafts
        self._slots = self._fill(server, prefixes, drafts)
        self._keys = server.pool.kv_buffer[0]
        self._layer = RadixAttention(
            num_heads=problem.q.shape[1],
            head_dim=HEAD_DIM,
            scaling=problem.scale,
            num_kv_heads=1,
            layer_id=0,
            v_head_dim=RANK,
        )
        lengths = problem.batch.kv_indptr.diff().to(self._slots.dtype)
        self._batch = SimpleNamespace(
            batch_size=len(prefixes),
            forward_mode=ForwardMode.TARGET_VERIFY,
            spec_info=SimpleNamespace(
                custom_mask=problem.batch.mask, num_tokens_per_req=drafts, kv_indptr=None
            ),
            req_pool_indices=lengths.new_tensor(range(len(prefixes))),
            seq_lens=lengths,
            seq_lens_sum=sum(prefixes),
            kv_loc_plan=SimpleNamespace(
                is_read_by=lambda _: True, has_read_table=lambda *_, **__: False
            ),
            out_cache_loc=self._slots,
            out_cache_loc_is_physical=True,
            mha_one_shot=False,
            attn_attend_prefix_cache=None,
            extend_seq_lens_cpu=None,
            positions=None,
        )
        self.backend = backend_class(server.runner)
        self.backend.init_forward_metadata(self._batch)

    def _fill(self, server: Server, prefixes: list[int], drafts: int) -> Tensor:
        """Put the keys into the pool and the slots into the table; return those of the drafts."""
        problem, keys = self._problem, server.pool.kv_buffer[0]
        taken = problem.pool.shape[0]
        keys[:taken] = problem.pool
        begin = problem.batch.kv_indptr.tolist()
        for request, prefix in enumerate(prefixes):
            row = problem.batch.kv_indices[begin[request] : begin[request] + prefix]
            table = server.requests.req_to_token
            table[request, :prefix] = row.to(table.dtype)
        own = problem.batch.kv_indices.new_tensor(range(taken, taken + len(prefixes) * drafts))
        keys[own] = 0
        return own

    def run(self) -> Tensor:
        """Call forward_extend as a server's layer does; (tokens, heads x 512)."""
        problem = self._problem
        keys = problem.draft_keys
        result: Tensor = self.backend.forward_extend(
            problem.q, keys, keys[..., :RANK], self._layer, self._batch
        )
        return result

    def stored(self) -> bool:
        """Return whether the new keys are in the pool, as later steps need them."""
        return bool((self._keys[self._slots] == self._problem.draft_keys).all())
