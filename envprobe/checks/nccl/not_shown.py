"""The check `nccl-not-shown`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.nccl import expected, used
from envprobe.checks.nccl.context import Context, pids
from envprobe.checks.nccl.expected import Outcome, Status
from envprobe.model import Sentence


def _run(context: Context) -> Iterator[Finding]:
    for group in expected.grouped(context, (Status.UNKNOWN,)):
        one = group[0]
        those = expected.ranks_in_words(context, group)
        yield Finding(
            check=CHECK.slug,
            severity=CHECK.severity,
            message=Sentence.of(
                f"{one.expectation.name} is not shown in {those}, which does not prove that it is"
                " not set."
            ),
            pids=pids(context.process(other.cell.rank) for other in group),
            variable=one.expectation.name,
            evidence=tuple(_evidence(one)),
            remedy=Sentence.of(CHECK.mend),
            undetermined=True,
            who=those,
        )


def _evidence(one: Outcome) -> Iterator[Sentence]:
    for why in one.reasons:
        yield Sentence.of(f"It may be that {why}.")
    told = used.used(one.communicator, one.cell.rank, one.expectation.name)
    if told:
        yield Sentence.of(f"Used in rank {one.cell.rank.rank}: {told}.")


CHECK = Check(
    id="EP210",
    slug="nccl-not-shown",
    severity=Severity.ERROR,
    summary="The log does not show whether a rank read what is expected.",
    why="No line means nothing: NCCL reads some variables without printing them, prints others only"
    " in some ranks or once in a process, and not at all below NCCL_DEBUG=INFO.",
    mend="Run with NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS unset (or with INIT,ENV in it) and"
    " PYTHONUNBUFFERED=1, under Ray with RAY_DEDUP_LOGS=0; `envprobe workers` shows what the"
    " process's environment holds.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
