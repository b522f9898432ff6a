"""The kernel's machine code, compiled at run time by NVRTC and kept on disk.

Neither nvcc nor a host compiler is needed, and the source includes no header. The cache is that of
cuda.core: its key covers source, options, architecture and the compiler's version; an entry is
written to a temporary file and renamed, so processes that compile at once only repeat work.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
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
DYNAMIC_KERNEL = "verify_attention"
"""The kernel whose launch asks for SHARED_BYTES; the other has only what its code declares."""
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


@dataclass(frozen=True)
class Compiled:
    """What one compilation gives: machine code, PTX, which names every instruction, and the log.

    The log has what ptxas says of registers and spills.
    """

    code: bytes
    ptx: str
    log: str


def compiler_version() -> tuple[int, int]:
    """Return the version of NVRTC. Raises what cuda.bindings raises where there is none."""
    from cuda.bindings import nvrtc

    _, major, minor = nvrtc.nvrtcVersion()
    return int(major), int(minor)


def known_architectures() -> list[int]:
    """Return the compute capabilities that NVRTC compiles for, such as 90 and 120."""
    from cuda.bindings import nvrtc

    _, numbers = nvrtc.nvrtcGetSupportedArchs()
    return [int(number) for number in numbers]


def compile_apart(architecture: str) -> Compiled:
    """Compile the kernel without a device, a driver and the cache; `architecture`: as `sm_120`.

    cuda.core wants a driver for PTX, NVRTC does not. Raises RuntimeError when the compiler refuses
    the source or does not know the architecture.
    """
    from cuda.bindings import nvrtc

    def checked(result: tuple[Any, ...]) -> Any:
        if result[0] != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise RuntimeError(f"NVRTC: {result[0].name}{_said(program)}")
        return result[1] if len(result) > 1 else None

    program = None
    macros = [f"-D{name}={value}" for name, value in MACROS]
    options = [f"-arch={architecture}", "-std=c++17", "--ptxas-options=-v", *macros]
    source, name = SOURCE.read_bytes(), SOURCE.name.encode()
    program = checked(nvrtc.nvrtcCreateProgram(source, name, 0, [], []))
    checked(nvrtc.nvrtcCompileProgram(program, len(options), [word.encode() for word in options]))
    code = bytearray(checked(nvrtc.nvrtcGetCUBINSize(program)))
    checked(nvrtc.nvrtcGetCUBIN(program, code))
    text = bytearray(checked(nvrtc.nvrtcGetPTXSize(program)))
    checked(nvrtc.nvrtcGetPTX(program, text))
    log = _said(program)
    checked(nvrtc.nvrtcDestroyProgram(program))
    return Compiled(bytes(code), text.rstrip(b"\0").decode(), log)


def _said(program: Any) -> str:
    """Return the compiler's log of a program, on lines of its own."""
    from cuda.bindings import nvrtc

    if program is None:
        return ""
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytearray(size or 0)
    if log:
        nvrtc.nvrtcGetProgramLog(program, log)
    return "\n" + log.rstrip(b"\0").decode("utf-8", "replace").strip() if log else ""


def compile_ptx(architecture: str) -> str:
    """Compile the kernel to PTX; see `compile_apart`."""
    return compile_apart(architecture).ptx


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
