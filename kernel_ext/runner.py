"""The kernel as the patch calls it: one for each device, built at the first call."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kernel_ext.call import Call
from kernel_ext.launch import VerifyAttention

if TYPE_CHECKING:
    from torch import Tensor

_log = logging.getLogger("kernel_ext")


class DeviceRunner:
    """Answers calls on CUDA devices from compute capability 8.0 on, in bfloat16.

    A kernel that cannot be built or loaded is reported once; from then on every call falls back.
    """

    def __init__(self) -> None:
        self._kernels: dict[int, VerifyAttention] = {}
        self._broken: str | None = None

    def refuses(self, call: Call) -> str | None:
        """Say why it cannot answer; None if it can."""
        import torch

        if not call.q.is_cuda:
            return "not on a CUDA device"
        if call.q.dtype != torch.bfloat16:
            return f"{call.q.dtype}, not bfloat16"
        if self._broken is not None:
            return self._broken
        device = call.q.device.index
        if device in self._kernels:
            return None
        if torch.cuda.get_device_capability(device) < (8, 0):
            return "a device older than compute capability 8.0"
        if torch.cuda.is_current_stream_capturing():
            return "first call while a CUDA graph is recorded: the kernel is not built yet"
        return self._build(device)

    def _build(self, device: int) -> str | None:
        try:
            self._kernels[device] = VerifyAttention(device)
        except Exception as problem:  # a compiler, a driver, a full disk: the server must go on
            self._broken = f"the kernel cannot be built: {type(problem).__name__}"
            _log.exception("the bundled kernel cannot be built; SGLang's own is used")
        return self._broken

    def run(self, call: Call, out: Tensor) -> None:
        """Write the answer to `out`."""
        kernel = self._kernels[call.q.device.index]
        kernel(call.q, call.draft_keys, call.pool, out, call.batch, call.scale)
