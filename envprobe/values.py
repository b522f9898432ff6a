"""The bytes of one variable or attribute, which may be a secret."""

from __future__ import annotations

import hashlib
from typing import Final

MAX_VALUE_BYTES: Final = 1 << 20
"""A longer value is kept as its first bytes, its length and its SHA-256."""


class Value:
    """The bytes of one variable, masked wherever it is formatted.

    Only `reveal` gives the bytes; comparison uses length and digest, so that a cut value still
    compares with a whole one. `length` is that of the full value, in bytes.
    """

    __slots__ = ("_raw", "digest", "length")

    def __init__(self, raw: bytes, *, length: int | None = None, digest: str | None = None) -> None:
        self._raw = raw[:MAX_VALUE_BYTES]
        self.length = len(raw) if length is None else length
        self.digest = hashlib.sha256(raw).hexdigest() if digest is None else digest

    @property
    def truncated(self) -> bool:
        """Whether `reveal` gives only the first bytes of the value."""
        return self.length > len(self._raw)

    @property
    def hidden(self) -> bool:
        """Whether `reveal` gives nothing of the value: only its length may be shown."""
        return False

    def reveal(self) -> bytes:
        """Return the bytes themselves; for comparison and renderers only."""
        return self._raw

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Value):
            return NotImplemented
        return self.length == other.length and self.digest == other.digest

    def __hash__(self) -> int:
        return hash((self.length, self.digest))

    def __repr__(self) -> str:
        return f"<Value {self.length} bytes>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)
