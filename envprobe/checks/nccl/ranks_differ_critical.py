"""The check `nccl-ranks-differ-critical`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.nccl import differ
from envprobe.checks.nccl.context import Context


def _run(context: Context) -> Iterator[Finding]:
    yield from differ.findings(context, differ.Kind.CRITICAL, CHECK.slug, CHECK.severity)


CHECK = Check(
    id="EP204",
    slug="nccl-ranks-differ-critical",
    severity=Severity.ERROR,
    summary="Ranks of one communicator differ in a variable in which they must agree.",
    why="NCCL never compares these settings across ranks. Measured with NCCL 2.28.9: one rank"
    " without NCCL_BUFFSIZE gives wrong sums without any message; one without NCCL_PROTO"
    " or NCCL_ALGO hangs at the first all-reduce; others fail with errors that name"
    " something else.",
    mend=differ.MEND,
    run=_run,
)
