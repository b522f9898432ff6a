"""What holds a descriptor and gives it back at the end of a `with` block."""

from __future__ import annotations

from typing import TypeVar

Held = TypeVar("Held", bound="Closing")


class Closing:
    """A context manager that closes itself, however the block ends."""

    __slots__ = ()

    def close(self) -> None:
        """Give back what is held; later calls do nothing."""
        raise NotImplementedError

    def __enter__(self: Held) -> Held:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
