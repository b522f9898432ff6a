"""The check `nccl-ranks-differ`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.nccl import differ
from envprobe.checks.nccl.context import Context


def _run(context: Context) -> Iterator[Finding]:
    yield from differ.findings(context, differ.Kind.PLAIN, CHECK.slug, CHECK.severity)


CHECK = Check(
    id="EP205",
    slug="nccl-ranks-differ",
    severity=Severity.WARNING,
    summary="Ranks of one communicator read different values of a variable.",
    why="NCCL never compares settings across ranks. What comes of this difference was not"
    " measured; others make a communicator fail or hang without a message.",
    mend=differ.MEND,
    run=_run,
)
