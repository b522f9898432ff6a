"""How fast a call is, and how fast the device could be, measured with CUDA events."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from ctypes import c_int32
from pathlib import Path

CEILINGS = Path(__file__).with_name("ceilings.cu")
CACHE_BYTES = 256 << 20
"""More than any second level cache: writing so much leaves nothing of the inputs in it."""
COPY_BYTES = 2 << 30
PRODUCT_BLOCKS, PRODUCT_THREADS, PRODUCT_CHAINS, PRODUCT_ROUNDS = 2, 256, 16, 4000
PRODUCT_OPERATIONS = 2 * 16 * 8 * 16
"""Of one mma.sync.m16n8k16, a multiplication and an addition each counted."""


def median_us(call: Callable[[], object], *, repeats: int = 20, record: bool = True) -> float:
    """Return the median time of a call in microseconds, its inputs not in the second level cache.

    `record`: the call is recorded in a CUDA graph and replayed, so that neither Python nor a launch
    counts. Raises RuntimeError if the call cannot be recorded or fails.
    """
    import torch

    evict = torch.empty(CACHE_BYTES, dtype=torch.uint8, device="cuda")
    stream = torch.cuda.Stream()
    times = []
    with torch.cuda.stream(stream):
        for _ in range(2):
            call()
        stream.synchronize()
        run = call
        if record:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                call()
            run = graph.replay
        for _ in range(repeats):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            evict.zero_()
            begin.record(stream)
            run()
            end.record(stream)
            stream.synchronize()
            times.append(begin.elapsed_time(end) * 1e3)
    return float(statistics.median(times))


def copy_bytes_per_second(size: int = COPY_BYTES) -> float:
    """Return how many bytes a second a copy within the device reads and writes, both counted."""
    import torch

    source = torch.randint(0, 256, (size,), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * size / median_us(lambda: target.copy_(source), record=False) * 1e6


def products_per_second() -> float:
    """Return how many operations a second mma.sync reaches in bfloat16 with nothing else to do."""
    import torch
    from cuda.core import LaunchConfig, Program, ProgramOptions, Stream, launch

    properties = torch.cuda.get_device_properties("cuda")
    architecture = f"sm_{properties.major}{properties.minor}"
    options = ProgramOptions(arch=architecture, std="c++17")
    code = Program(CEILINGS.read_text(), "c++", options).compile("cubin")
    kernel = code.get_kernel("multiply_only")
    blocks = PRODUCT_BLOCKS * properties.multi_processor_count
    operands = torch.randn(2 * 24 * PRODUCT_THREADS, device="cuda").to(torch.bfloat16)
    out = torch.empty(blocks * PRODUCT_THREADS, device="cuda")

    def call() -> None:
        launch(
            Stream.from_handle(torch.cuda.current_stream().cuda_stream),
            LaunchConfig(grid=blocks, block=PRODUCT_THREADS),
            kernel,
            operands.data_ptr(),
            out.data_ptr(),
            c_int32(PRODUCT_ROUNDS),
        )

    warps = blocks * PRODUCT_THREADS // 32
    operations = warps * PRODUCT_ROUNDS * PRODUCT_CHAINS * PRODUCT_OPERATIONS
    return float(operations / median_us(call) * 1e6)
