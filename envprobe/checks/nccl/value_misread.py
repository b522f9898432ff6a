"""The check `nccl-value-misread`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.nccl import meanings
from envprobe.checks.nccl.context import Context
from envprobe.nccl.values import Effect

_EFFECTS = (Effect.READ_AS,)


def _run(context: Context) -> Iterator[Finding]:
    yield from meanings.findings(context, CHECK.slug, CHECK.severity, _EFFECTS, CHECK.mend)


CHECK = Check(
    id="EP208",
    slug="nccl-value-misread",
    severity=Severity.ERROR,
    summary="NCCL reads a value as something else than it says.",
    why="NCCL reads numbers without looking at their end: NCCL_BUFFSIZE=8M is 8 bytes."
    " NCCL_NTHREADS that is no multiple of 32 gives the greatest number, and older"
    " versions ignore unknown words in lists.",
    mend="Write the number out (8388608 for 8M), and a multiple where one is asked for.",
    run=_run,
)
