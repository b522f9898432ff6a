"""Starting the kernel on torch tensors."""

from __future__ import annotations

from ctypes import c_float, c_int32, c_int64
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernel_ext.build import (
    MERGE_THREADS,
    ROWS,
    SHARED_BYTES,
    THREADS,
    VALUE_DIM,
    compile_kernel,
)

if TYPE_CHECKING:
    from cuda.core import Kernel
    from torch import Tensor

LOG2_E = 1.4426950408889634
LEAST_TILES = 2
"""A block walks over at least so many tiles of 32 keys: with fewer, joining the partial results
costs more than the walk saves (docs/kernel.md)."""


@dataclass(frozen=True)
class Batch:
    """The requests of one call; all are tensors on the device, none is read by the host.

    qo_indptr and kv_indptr: (requests + 1,), int32 or int64; kv_indices: slot numbers, int32 or
    int64, may be longer than needed; mask: bool or uint8, for each request its drafts x (prefix +
    drafts) values, of which only the draft columns are read; mask_indptr: (requests + 1,) int64,
    where each request's values begin; most_drafts: no request has more draft tokens.
    """

    qo_indptr: Tensor
    kv_indptr: Tensor
    kv_indices: Tensor
    mask: Tensor
    mask_indptr: Tensor
    most_drafts: int


class VerifyAttention:
    """The kernel, loaded on one device, with its workspace.

    The workspace is allocated here and never again: 2 x 64 x 512 fp32 values for each block, 34 MiB
    on a device of 132 multiprocessors. Calls on several streams at once would share it: use one
    object for each.
    """

    def __init__(self, device: int) -> None:
        import torch
        from cuda.core import Device

        self.device = device
        Device(device).set_current()
        properties = torch.cuda.get_device_properties(device)
        self.multiprocessors = int(properties.multi_processor_count)
        self.architecture = f"sm_{properties.major}{properties.minor}"
        code = compile_kernel(self.architecture)
        self.attention = code.get_kernel("verify_attention")
        self.merge = code.get_kernel("merge_partials")
        _allow_shared_memory(self.attention, device)
        blocks = max(self.multiprocessors, 8192 // ROWS)
        shape = (blocks * 2 * ROWS,)
        self._sums = torch.empty((*shape, 2), dtype=torch.float32, device=f"cuda:{device}")
        self._out = torch.empty((*shape, VALUE_DIM), dtype=torch.float32, device=f"cuda:{device}")

    def __call__(
        self, q: Tensor, draft_keys: Tensor, pool: Tensor, out: Tensor, batch: Batch, scale: float
    ) -> None:
        """Write attention of `q` over the pool's and the drafts' keys to `out`.

        q: (tokens, heads, 576), last dimension contiguous; draft_keys: (tokens, 1, 576); pool:
        (slots, 1, 576); all bfloat16 with rows that begin at multiples of 16 bytes; out: (tokens,
        heads, 512), contiguous bfloat16. Allocates nothing and does not wait, so it can be recorded
        in a graph. Raises nothing for a kernel that fails: CUDA reports that later.
        """
        import torch
        from cuda.core import LaunchConfig, Stream, launch

        heads, requests = q.shape[1], batch.qo_indptr.shape[0] - 1
        row_blocks = -(-batch.most_drafts * heads // ROWS)
        groups = max(1, self.multiprocessors // row_blocks)
        indices = (batch.kv_indptr, batch.qo_indptr, batch.kv_indices)
        wide = sum((array.dtype == torch.int64) << bit for bit, array in enumerate(indices))
        strides = (q.stride(0), q.stride(1), draft_keys.stride(0), pool.stride(0))
        stream = Stream.from_handle(torch.cuda.current_stream(self.device).cuda_stream)
        launch(
            stream,
            LaunchConfig(grid=groups * row_blocks, block=THREADS, shmem_size=SHARED_BYTES),
            self.attention,
            *(tensor.data_ptr() for tensor in (q, draft_keys, pool, out, *indices)),
            batch.mask.data_ptr(),
            batch.mask_indptr.data_ptr(),
            self._out.data_ptr(),
            self._sums.data_ptr(),
            *map(c_int32, (requests, wide, heads, row_blocks, groups, LEAST_TILES)),
            c_float(scale * LOG2_E),
            *(c_int64(2 * stride) for stride in strides),
        )
        if groups == 1:
            return
        by_cut = requests > groups - 1
        grid = (groups - 1 if by_cut else requests, row_blocks, ROWS)
        launch(
            stream,
            LaunchConfig(grid=grid, block=MERGE_THREADS),
            self.merge,
            *(tensor.data_ptr() for tensor in (self._out, self._sums, out, *indices[:2])),
            *map(c_int32, (requests, wide, heads, groups, LEAST_TILES, by_cut)),
        )


def _allow_shared_memory(kernel: Kernel, device: int) -> None:
    """Lets a block of the kernel have more than the 48 KiB that need no permission."""
    from cuda.bindings import driver

    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    (status,) = driver.cuKernelSetAttribute(attribute, SHARED_BYTES, kernel.handle, device)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"no {SHARED_BYTES} bytes of shared memory for a block: {status.name}")
