"""The check `nccl-ranks-missing`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.nccl.context import Context, communicator_words, rank_words
from envprobe.model import Sentence
from envprobe.nccl.facts import Communicator


def _run(context: Context) -> Iterator[Finding]:
    groups: dict[tuple[int, tuple[int, ...]], list[Communicator]] = {}
    for one in context.log.communicators:
        if one.missing:
            groups.setdefault((one.nranks, one.missing), []).append(one)
    for (nranks, missing), found in groups.items():
        several = f" {len(found)} communicators of {nranks} ranks have" if found[1:] else ""
        whose = several or f" {communicator_words(found[0])} has"
        yield Finding(
            check=CHECK.slug,
            severity=CHECK.severity,
            message=Sentence.of(
                f"The log has no line of {rank_words(missing)}:{whose} ranks that cannot be judged."
            ),
            evidence=tuple(_evidence(context)),
            remedy=Sentence.of(CHECK.mend),
            undetermined=True,
            who=rank_words(missing),
        )


def _evidence(context: Context) -> Iterator[Sentence]:
    files = context.log.files
    yield Sentence.of(f"{len(files)} file{'' if len(files) == 1 else 's'} given.")
    if context.log.damage_counts:
        lost = sum(context.log.damage_counts.values())
        yield Sentence.of(f"{lost} lines were damaged, and may have been of these ranks.")


CHECK = Check(
    id="EP202",
    slug="nccl-ranks-missing",
    severity=Severity.ERROR,
    summary="A communicator has ranks of which the log shows no line.",
    why="Whether those ranks read the same values cannot be told, and NCCL never compares them.",
    mend="Give the files of all nodes and processes; with NCCL_DEBUG_FILE use %h and %p in the name"
    " (two processes with one name overwrite each other), and give all of them.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
