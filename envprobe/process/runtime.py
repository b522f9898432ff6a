"""Which language runtime a process holds, by what its memory defines, never by a file's name."""

from __future__ import annotations

import os
from typing import Final

from envprobe.model import Interpreter
from envprobe.process.elf import NotElf
from envprobe.process.handle import MemoryFault
from envprobe.process.scope import Definition, Scope

_RUNTIME: Final = b"_PyRuntime"  # CPython 3.7 and later (Include/internal/pycore_runtime.h)
_VERSION: Final = b"Py_Version"  # CPython 3.11 and later (Include/pylifecycle.h)
_FIRST_SEEN: Final = (
    ("3.10", b"Py_NewRef"),
    ("3.9", b"PyFrame_GetBack"),
    ("3.8", b"PyCode_NewWithPosOnlyArgs"),
    ("3.7", _RUNTIME),
)
"""A function that each older version was the first to export (Doc/whatsnew and Doc/c-api)."""


def interpreter(scope: Scope) -> Interpreter | None:
    """Return the CPython in the process, None if there is none that exports its symbols.

    `version` is exact from 3.11 on ("3.12.1") and without its third part before ("3.9"). A damaged
    or unreadable image gives None.
    """
    try:
        runtime = scope.lookup(_RUNTIME)
        if runtime is None:
            return None
        symbol = runtime.image.lookup(_VERSION)
        version = version_text(scope.memory.word(symbol.address)) if symbol else _older(runtime)
        name = os.path.basename(runtime.name) or "the executable"
        return Interpreter("CPython", version, f"_PyRuntime in {name}")
    except (MemoryFault, NotElf):
        return None


def version_text(version: int) -> str:
    """Write PY_VERSION_HEX as a version; a development release keeps its a, b or rc."""
    major, minor, micro = version >> 24 & 255, version >> 16 & 255, version >> 8 & 255
    level, serial = version >> 4 & 15, version & 15
    suffix = {10: f"a{serial}", 11: f"b{serial}", 12: f"rc{serial}"}.get(level, "")
    return f"{major}.{minor}.{micro}{suffix}"


def _older(runtime: Definition) -> str:
    """Tell versions without Py_Version apart by what the same object exports."""
    for version, name in _FIRST_SEEN:
        if runtime.image.lookup(name) is not None:
            return version
    return ""
