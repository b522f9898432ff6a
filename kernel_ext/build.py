"""The kernel's machine code, compiled at run time by NVRTC and kept on disk.

Neither nvcc nor a host compiler is needed, and the source includes no header. The cache is that of
cuda.core: its key covers source, options, architecture and the compiler's version; an entry is
written to a temporary file and renamed, so processes that compile at once only repeat work.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuda.core import ObjectCode

SOURCE = Path(__file__).with_name("verify_attention.cu")
CACHE_VARIABLE = "ENVPROBE_KERNEL_CACHE"

THREADS = 256
MERGE_THREADS = 512
ROWS = 64
VALUE_DIM = 512
SHARED_BYTES = 100_160
MACROS = [
    ("LAUNCH_SHARED_BYTES", str(SHARED_BYTES)),
    ("LAUNCH_THREADS", str(THREADS)),
    ("LAUNCH_MERGE_THREADS", str(MERGE_THREADS)),
]
"""The numbers that a launch uses: the source asserts that they are its own."""
SHARED_LIMIT = 101_376
"""The most that a block may have on sm_86, sm_89 and sm_120 (CUDA C++ Programming Guide, table of
technical specifications per compute capability: 99 KiB)."""


def cache_directory() -> Path:
    """Return the directory that holds the compiled kernels."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "envprobe" / "kernels"


def compile_ptx(architecture: str) -> str:
    """Compile the kernel to PTX, which names every instruction.

    `architecture`: such as `sm_120`. cuda.core wants a driver for this, NVRTC does not. Raises
    RuntimeError when the compiler refuses the source or does not know the architecture.
    """
    from cuda.bindings import nvrtc

    def checked(result: tuple[Any, ...]) -> Any:
        if result[0] != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise RuntimeError(f"NVRTC: {result[0].name}")
        return result[1] if len(result) > 1 else None

    macros = [f"-D{name}={value}" for name, value in MACROS]
    options = [f"-arch={architecture.replace('sm_', 'compute_')}", "-std=c++17", *macros]
    source, name = SOURCE.read_bytes(), SOURCE.name.encode()
    program = checked(nvrtc.nvrtcCreateProgram(source, name, 0, [], []))
    checked(nvrtc.nvrtcCompileProgram(program, len(options), [word.encode() for word in options]))
    text = bytearray(checked(nvrtc.nvrtcGetPTXSize(program)))
    checked(nvrtc.nvrtcGetPTX(program, text))
    checked(nvrtc.nvrtcDestroyProgram(program))
    return text.rstrip(b"\0").decode()


def compile_kernel(
    architecture: str, *, cache: Path | None = None, progress: Callable[[str], None] | None = None
) -> ObjectCode:
    """Compile the kernel, or take it from the cache, for an architecture such as `sm_120`.

    Raises what cuda.core raises when the compiler refuses the source or does not know the
    architecture, and OSError when the cache cannot be written.
    """
    from cuda.core import Program, ProgramOptions
    from cuda.core.utils import FileStreamProgramCache

    if progress is not None:
        progress(f"compiling {SOURCE.name} for {architecture}")
    options = ProgramOptions(arch=architecture, std="c++17", define_macro=MACROS)
    program = Program(SOURCE.read_text(), "c++", options)
    with FileStreamProgramCache(cache or cache_directory()) as kept:
        return program.compile("cubin", cache=kept)
