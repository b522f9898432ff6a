"""What a command has written so far, within a bound, and the lines of it."""

from __future__ import annotations


class Output:
    """The beginning of one output; `cut` says that there was more."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._received = bytearray()
        self._begin = 0
        self._searched = 0
        self.cut = False

    def take(self, received: bytes) -> None:
        """Keep what comes next, as far as there is room."""
        room = self._limit - len(self._received)
        self._received += received[:room]
        self.cut = self.cut or len(received) > room

    def line(self) -> bytes | None:
        """Return the next whole line without its newline, None if there is none yet."""
        # Nothing is looked at or copied twice: a hook may write a million empty lines.
        end = self._received.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._received)
            return None
        line = bytes(self._received[self._begin : end])
        self._begin = self._searched = end + 1
        return line

    @property
    def kept(self) -> bytes:
        """All of it, with the lines that were returned."""
        return bytes(self._received)
