"""The check `nccl-value-odd`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.nccl import meanings
from envprobe.checks.nccl.context import Context
from envprobe.nccl.values import Effect

_EFFECTS = (Effect.ODD,)


def _run(context: Context) -> Iterator[Finding]:
    yield from meanings.findings(context, CHECK.slug, CHECK.severity, _EFFECTS, CHECK.mend)


CHECK = Check(
    id="EP212",
    slug="nccl-value-odd",
    severity=Severity.WARNING,
    summary="NCCL uses a value that was hardly meant, or one that is not documented.",
    why="A buffer of 8 bytes is what NCCL makes of 8M; a number outside of the documented"
    " ones is taken without a word and does what the code happens to do with it.",
    mend="Compare with what was set: a size is written out in bytes, without a suffix.",
    run=_run,
)
