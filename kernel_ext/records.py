"""What a program of this package tells whoever started it: one JSON object a line.

Each is written as soon as it is known, so that a driver that ends the process leaves what was found
before. Every record has a `kind`, and `device` where it is about one card.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from typing import Any

Tell = Callable[..., None]
"""Takes the kind of a record, and its other members by name."""

CUDA_ERROR = re.compile(r"CUDA_ERROR_[A-Z0-9_]+|NVRTC_ERROR_[A-Z0-9_]+")
TEXT_BYTES = 2000

WORDS = {
    "no kernel image is available": "CUDA_ERROR_NO_BINARY_FOR_GPU",
    "too many resources requested": "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    "illegal memory access": "CUDA_ERROR_ILLEGAL_ADDRESS",
    "misaligned address": "CUDA_ERROR_MISALIGNED_ADDRESS",
    "illegal instruction": "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "unspecified launch failure": "CUDA_ERROR_LAUNCH_FAILED",
    "device-side assert": "CUDA_ERROR_ASSERT",
    "launch timed out": "CUDA_ERROR_LAUNCH_TIMEOUT",
    "out of memory": "CUDA_ERROR_OUT_OF_MEMORY",
    "busy or unavailable": "CUDA_ERROR_DEVICE_UNAVAILABLE",
    "driver version is insufficient": "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    "driver on your system is too old": "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    "provided ptx was compiled with": "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    "out of resource: shared memory": "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
}
"""How torch and Triton word the errors of the driver (cudaGetErrorString)."""


def error_word(problem: BaseException) -> str:
    """Return the driver's or the compiler's name of an error, "" if it is none of theirs."""
    text = f"{type(problem).__name__}: {problem}"
    found = CUDA_ERROR.search(text)
    if found is not None:
        return found.group()
    lower = text.lower()
    if isinstance(problem, MemoryError) or "outofmemory" in lower.split(":")[0]:
        return "CUDA_ERROR_OUT_OF_MEMORY"
    return next((word for words, word in WORDS.items() if words in lower), "")


def described(problem: BaseException) -> dict[str, str]:
    """Return an error as members of a record: its type, the driver's name for it, its text."""
    text = str(problem).strip() or type(problem).__name__
    return {
        "error": type(problem).__name__,
        "word": error_word(problem),
        "text": text[:TEXT_BYTES],
    }


def writer(descriptor: int) -> Tell:
    """Return what writes records to a descriptor, each at once.

    From then on what other code prints goes to stderr.
    """
    os.dup2(2, 1)
    sys.stdout = sys.stderr

    def tell(kind: str, **members: Any) -> None:
        line = json.dumps({"kind": kind, **members}).encode() + b"\n"
        while line:
            line = line[os.write(descriptor, line) :]

    return tell
