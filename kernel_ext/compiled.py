"""Compiles the kernel for architectures that need not be here, and says what came out.

    python -m kernel_ext.compiled sm_120 sm_90

Writes records (`kernel_ext.records`) to standard output; runs nothing on a device.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from kernel_ext import build, records


def main(architectures: list[str], descriptor: int) -> int:
    """Compile for each architecture; what cannot be compiled is a record too."""
    tell = records.writer(descriptor)
    try:
        import kernel_ext.cubin  # noqa: F401 - its reader of ELF files is a package of its own

        version, known = build.compiler_version(), build.known_architectures()
    except Exception as problem:  # whatever a broken installation raises
        tell("compiler", version=None, known=[], **records.described(problem))
        return 0
    tell("compiler", version=list(version), known=known)
    for architecture in architectures:
        tell("progress", text=f"compiling {build.SOURCE.name} for {architecture}")
        tell("compiled", architecture=architecture, **_compiled(architecture))
    return 0


def _compiled(architecture: str) -> Mapping[str, object]:
    try:
        made = build.compile_apart(architecture)
    except RuntimeError as problem:
        return records.described(problem)
    try:
        return _inspected(made)
    except (ValueError, KeyError) as problem:  # machine code of a form that is not known here
        return {**records.described(problem), "bytes": len(made.code)}


def _inspected(made: build.Compiled) -> dict[str, object]:
    from kernel_ext import cubin

    spilled = cubin.spills(made.log)
    kernels = {
        name: {
            "registers": one.registers,
            "stack": one.stack,
            "spill_stores": spilled.get(name, (None, None))[0],
            "spill_loads": spilled.get(name, (None, None))[1],
            "shared": one.static_shared + dynamic_shared(name),
        }
        for name, one in cubin.resources(made.code).items()
    }
    return {
        "bytes": len(made.code),
        "kernels": kernels,
        "shared_limit": build.SHARED_LIMIT,
        "forbidden": cubin.forbidden_instructions(made.ptx),
        "driver_calls": cubin.driver_calls(made.code),
    }


def dynamic_shared(kernel: str) -> int:
    """Return the bytes of shared memory that a launch of this kernel adds to its own."""
    return build.SHARED_BYTES if kernel == build.DYNAMIC_KERNEL else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.dup(1)))
