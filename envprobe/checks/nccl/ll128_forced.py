"""The check `nccl-ll128-forced`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.nccl import cells
from envprobe.checks.nccl.context import Context, communicator_words, pids, version
from envprobe.model import Confidence, Sentence, Shown
from envprobe.nccl import selections
from envprobe.nccl.facts import Communicator

_NVLINK_CHUNK: Final = 1 << 19
"""Default of NCCL_P2P_NVL_CHUNKSIZE: a single node whose GPUs all talk over NVLink."""

_SIZES: Final = frozenset({"NCCL_BUFFSIZE", "NCCL_P2P_NVL_CHUNKSIZE", "NCCL_P2P_PCI_CHUNKSIZE"})


def _run(context: Context) -> Iterator[Finding]:
    for communicator in context.log.communicators:
        if not _over_pcie(context, communicator):
            continue
        forced = [
            cell
            for rank in communicator.ranks
            for cell in (cells.cell(context, communicator, rank, "NCCL_PROTO"),)
            if cell.value is not None and _forces(context, cell)
        ]
        if forced and forced[0].value is not None:
            yield Finding(
                check=CHECK.slug,
                severity=CHECK.severity,
                message=Sentence.of(
                    "NCCL_PROTO=",
                    Shown("NCCL_PROTO", forced[0].value),
                    f" forces LL128 in {communicator_words(communicator)}, whose GPUs are not all"
                    " joined by NVLink.",
                ),
                confidence=Confidence.INFERRED,
                pids=pids(context.process(cell.rank) for cell in forced),
                variable="NCCL_PROTO",
                evidence=tuple(_evidence(communicator)),
                remedy=Sentence.of(CHECK.mend),
                who=communicator_words(communicator),
            )


def _forces(context: Context, cell: cells.Cell) -> bool:
    text = os.fsdecode(cell.value.reveal()) if cell.value is not None else ""
    found = selections.select("NCCL_PROTO", text, version(context.process(cell.rank)))
    return "LL128" in found.named


def _over_pcie(context: Context, communicator: Communicator) -> bool:
    """Return whether the size of the chunks shows that one node's GPUs are not all on NVLink.

    It shows nothing between nodes, nor where a variable decided about the size.
    """
    ranks = communicator.ranks
    chunks = {size for rank in ranks for size in rank.outcome.p2p_chunks}
    decided = any(set(cells.shown_in(context, rank)) & _SIZES for rank in ranks)
    one_node = all(rank.nodes == 1 for rank in ranks)
    return bool(chunks) and one_node and not decided and max(chunks) < _NVLINK_CHUNK


def _evidence(communicator: Communicator) -> Iterator[Sentence]:
    chunks = {size for rank in communicator.ranks for size in rank.outcome.p2p_chunks}
    sizes = " and ".join(str(one) for one in sorted(chunks))
    yield Sentence.of(f"P2P chunks of {sizes} bytes within one node are those of PCIe.")


CHECK = Check(
    id="EP213",
    slug="nccl-ll128-forced",
    severity=Severity.WARNING,
    summary="LL128 is forced where NCCL would not trust it.",
    why="LL128 needs that 128 bytes arrive in one piece, which NVLink gives and PCIe may not. Named"
    " in NCCL_PROTO it is used without NCCL's own test, and results can be wrong.",
    mend="Leave LL128 out of NCCL_PROTO, or write ^LL128.",
    run=_run,
)
