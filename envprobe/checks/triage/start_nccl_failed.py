"""The check `start-nccl-failed`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.triage.about import TriageContext, of_cause, saying


def _run(context: TriageContext) -> Iterator[Finding]:
    yield from of_cause(CHECK, context, saying("NCCL failed"))


CHECK = Check(
    id="EP607",
    slug="start-nccl-failed",
    severity=Severity.ERROR,
    summary="NCCL could not make a communicator, or lost a peer.",
    why="NCCL's own message says the reason; the exception says only of which kind it is."
    " Where only a lost peer is told, the rank that ended first has the cause.",
    mend="Set NCCL_DEBUG=INFO and run `envprobe nccl` on the logs of all ranks: it shows the"
    " variables that were read, and which ranks differ.",
    run=_run,
)
