"""The bundled kernel on one card: built, loaded, compared with the reference, and timed."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kernel_ext import build, records
from kernel_ext.card import Card
from kernel_ext.grid import SHAPES, Errors, Kernel, Shape, compare, run
from kernel_ext.problems import HEAD_DIM, Problem, random_problem
from kernel_ext.records import Tell

if TYPE_CHECKING:
    from kernel_ext.launch import VerifyAttention

PACKAGES = ("torch", "cuda.core", "cuda.bindings.nvrtc")
LEAST_CAPABILITY = (8, 0)
CASES = (
    Shape([4096], 8, 8),
    Shape([32768], 8, 8),
    Shape([32768] * 8, 8, 8),
)
TIMING_BYTES = 6 << 30
"""With so much free memory the copy is measured over 2 GiB, and every case is timed."""
REPEATS = 20
CONTEXT_BYTES = 600 << 20
"""What a context, torch's kernels and the workspace take of a card, where that is not measured."""


class Stopped(Exception):  # noqa: N818 - what was found is told already
    """Nothing more can be done on this card."""


def examine(card: Card, memory: int, timed: bool, tell: Tell) -> None:
    """Tell what becomes of each stage; ends at the first one that fails."""
    try:
        with _stage("packages", tell):
            _import(tell)
        with _stage("compile", tell):
            _compile(card, tell)
        with _stage("load", tell):
            kernel = _load(card, tell)
        with _stage("grid", tell):
            _grid(kernel, card, memory, tell)
        if timed:
            with _stage("time", tell):
                _time(kernel, card, tell)
    except Stopped:
        return
    tell("done", part="kernel")


@contextmanager
def _stage(name: str, tell: Tell) -> Iterator[None]:
    """Say that a stage has begun, and what ended it."""
    tell("stage", stage=name)
    try:
        yield
    except Stopped:
        raise
    except Exception as problem:  # a compiler's, a driver's, torch's: the record names it
        tell("failed", stage=name, **records.described(problem))
        raise Stopped from problem


def _import(tell: Tell) -> None:
    for name in PACKAGES:
        try:
            importlib.import_module(name)
        except ImportError as problem:
            tell("stopped", reason="package", text=f"{name}: {problem}")
            raise Stopped from problem
    import torch

    if not torch.cuda.is_available():
        text = f"torch {torch.__version__} finds no CUDA device"
        tell("stopped", reason="torch", text=text)
        raise Stopped
    tell("packages", torch=torch.__version__, compiler=list(build.compiler_version()))


def _compile(card: Card, tell: Tell) -> None:
    number = 10 * card.major + card.minor
    if (card.major, card.minor) < LEAST_CAPABILITY:
        tell("stopped", reason="too-old", text=f"compute capability {card.major}.{card.minor}")
        raise Stopped
    if number not in build.known_architectures():
        version = ".".join(map(str, build.compiler_version()))
        tell("stopped", reason="compiler", text=f"NVRTC {version} does not know sm_{number}")
        raise Stopped
    build.compile_kernel(f"sm_{number}", progress=lambda text: tell("progress", text=text))


def _load(card: Card, tell: Tell) -> VerifyAttention:
    import torch
    from cuda.core import Kernel as Loaded

    from kernel_ext.launch import VerifyAttention

    torch.cuda.set_device(card.index)
    kernel = VerifyAttention(card.index)
    for name, value in vars(kernel).items():
        if isinstance(value, Loaded):
            tell("loaded", kernel=name, **_resources(value))
    return kernel


def _resources(kernel: Any) -> dict[str, int]:
    """Return what the driver says of loaded machine code, in 32 bit registers and bytes."""
    attributes = kernel.attributes
    dynamic = int(attributes.max_dynamic_shared_size_bytes)
    return {
        "architecture": int(attributes.binary_version),
        "registers": int(attributes.num_regs),
        "local": int(attributes.local_size_bytes),
        "shared": int(attributes.shared_size_bytes)
        + (build.SHARED_BYTES if dynamic == build.SHARED_BYTES else 0),
    }


def _grid(kernel: VerifyAttention, card: Card, memory: int, tell: Tell) -> None:
    import torch

    free, _ = torch.cuda.mem_get_info()
    own = card.free - free if card.free is not None else CONTEXT_BYTES
    if not 0 <= own <= 2 * CONTEXT_BYTES:
        own = CONTEXT_BYTES  # another process has taken or given back memory meanwhile
    left = min(memory - own, free)
    for shape in SHAPES:
        if shape.need > left:
            tell("skipped", shape=shape.name, need=shape.need + own)
            continue
        tell("progress", text=f"device {card.index}: {shape.name}")
        tell("shape", shape=shape.name)
        try:
            errors = run(_called(kernel), shape)
        except torch.OutOfMemoryError:
            # Not the kernel's: it allocates nothing. Someone else took the memory meanwhile.
            tell("skipped", shape=shape.name, need=shape.need + own)
        else:
            tell("compared", shape=shape.name, **asdict(errors))
        torch.cuda.empty_cache()
    tell("memory", own=own, peak=own + torch.cuda.max_memory_reserved())


def _called(kernel: VerifyAttention) -> Kernel:
    def call(problem: Problem, out: Any) -> None:
        kernel(problem.q, problem.draft_keys, problem.pool, out, problem.batch, problem.scale)

    return call


# --- time ----------------------------------------------------------------------------------------


def may_be_timed(card: Card, tell: Tell) -> bool:
    """Return whether a measurement would mean anything, and tell why not."""
    if card.processes:
        text = "another process uses" if card.processes == 1 else f"{card.processes} others use"
        tell("untimed", reason="busy", text=f"{text} the card")
        return False
    if card.free is None or card.free < TIMING_BYTES:
        told = "is not known" if card.free is None else f"is {card.free >> 20} MiB"
        text = f"the card's free memory {told}, and a measurement takes {TIMING_BYTES >> 20} MiB"
        tell("untimed", reason="memory", text=text)
        return False
    return True


def _time(kernel: VerifyAttention, card: Card, tell: Tell) -> None:
    from kernel_ext.measure import COPY_BYTES, copy_bytes_per_second

    if not may_be_timed(card, tell):
        return
    kernels = {"bundled": _called(kernel), **_peer(card, tell)}
    tell("progress", text=f"device {card.index}: the copy bandwidth of the card")
    tell("bandwidth", copy=copy_bytes_per_second(COPY_BYTES))
    for shape in CASES:
        _time_case(shape, kernels, card, tell)
    now = _processes_now(card)
    if card.processes is None or now is None:
        tell("neighbours", known=False)
    elif now > 1:
        tell("untimed", reason="busy", text="another process came to the card meanwhile")


def _time_case(shape: Shape, kernels: dict[str, Kernel], card: Card, tell: Tell) -> None:
    import torch

    from kernel_ext.measure import median_us

    problem = random_problem(shape.prefixes, shape.drafts, shape.heads, **shape.more)
    taken: dict[str, float] = {}
    errors: dict[str, Errors] = {}
    for name, one in kernels.items():
        tell("progress", text=f"device {card.index}: {name}, {shape.name}")
        out = problem.empty_output()
        taken[name] = median_us(functools.partial(one, problem, out), repeats=REPEATS)
        errors[name] = compare(problem, out)
    tell(
        "timed",
        shape=shape.name,
        key_bytes=sum(shape.prefixes) * HEAD_DIM * 2,
        microseconds=taken,
        part={name: one.part for name, one in errors.items()},
    )
    torch.cuda.empty_cache()


def _peer(card: Card, tell: Tell) -> dict[str, Kernel]:
    """Return SGLang's own kernel, compiled and once run; nothing if it cannot be."""
    from kernel_ext.peer import triton_kernel

    tell("progress", text=f"device {card.index}: SGLang's own kernel")
    try:
        kernel = triton_kernel()
        run(kernel, CASES[0])
    except Exception as problem:  # SGLang's import and Triton raise what their environment lacks
        tell("unpaired", **records.described(problem))
        return {}
    return {"triton": kernel}


def _processes_now(card: Card) -> int | None:
    from kernel_ext.card import NoCards, cards

    try:
        found = [one for one in cards()[1] if one.uuid == card.uuid]
    except NoCards:
        return None
    return found[0].processes if found else None
