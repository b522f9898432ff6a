"""What a compiled kernel needs, read from its ELF file: without a device and without cuobjdump."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Symbol, SymbolTableSection

REGISTERS, FRAME = 0x2F, 0x11
"""EIATTR_REGCOUNT and EIATTR_FRAME_SIZE of the section .nv.info: a symbol's number and a value,
32 bits each. The tests compare with `cuobjdump -res-usage`."""
SIZED, PLAIN = 4, 4

FORBIDDEN = re.compile(
    r"\b(wgmma|tcgen05|setmaxnreg|barrier\.cluster|mapa|multimem|clusterlaunchcontrol)\b"
    r"|multicast::cluster|cp\.async\.bulk\.tensor"
)
"""Instructions (PTX ISA 9.0) that sm_120 lacks, or that need a cluster of blocks."""


@dataclass(frozen=True)
class Resources:
    """What one kernel needs.

    registers: of 32 bits, a thread; stack: bytes a thread, where spilled registers lie;
    static_shared: bytes a block, with the 1024 that CUDA keeps from sm_90 on.
    """

    registers: int
    stack: int
    static_shared: int


def resources(code: bytes) -> dict[str, Resources]:
    """Return what each kernel of a cubin needs.

    Raises ValueError if it is no cubin.
    """
    elf = _open(code)
    names = [symbol.name for symbol in _symbols(elf)]
    info = elf.get_section_by_name(".nv.info")
    if info is None:
        raise ValueError("no cubin: it has no section .nv.info")
    found = {(attribute, names[symbol]): value for attribute, symbol, value in _rows(info.data())}
    kernels = [
        section.name.removeprefix(".text.")
        for section in elf.iter_sections()
        if section.name.startswith(".text.")
    ]
    return {
        name: Resources(
            registers=found[REGISTERS, name],
            stack=found.get((FRAME, name), 0),
            static_shared=_static_shared(elf, name),
        )
        for name in kernels
    }


def driver_calls(code: bytes) -> list[str]:
    """Return the functions that the machine code of a cubin expects the driver to have.

    Raises ValueError if it is no cubin.
    """
    names = (symbol.name for symbol in _symbols(_open(code)))
    return [name for name in names if name.startswith("__cuda_syscall")]


def _open(code: bytes) -> ELFFile:
    try:
        return ELFFile(io.BytesIO(code))
    except ELFError as problem:
        raise ValueError(f"no cubin: {problem}") from None


def _symbols(elf: ELFFile) -> Iterator[Symbol]:
    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        raise ValueError("no cubin: it has no symbol table")
    return table.iter_symbols()


def _static_shared(elf: ELFFile, kernel: str) -> int:
    section = elf.get_section_by_name(f".nv.shared.{kernel}")
    return int(section["sh_size"]) if section is not None else 0


def _rows(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield (attribute, symbol, value) of the rows that hold a symbol and a number."""
    at = 0
    while at + PLAIN <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += PLAIN
        if form != SIZED:
            continue
        if size == 8:
            yield attribute, *struct.unpack_from("<II", data, at)
        at += size


SPILLS = re.compile(
    r"Function properties for (\S+)\s+ptxas\s+\S\s+\d+ bytes stack frame, "
    r"(\d+) bytes spill stores, (\d+) bytes spill loads"
)
"""How ptxas 13 tells them; the tests compile a kernel that must spill."""


def spills(log: str) -> dict[str, tuple[int, int]]:
    """Return the bytes that each kernel stores and loads for lack of registers, a thread.

    `log` is what ptxas says with -v.
    """
    return {name: (int(stores), int(loads)) for name, stores, loads in SPILLS.findall(log)}


def forbidden_instructions(ptx: str) -> list[str]:
    """Return the forbidden instructions that a PTX text holds, each once, in order."""
    return list(dict.fromkeys(match.group() for match in FORBIDDEN.finditer(ptx)))
