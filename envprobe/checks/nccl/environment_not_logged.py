"""The check `nccl-environment-not-logged`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.nccl import cells
from envprobe.checks.nccl.context import Context, communicator_words, pids, rank_words
from envprobe.model import Sentence
from envprobe.nccl.facts import Communicator, Rank


def _run(context: Context) -> Iterator[Finding]:
    for communicator in context.log.communicators:
        silent = _silent(context, communicator)
        if silent:
            yield _finding(context, communicator, silent)


def _silent(context: Context, communicator: Communicator) -> list[Rank]:
    """Return the ranks that show no variable although others do, or that log no INFO at all."""
    shows = [cells.logs_environment(context.process(one)) for one in communicator.ranks]
    return [
        rank
        for rank, shown in zip(communicator.ranks, shows, strict=True)
        if not shown and (any(shows) or not context.process(rank).levels.get("INFO"))
    ]


def _finding(context: Context, communicator: Communicator, silent: list[Rank]) -> Finding:
    those = rank_words(rank.rank for rank in silent)
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(
            f"No variable is shown in {those} of {communicator_words(communicator)}: what"
            " they read cannot be told."
        ),
        pids=pids(context.process(rank) for rank in silent),
        evidence=(
            Sentence.of("Other ranks of it show some, or these logged no INFO line at all."),
        ),
        remedy=Sentence.of(CHECK.mend),
        undetermined=True,
        who=those,
    )


CHECK = Check(
    id="EP203",
    slug="nccl-environment-not-logged",
    severity=Severity.ERROR,
    summary="Some ranks did not log which variables they read.",
    why="NCCL_DEBUG and NCCL_DEBUG_SUBSYS are read by each process: a rank with another level or"
    " without ENV shows nothing of what it read, and a difference would stay hidden.",
    mend="Set NCCL_DEBUG=INFO in every rank, and NCCL_DEBUG_SUBSYS nowhere or with INIT,ENV in it.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
