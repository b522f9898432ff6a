"""The check `nccl-no-effect`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.nccl import cells
from envprobe.checks.nccl.cells import Cell
from envprobe.checks.nccl.context import Context, communicator_words, rank_words
from envprobe.model import Sentence, Shown
from envprobe.nccl.facts import Communicator, Rank

_NEEDS: Final = {"NCCL_OOB_NET_IFNAME": ("NCCL_OOB_NET_ENABLE", "1")}
"""Variables that count only where another one has this value."""

_OVERRULED: Final = {
    "NCCL_P2P_LEVEL": ("NCCL_P2P_DISABLE", "1"),
    "NCCL_MAX_NRINGS": ("NCCL_MAX_NCHANNELS", ""),
    "NCCL_MIN_NRINGS": ("NCCL_MIN_NCHANNELS", ""),
}
"""Variables that do not count where another one has this value (any, where it is empty)."""


def _run(context: Context) -> Iterator[Finding]:
    told: dict[tuple[str, str], tuple[Communicator, Cell, list[int]]] = {}
    for communicator in context.log.communicators:
        for rank in communicator.ranks:
            for name in cells.shown_in(context, rank):
                cell = cells.cell(context, communicator, rank, name)
                why = _why(context, communicator, rank, cell)
                if why:
                    told.setdefault((name, why), (communicator, cell, []))[2].append(rank.rank)
    for (name, why), (communicator, cell, ranks) in told.items():
        if cell.value is not None:
            whose = f"{rank_words(ranks)} of {communicator_words(communicator)}"
            yield Finding(
                check=CHECK.slug,
                severity=CHECK.severity,
                message=Sentence.of(
                    f"{name}=", Shown(name, cell.value), f" changes nothing in {whose}: {why}."
                ),
                variable=name,
                remedy=Sentence.of(CHECK.mend),
                who=whose,
            )


def _why(context: Context, communicator: Communicator, rank: Rank, cell: Cell) -> str:
    if cell.value is None:
        return ""
    if cell.name in _OVERRULED:
        other, value = _OVERRULED[cell.name]
        shown = cells.cell(context, communicator, rank, other).value
        if shown is not None and value in ("", shown.reveal().decode(errors="replace")):
            return f"{other} counts instead"
    if cell.name in _NEEDS:
        other, value = _NEEDS[cell.name]
        shown = cells.cell(context, communicator, rank, other).value
        if shown is None or shown.reveal() != value.encode():
            return f"it counts with {other}={value} only, which is not shown"
    if cell.name in ("NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS"):
        return _above_found(rank, cell)
    return ""


def _above_found(rank: Rank, cell: Cell) -> str:
    """Return why a cap changes nothing: the number of channels is smaller anyway."""
    found = {one.coll for one in rank.outcome.channels}
    text = cell.value.reveal() if cell.value is not None else b""
    if not found or not text.isdigit() or int(text) <= max(found):
        return ""
    return f"{max(found)} channels were found, fewer than this cap"


CHECK = Check(
    id="EP220",
    slug="nccl-no-effect",
    severity=Severity.INFO,
    summary="A value was read, is valid, and changes nothing.",
    why="What NCCL finds on the machine, or another variable, decides before this one does.",
    mend="Leave it out, or set what it depends on.",
    run=_run,
)
