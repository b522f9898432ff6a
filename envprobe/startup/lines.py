"""The executed lines of .pth and .start files: what may be shown of them, what they import.

A line is a program of its own and may hold anything, such as a token that it puts into os.environ.
"""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_IMPORT: Final = re.compile(rf"import\s+{_NAME}(?:\s+as\s+\w+)?(?:\s*,\s*{_NAME}(?:\s+as\s+\w+)?)*")
_ENTRY_POINT: Final = re.compile(rf"{_NAME}\s*:\s*{_NAME}")
_IMPORTED: Final = re.compile(rf"(?:import\s+|,\s*)({_NAME})")


def outline(text: str) -> str:
    """Return what may be shown of a line: its first import, or a whole entry point; "..." else."""
    if _ENTRY_POINT.fullmatch(text):
        return text
    found = _IMPORT.match(text)
    if found is None:
        return "..."
    rest = text[found.end() :].strip().strip(";")
    return f"{found[0]}; ..." if rest else found[0]


def modules(text: str) -> tuple[str, ...]:
    """Return the modules that a line names: those it imports first, or that of an entry point."""
    if _ENTRY_POINT.fullmatch(text):
        return (text.partition(":")[0].strip(),)
    found = _IMPORT.match(text)
    return tuple(_IMPORTED.findall(found[0])) if found is not None else ()
