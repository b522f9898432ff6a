"""The check `nccl-no-communicator`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.nccl.context import Context
from envprobe.model import Sentence


def _run(context: Context) -> Iterator[Finding]:
    log = context.log
    if log.communicators:
        return
    if not log.messages:
        message = "The files hold no line of NCCL."
        evidence = (
            "NCCL logs nothing without NCCL_DEBUG, and nothing with a word that it does not know.",
            "With NCCL_DEBUG_FILE its lines are in that file and not in the job's output.",
        )
    else:
        message = f"The {log.messages} lines of NCCL show no communicator."
        evidence = (
            "Communicators are shown at NCCL_DEBUG=INFO with INIT among NCCL_DEBUG_SUBSYS.",
            "A process that only makes an id, or fails before, has none.",
        )
    broken = [f"{one.name} breaks off: {one.broken}." for one in log.files if one.broken]
    if broken:
        message = "What could be read of the files shows no communicator."
    yield Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(message),
        evidence=tuple(Sentence.of(one) for one in (*broken, *evidence)),
        remedy=Sentence.of(CHECK.mend),
        undetermined=True,
        who=", ".join(file.name for file in log.files),
    )


CHECK = Check(
    id="EP201",
    slug="nccl-no-communicator",
    severity=Severity.ERROR,
    summary="The log shows no communicator, so that there is nothing to judge.",
    why="No line of NCCL proves nothing about the variables of a job.",
    mend="Run with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS unset, and give all files of all nodes.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
