"""A value in a report: as it is, or only its length where it is a credential."""

from __future__ import annotations

import base64
from typing import Any

from envprobe import redact
from envprobe.values import Value


def line(names: tuple[str, ...], value: Value, *, unmask: bool = False) -> str:
    """Return a value as one printable line, masked if one of the names that lead to it tells so."""
    if is_masked(names, value, unmask=unmask):
        return redact.masked(value.length)
    return redact.show(names[-1], value, unmask=unmask)


def is_masked(names: tuple[str, ...], value: Value, *, unmask: bool) -> bool:
    """Return whether only the length of a value may be shown."""
    if value.hidden:
        return True
    return not unmask and any(redact.holds_secret(name, value) for name in names)


def document(names: tuple[str, ...], value: Value, *, unmask: bool) -> dict[str, Any]:
    """Return text, or base64 of what is no UTF-8, or only the length of a credential.

    `names` are those under which it was found, which may tell a credential.
    """
    if is_masked(names, value, unmask=unmask):
        return {"masked": value.length}
    raw = value.reveal()
    try:
        return {"text": raw.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode("ascii")}
