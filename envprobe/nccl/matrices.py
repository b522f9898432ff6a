"""The rows of `Enabled NCCL Func/Proto/Algo Matrix:`, which carry no prefix of NCCL's.

src/graph/tuning.cc of 2.24.3 to 2.30.7 writes them as one message; a launcher puts its words before
each row, and the rows of several processes may alternate.
"""

from __future__ import annotations

import re
from typing import Final

from envprobe.nccl.builders import ThreadBuilder
from envprobe.nccl.outcomefacts import Matrix
from envprobe.nccl.place import Place
from envprobe.nccl.prefixes import launchers
from envprobe.nccl.registry import Registry

_ROW: Final = re.compile(rb"(.*?) *\b([A-Za-z]+) \|([^|]*)\|([^|]*)", re.DOTALL)
_FUNCTIONS: Final = (b"Broadcast", b"Reduce", b"AllGather", b"ReduceScatter", b"AllReduce")
_PROTOCOLS: Final = ("LL", "LL128", "Simple")
_ALGORITHMS: Final = ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT")

WITHIN: Final = 64
"""Lines after its head in which a matrix's rows are looked for."""


class Matrices:
    """The matrices whose rows are still coming, by the launcher's words before them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._open: dict[tuple[str, ...], tuple[ThreadBuilder, Place, list[str]]] = {}
        self._rows: dict[tuple[str, ...], dict[str, dict[str, int]]] = {}

    def begin(self, thread: ThreadBuilder, identity: tuple[str, ...], place: Place) -> None:
        """Expect the rows of a matrix."""
        self._close(identity)
        self._open[identity] = thread, place, [*_PROTOCOLS, *_ALGORITHMS]
        self._rows[identity] = {}

    def row(self, line: bytes, place: Place) -> bool:
        """Take a line if it is a row of an open matrix; tell whether any is still open."""
        match = _ROW.fullmatch(line.rstrip())
        if match is not None:
            self._take(match)
        for identity, (_, begun, _) in list(self._open.items()):
            if len(self._rows[identity]) == len(_FUNCTIONS) or place.line > begun.line + WITHIN:
                self._close(identity)
        return bool(self._open)

    def flush(self) -> None:
        """Give what was found of all matrices to their processes."""
        for identity in list(self._open):
            self._close(identity)

    def _take(self, match: re.Match[bytes]) -> None:
        found = launchers(match[1])
        if found.identity not in self._open or found.rest.strip():
            return
        columns = self._open[found.identity][2]
        cells = (match[3] + match[4]).split()
        if match[2] == b"Function":
            columns[:] = [cell.decode("ascii", "replace") for cell in cells]
        elif (
            match[2] in _FUNCTIONS and len(cells) == len(columns) and all(map(bytes.isdigit, cells))
        ):
            row = dict(zip(columns, map(int, cells), strict=True))
            self._rows[found.identity].setdefault(match[2].decode(), row)

    def _close(self, identity: tuple[str, ...]) -> None:
        if identity not in self._open:
            return
        thread, place, _ = self._open.pop(identity)
        rows = self._rows.pop(identity)
        self._registry.matrix(thread, Matrix(rows, place, len(rows) == len(_FUNCTIONS)))
