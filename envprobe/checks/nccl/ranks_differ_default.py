"""The check `nccl-ranks-differ-default`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.nccl import differ
from envprobe.checks.nccl.context import Context


def _run(context: Context) -> Iterator[Finding]:
    yield from differ.findings(context, differ.Kind.DEFAULT, CHECK.slug, CHECK.severity)


CHECK = Check(
    id="EP206",
    slug="nccl-ranks-differ-default",
    severity=Severity.INFO,
    summary="Some ranks were given a value that is the default, the others nothing.",
    why="All ranks use the same value, so nothing is wrong now. The setting did not reach all"
    " of them, though, and neither would another value.",
    mend=differ.MEND,
    run=_run,
)
