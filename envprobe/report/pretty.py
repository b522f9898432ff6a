"""How JSON documents begin and how they are laid out."""

from __future__ import annotations

import json
from typing import Any, Final

import envprobe

SCHEMA_VERSION: Final = 1
"""Raised when a field changes its meaning or goes away; new fields do not raise it."""

_DEEPEST: Final = 4
"""Members of the document, of `scans`, of a scan, and of its lists stand on lines of their own."""


def heading() -> dict[str, Any]:
    """Return the fields that every document begins with."""
    tool = {"name": "envprobe", "version": envprobe.__version__}
    return {"schema_version": SCHEMA_VERSION, "tool": tool}


def dumps(document: dict[str, Any]) -> str:
    """Return JSON in ASCII with a line for each member down to the items of a scan's lists."""
    # Two of them begin a command to some CI systems (`redact.without_commands`).
    return _laid_out(document, 0).replace("##", "#\\u0023") + "\n"


def _laid_out(value: Any, depth: int) -> str:
    indent, outdent = " " * (depth + 1), " " * depth
    if depth < _DEEPEST and isinstance(value, dict) and value:
        members = [f"{json.dumps(key)}: {_laid_out(one, depth + 1)}" for key, one in value.items()]
        return "{\n" + ",\n".join(indent + one for one in members) + f"\n{outdent}}}"
    if depth < _DEEPEST and isinstance(value, list) and value:
        items = [indent + _laid_out(one, depth + 1) for one in value]
        return "[\n" + ",\n".join(items) + f"\n{outdent}]"
    return json.dumps(value, ensure_ascii=True, allow_nan=False)
