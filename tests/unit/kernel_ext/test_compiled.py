"""What the programs tell of compilations and of errors; nothing is run on a device."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from kernel_ext import build, compiled, cubin, records
from tests.programs.requirement import missing
from tests.unit.kernel_ext.test_build import NVRTC_PROBLEM

SPILLING = """
extern "C" __global__ void __launch_bounds__(1024, 2) hungry(float *p) {
    float kept[96];
#pragma unroll
    for (int i = 0; i < 96; ++i) kept[i] = p[i * 1024 + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 96; ++i) p[i * 1024 + threadIdx.x] = kept[i] * kept[95 - i];
}
extern "C" __global__ void modest(float *p) { p[threadIdx.x] = 1.0f; }
"""


@pytest.fixture
def _compiler() -> None:
    if NVRTC_PROBLEM is not None:
        missing("nvrtc", NVRTC_PROBLEM)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file that is compiled in place of the kernel's source."""
    path = tmp_path / "other.cu"
    monkeypatch.setattr(build, "SOURCE", path)
    return path


def told(architectures: list[str]) -> list[dict[str, Any]]:
    """Return the records of one run of the program."""
    reading, writing = os.pipe()
    kept = os.dup(1)
    try:
        assert compiled.main(architectures, writing) == 0
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(writing)
    with os.fdopen(reading) as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.usefixtures("_compiler")
def test_spills_are_told_by_kernel(source: Path) -> None:
    source.write_text(SPILLING)
    made = build.compile_apart("sm_90")
    spilled = cubin.spills(made.log)
    assert spilled["modest"] == (0, 0)
    assert min(spilled["hungry"]) > 100
    assert cubin.resources(made.code)["hungry"].stack > 100


@pytest.mark.usefixtures("_compiler")
def test_a_source_that_is_refused_is_told_with_the_compilers_words(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.write_text('extern "C" __global__ void broken() { nothing(); }')
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    record = told(["sm_90"])[-1]
    assert (record["kind"], record["word"]) == ("compiled", "NVRTC_ERROR_COMPILATION")
    assert 'identifier "nothing" is undefined' in record["text"]


@pytest.mark.parametrize(
    ("problem", "word"),
    [
        (
            RuntimeError("CUDA error: no kernel image is available for execution on the device"),
            "CUDA_ERROR_NO_BINARY_FOR_GPU",
        ),
        (
            RuntimeError("CUDA error: an illegal memory access was encountered\nCompile with..."),
            "CUDA_ERROR_ILLEGAL_ADDRESS",
        ),
        (
            RuntimeError("CUDA error: too many resources requested for launch"),
            "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        ),
        (
            RuntimeError(
                "out of resource: shared memory, Required: 232448, Hardware limit: 101376"
            ),
            "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        ),
        (
            RuntimeError("no 100160 bytes of shared memory for a block: CUDA_ERROR_INVALID_VALUE"),
            "CUDA_ERROR_INVALID_VALUE",
        ),
        (RuntimeError("CUDA out of memory. Tried to allocate"), "CUDA_ERROR_OUT_OF_MEMORY"),
        (
            RuntimeError("CUDA error: all CUDA-capable devices are busy or unavailable"),
            "CUDA_ERROR_DEVICE_UNAVAILABLE",
        ),
        (
            RuntimeError("The NVIDIA driver on your system is too old"),
            "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        ),
        (TypeError("unexpected keyword"), ""),
        (OSError(28, "No space left on device"), ""),
    ],
)
def test_errors_have_the_drivers_names(problem: BaseException, word: str) -> None:
    described = records.described(problem)
    assert (described["word"], described["error"]) == (word, type(problem).__name__)
