"""The check `nccl-versions-differ`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.nccl.context import (
    Context,
    communicator_words,
    pids,
    process_words,
    rank_words,
)
from envprobe.model import Sentence
from envprobe.nccl.facts import Communicator


def _run(context: Context) -> Iterator[Finding]:
    told = set()
    for communicator in context.log.communicators:
        found: dict[str, list[int]] = {}
        for rank in communicator.ranks:
            for version in context.process(rank).versions[-1:]:
                found.setdefault(version, []).append(rank.rank)
        key = str(found)
        if len(found) > 1 and key not in told:
            told.add(key)
            yield _differing(context, communicator, found)
    for process in context.log.processes:
        if len(set(process.versions)) > 1:
            copies = " and ".join(dict.fromkeys(process.versions))
            yield Finding(
                check=CHECK.slug,
                severity=Severity.WARNING,
                message=Sentence.of(
                    f"{process_words(process)} has more than one copy of NCCL: {copies}."
                ),
                pids=pids([process]),
                remedy=Sentence.of(CHECK.mend),
                who=process_words(process),
            )


def _differing(
    context: Context, communicator: Communicator, found: dict[str, list[int]]
) -> Finding:
    parts = "; ".join(f"{version} in {rank_words(ranks)}" for version, ranks in found.items())
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(
            f"Ranks of {communicator_words(communicator)} have different versions: {parts}."
        ),
        pids=pids(context.process(rank) for rank in communicator.ranks),
        remedy=Sentence.of(CHECK.mend),
        who=communicator_words(communicator),
    )


CHECK = Check(
    id="EP218",
    slug="nccl-versions-differ",
    severity=Severity.ERROR,
    summary="Ranks of one communicator, or copies in one process, have different versions of NCCL.",
    why="Ranks exchange structures that differ between versions, and defaults differ too; two"
    " copies in one process read their variables each on its own.",
    mend="Use one library on all nodes: LD_PRELOAD, LD_LIBRARY_PATH, VLLM_NCCL_SO_PATH and"
    " SGLANG_NCCL_SO_PATH choose another one than PyTorch's.",
    run=_run,
)
