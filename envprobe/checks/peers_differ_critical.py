"""The check `peers-differ-critical`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import peerfindings
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.checks.peers import Kind

_REMEDY = (
    "Give {name} the same value in all ranks: set it once, before the first process of the server"
    " starts (the unit's Environment=, or exported before the command), on every node; then restart"
    " the server."
)


def _run(context: Context) -> Iterator[Finding]:
    yield from peerfindings.findings(context, Kind.CRITICAL, CHECK.severity, _REMEDY)


CHECK = Check(
    id="EP009",
    slug="peers-differ-critical",
    severity=Severity.ERROR,
    summary="Ranks of one job differ in a variable in which they must agree.",
    why="NCCL never compares these settings across ranks. Measured with NCCL 2.28.9: one rank"
    " without NCCL_BUFFSIZE gives wrong sums without any message; one without NCCL_PROTO or"
    " NCCL_ALGO hangs at the first all-reduce; others fail with errors that name something else.",
    mend="Give the variable the same value in all ranks: set it once, before the first process of"
    " the server starts, on every node, and restart the server.",
    run=_run,
)
