"""Where a line of a log stands."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A line of a file: its name as it was given (`-` for the standard input), and its number."""

    file: str
    line: int
