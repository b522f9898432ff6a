"""The patch of SGLang's `TritonAttnBackend.forward_extend`.

SGLang's method still runs, whole: it writes keys and values into the pool, picks its output, reads
its metadata and handles every case of every release. Only the kernel at its end is exchanged, for
the time of the call, and only in a verify step (TARGET_VERIFY); a call whose arguments say what the
bundled kernel does not know goes to the original (`call.read_call`).

`ENVPROBE_KERNEL` says what is done: `off` (also when it is not set), `on`, or `validate`: both
kernels run, SGLang's result is used, and `counters.differing` counts where they disagree.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from kernel_ext import counters
from kernel_ext.call import Call, read_call

if TYPE_CHECKING:
    from torch import Tensor

VARIABLE = "ENVPROBE_KERNEL"
MODES = ("off", "on", "validate")
TARGET_CLASS = "TritonAttnBackend"
TARGET_METHOD = "forward_extend"

ROW_TOLERANCE = 2**-6
"""How much a row of one kernel may differ from the other's, relative to its norm: each rounds its
probabilities and its output to bfloat16 (2^-9 each), four times in all; twice that is allowed."""

_log = logging.getLogger("kernel_ext")


class Runner(Protocol):
    """What answers a call: the kernel on a device, or a stand-in for it."""

    def refuses(self, call: Call) -> str | None:
        """Say why it cannot answer; None if it can."""

    def run(self, call: Call, out: Tensor) -> None:
        """Write the answer to `out`, shaped (tokens, heads, 512)."""


def mode() -> str:
    """Return the value of ENVPROBE_KERNEL; an unknown one counts as `off` and is reported."""
    named = os.environ.get(VARIABLE, "off").strip().lower()
    if named in MODES:
        return named
    _log.error("%s has an unknown value; use off, on or validate. The kernel is off.", VARIABLE)
    return "off"


def replacement(original: Callable[..., Any], runner: Runner | None = None) -> Callable[..., Any]:
    """Return what takes the place of SGLang's forward_extend: itself if the mode is `off`."""
    chosen = mode()
    if chosen == "off" or hasattr(original, "envprobe_original"):
        return original
    if runner is None:
        from kernel_ext.runner import DeviceRunner

        runner = DeviceRunner()
    return _patched(original, runner, chosen == "validate")


def apply(module: ModuleType, runner: Runner | None = None) -> bool:
    """Patch the class in SGLang's module `triton_backend`; False if the mode is `off`.

    Raises AttributeError if the module has no such class or method. A second call changes nothing.
    """
    backend = getattr(module, TARGET_CLASS)
    setattr(backend, TARGET_METHOD, replacement(getattr(backend, TARGET_METHOD), runner))
    return hasattr(getattr(backend, TARGET_METHOD), "envprobe_original")


def remove(module: ModuleType) -> None:
    """Put SGLang's own method back."""
    backend = getattr(module, TARGET_CLASS)
    original = getattr(getattr(backend, TARGET_METHOD), "envprobe_original", None)
    if original is not None:
        setattr(backend, TARGET_METHOD, original)


def _patched(original: Callable[..., Any], runner: Runner, validate: bool) -> Callable[..., Any]:
    @functools.wraps(original)
    def forward_extend(
        self: Any, q: Any, k: Any, v: Any, layer: Any, forward_batch: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if not forward_batch.forward_mode.is_target_verify():
            counters.other_modes += 1
            return original(self, q, k, v, layer, forward_batch, *args, **kwargs)
        kernel = self.extend_attention_fwd
        before = counters.taken + counters.fallen_back + counters.compared
        self.extend_attention_fwd = _exchanged(kernel, runner, validate)
        try:
            return original(self, q, k, v, layer, forward_batch, *args, **kwargs)
        finally:
            self.extend_attention_fwd = kernel
            if counters.taken + counters.fallen_back + counters.compared == before:
                _count_fallen_back("SGLang took a path without this kernel")

    forward_extend.envprobe_original = original  # type: ignore[attr-defined]
    return forward_extend


def _exchanged(kernel: Callable[..., Any], runner: Runner, validate: bool) -> Callable[..., Any]:
    import torch

    def extend_attention_fwd(*args: Any, **kwargs: Any) -> Any:
        call = read_call(kernel, args, kwargs)
        reason = call if isinstance(call, str) else runner.refuses(call)
        if isinstance(call, str) or reason is not None:
            _count_fallen_back(str(reason))
            return kernel(*args, **kwargs)
        if validate:
            return _compare(call, runner, lambda: kernel(*args, **kwargs))
        runner.run(call, call.out)
        _count_taken(call)
        return None

    return torch.compiler.disable(extend_attention_fwd)  # type: ignore[no-any-return]


def _count_fallen_back(reason: str) -> None:
    counters.fallen_back += 1
    counters.last_reason = reason
    counters.reasons[reason] = counters.reasons.get(reason, 0) + 1


def _count_taken(call: Call) -> None:
    import torch

    counters.taken += 1
    if counters.taken == 1:
        _log.info("the bundled verify kernel answers (%d heads)", call.q.shape[1])
    if call.q.is_cuda and torch.cuda.is_current_stream_capturing():
        counters.recorded += 1
        if counters.recorded == 1:
            _log.info(
                "recorded in a CUDA graph: its replays run the kernel without Python, "
                "so kernel_ext.counters stands still from here on"
            )


def _compare(call: Call, runner: Runner, run_original: Callable[[], Any]) -> Any:
    import torch

    if call.q.is_cuda and torch.cuda.is_current_stream_capturing():
        _count_fallen_back("validate cannot compare while a CUDA graph is recorded")
        return run_original()
    ours = torch.empty_like(call.out)
    runner.run(call, ours)
    result = run_original()
    counters.compared += 1
    difference = (ours.float() - call.out.float()).norm(dim=-1)
    allowed = ROW_TOLERANCE * call.out.float().norm(dim=-1) + 1e-6
    if not bool((difference <= allowed).all()):
        counters.differing += 1
        worst = float((difference / allowed).nan_to_num(float("inf")).max())
        _log.error("the two kernels differ: %.1f times what bfloat16 explains", worst)
    return result


def announce(argv: Sequence[str]) -> None:
    """Log that the class is patched, and warn if a server with this command line never uses it.

    The reason stays readable from outside, in `counters.unused`.
    """
    _log.info("%s.%s is patched", TARGET_CLASS, TARGET_METHOD)
    counters.unused = unused_because(argv) or ""
    if counters.unused:
        _log.warning("the bundled kernel will not run: %s", counters.unused)


def unused_because(argv: Sequence[str]) -> str | None:
    """Say why a server with this command line would not use the patched class; None if it would.

    SGLang chooses by itself when no backend is named: for MLA fa3 on Hopper, flashinfer on SM100,
    triton elsewhere (arg_groups/model_override_base.py, 0.5.23). A verify step goes to the prefill
    backend unless --speculative-attention-mode is decode.
    """
    default = _option(argv, "--attention-backend")
    decode = _option(argv, "--speculative-attention-mode") == "decode"
    name = "--decode-attention-backend" if decode else "--prefill-attention-backend"
    named = _option(argv, name) or default
    if named == "triton":
        return None
    if named is not None:
        return f"verify steps go to the backend {named}, not to triton"
    return (
        "the command line names no --attention-backend: for MLA models SGLang then picks fa3 on "
        "Hopper and flashinfer on SM100, and never calls the patched class there; use "
        "--attention-backend triton"
    )


def _option(argv: Sequence[str], name: str) -> str | None:
    value = None
    for index, word in enumerate(argv):
        if word == name and index + 1 < len(argv):
            value = argv[index + 1]
        elif word.startswith(name + "="):
            value = word[len(name) + 1 :]
    return value
