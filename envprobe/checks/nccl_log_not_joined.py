"""The check `nccl-log-not-joined`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import who
from envprobe.checks.finding import Check, Context, Finding, Severity, Undetermined
from envprobe.model import Process, Sentence
from envprobe.ncclfacts import LogState, NcclLog

_SILENT = (LogState.JOINED, LogState.NO_LOG)


def _run(context: Context) -> Iterator[Finding]:
    found = [
        (process, process.nccl)
        for process in context.once(who.workers)
        if process.nccl is not None and process.nccl.state not in _SILENT
    ]
    for group in who.folded(found, lambda pair: _key(pair[1])).values():
        yield _finding(context, group)


def _key(log: NcclLog) -> object:
    """Return what must be equal: the numbers that a reason names are each process's own."""
    single = log.state in (LogState.AMBIGUOUS, LogState.UNREADABLE)
    return (log.state, log.asked, log.files, log.reason if single else "")


def _finding(context: Context, group: list[tuple[Process, NcclLog]]) -> Finding:
    log = group[0][1]
    pids = tuple(process.pid for process, _ in group)
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity if log.asked else Severity.INFO,
        message=Sentence.of(
            f"No log of NCCL was joined to {who.in_words(context, pids)}: {log.reason}."
        ),
        pids=pids,
        evidence=tuple(Sentence.of(f"It may be {one}.") for one in log.candidates),
        remedy=Sentence.of(log.remedy or CHECK.mend),
        undetermined=log.asked,
    )


CHECK = Check(
    id="EP038",
    slug="nccl-log-not-joined",
    severity=Severity.ERROR,
    summary="A log of NCCL could not be joined to a worker.",
    why="A line belongs to a worker if its host and its number in its own pid namespace agree, and"
    " the log was written after it started. Containers share numbers, and a restarted one has those"
    " of its predecessor: of several that fit none is chosen. For a log that was named with"
    " --nccl-log this is undetermined, for one that was found it is a note.",
    mend="Give each process a log of its own, NCCL_DEBUG_FILE=/tmp/nccl.%h.%p, remove logs of"
    " earlier starts, and name the log of this start with --nccl-log.",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
