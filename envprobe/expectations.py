"""The command line's expressions, and whether one value satisfies one expectation."""

from __future__ import annotations

import os
import re
from typing import Final

from envprobe.config import Expectation, Rule
from envprobe.errors import UsageError
from envprobe.values import Value

MAX_WORKERS: Final = 1 << 20

_FORMS: Final = (
    "Write NAME=VALUE (exactly), NAME= (set and empty), NAME~=ITEM (an element of a list),"
    " NAME (set) or !NAME (absent)."
)
_NAME: Final = re.compile(r"[^\s=!~*?\0]+\Z")
_COMMA_LISTS: Final = ("NCCL_", "UCX_", "GLOO_", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")


def parse(expression: str, origin: str = "--expect") -> Expectation:
    """Return the expectation that one `--expect` argument states.

    Bytes of the argument that are no UTF-8 survive. Raises UsageError, which never repeats a value.
    """
    name, sign, value = expression.partition("=")
    if name.startswith("!"):
        if sign:
            raise UsageError(f"{origin}: !NAME says that NAME is absent and takes no value", _FORMS)
        return Expectation(checked_name(name[1:], origin), Rule.ABSENT, origin=origin)
    if not sign:
        return Expectation(checked_name(name, origin), Rule.SET, origin=origin)
    if name.endswith("~"):
        name = checked_name(name[:-1], origin)
        return Expectation(name, Rule.CONTAINS, (list_item(name, value, origin),), origin=origin)
    name = checked_name(name, origin)
    return Expectation(name, Rule.EXACT, (environment_value(name, value, origin),), origin=origin)


def parse_count(text: str, origin: str = "--wait") -> tuple[str, int]:
    """Return the role ("" for any worker) and the number that `[ROLE=]N` states."""
    role, sign, number = text.rpartition("=")
    plain = number.isascii() and number.isdecimal() and len(number) < 8
    if not plain or not 0 < int(number) <= MAX_WORKERS or bool(sign) != bool(role):
        raise UsageError(
            f"{origin} takes [ROLE=]N with N from 1 to {MAX_WORKERS}",
            f"Write for example {origin} 8 or {origin} scheduler=8.",
        )
    return role, int(number)


def checked_name(name: str, origin: str) -> str:
    """Return `name`, or raise UsageError if no variable can have that name."""
    if not name:
        raise UsageError(f"{origin}: a name of a variable is missing", _FORMS)
    if not _NAME.match(name):
        raise UsageError(
            f"{origin}: {_until_odd(name)} is followed by a character that no name of a variable"
            " has (a blank, '!', '~', '*' or '?')",
            _FORMS,
        )
    return name


def _until_odd(name: str) -> str:
    start = re.match(r"[^\s=!~*?\0]*", name)
    return repr(start.group()) if start else "''"


def environment_value(name: str, text: str, origin: str) -> Value:
    """Return the bytes of an expected value; UsageError if no variable can hold them."""
    if "\0" in text:
        raise UsageError(f"{origin}: the value for {name} holds a NUL, which no variable can")
    try:
        return Value(os.fsencode(text))
    except UnicodeEncodeError:
        raise UsageError(
            f"{origin}: the value for {name} cannot be written in the encoding of this system"
        ) from None


def list_item(name: str, text: str, origin: str) -> Value:
    """Return one expected element of a list; UsageError if it is empty or is itself a list."""
    item = environment_value(name, text, origin)
    if not item.length:
        raise UsageError(
            f"{origin}: an empty element of {name} is expected",
            "Name the element; the current directory is written as '.'.",
        )
    if len(_split(name, item.reveal())) != 1:
        raise UsageError(
            f"{origin}: the element expected of {name} is itself a list",
            f"State one expectation for each element of {name}.",
        )
    return item


def accepts(expectation: Expectation, value: Value | None, cwd: str | None = None) -> bool | None:
    """Return whether one reading satisfies the expectation: `value` is None for absent.

    Relative elements of lists of paths are resolved against `cwd`, the current directory of the
    process. None means that it cannot be told (the directory is not known, or the value was cut).
    SAME is satisfied by every single reading: it speaks of all processes together.
    """
    if expectation.rule is Rule.SAME:
        return True
    if expectation.rule is Rule.ABSENT or value is None:
        return expectation.rule is Rule.ABSENT and value is None
    if expectation.rule is Rule.CONTAINS:
        return _contains(expectation.name, value, expectation.values[0].reveal(), cwd)
    return expectation.rule is Rule.SET or value in expectation.values


def _contains(name: str, value: Value, item: bytes, cwd: str | None) -> bool | None:
    elements = _split(name, value.reveal())
    if value.truncated:
        elements = elements[:-1]
    if item in elements:
        return True
    base = None if cwd is None else os.fsencode(cwd)
    wanted = _resolve(name, item, base)
    found = {_resolve(name, element, base) for element in elements}
    if wanted is not None and wanted in found:
        return True
    in_doubt = value.truncated or (bool(elements) and wanted is None) or None in found
    return None if in_doubt else False


def _split(name: str, raw: bytes) -> list[bytes]:
    # An empty PYTHONPATH or LD_LIBRARY_PATH has no elements: CPython and ld.so ignore it whole.
    if not raw:
        return []
    if name == "LD_PRELOAD":
        return re.split(rb"[: ]", raw)
    if name == "LD_LIBRARY_PATH":
        return re.split(rb"[:;]", raw)
    return raw.split(b"," if name.startswith(_COMMA_LISTS) else b":")


def _resolve(name: str, element: bytes, cwd: bytes | None) -> bytes | None:
    """Return an element in the form in which two are compared; None if `cwd` is needed for it."""
    if name in ("LD_PRELOAD", "LD_AUDIT"):
        if b"/" not in element:
            return element
    elif not name.endswith("PATH"):
        return element
    if not element.startswith(b"/"):
        if cwd is None:
            return None
        element = cwd + b"/" + element
    # ".." stays: with symbolic links it cannot be resolved from the text.
    return b"/" + b"/".join(part for part in element.split(b"/") if part not in (b"", b"."))
