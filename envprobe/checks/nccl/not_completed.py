"""The check `nccl-not-completed`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.nccl import cells
from envprobe.checks.nccl.context import (
    Context,
    communicator_words,
    pids,
    process_words,
    rank_words,
)
from envprobe.model import Sentence
from envprobe.nccl.facts import Communicator, DamageKind, Rank


def _run(context: Context) -> Iterator[Finding]:
    for communicator in context.log.communicators:
        stuck = [one for one in communicator.ranks if one.started and not one.completed]
        sure = [one for one in stuck if not _may_be_lost(context, one)]
        for ranks, undetermined in ((sure, False), ([r for r in stuck if r not in sure], True)):
            if ranks:
                yield _finding(context, communicator, ranks, undetermined)


def _may_be_lost(context: Context, rank: Rank) -> bool:
    """Return whether the line that the rank completed may be among those that were destroyed."""
    tails = context.log.damage_counts.get(DamageKind.TAIL, 0)
    return tails > 0 or cells.is_damaged(context, context.process(rank))


def _finding(
    context: Context, communicator: Communicator, ranks: list[Rank], undetermined: bool
) -> Finding:
    those = rank_words(rank.rank for rank in ranks)
    first = ranks[0]
    process = context.process(first)
    last = f"{process.last.file}:{process.last.line}"
    evidence = [Sentence.of(f"The last line of {process_words(process)} is {last}.")]
    evidence += [Sentence.of(f"It warned: {one.text}") for one in process.warnings[-1:]]
    if undetermined:
        evidence.append(Sentence.of("Lines were cut or left out, perhaps this one."))
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(
            f"The making of {communicator_words(communicator)} began in {those} and no line says"
            " that it was completed."
        ),
        pids=pids(context.process(rank) for rank in ranks),
        evidence=tuple(evidence),
        remedy=Sentence.of(CHECK.mend),
        undetermined=undetermined,
        who=f"{those} of {communicator_words(communicator)}",
    )


CHECK = Check(
    id="EP216",
    slug="nccl-not-completed",
    severity=Severity.ERROR,
    summary="A rank began to make a communicator and did not complete it.",
    why="The rank failed or hangs in there: another rank did not come, or ranks disagree.",
    mend="Look at the ranks that are missing or differ, and at the warnings; with a pipe the last"
    " lines of a hung process are still in its buffer (PYTHONUNBUFFERED=1 writes them at once).",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
