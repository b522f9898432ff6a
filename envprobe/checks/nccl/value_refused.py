"""The check `nccl-value-refused`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.nccl import meanings
from envprobe.checks.nccl.context import Context
from envprobe.nccl.values import Effect

_EFFECTS = (Effect.NOT_SET, Effect.FATAL)


def _run(context: Context) -> Iterator[Finding]:
    yield from meanings.findings(context, CHECK.slug, CHECK.severity, _EFFECTS, CHECK.mend)


CHECK = Check(
    id="EP207",
    slug="nccl-value-refused",
    severity=Severity.ERROR,
    summary="NCCL does not use a value, or cannot work with it.",
    why="A level in lower case, a word that this version does not know or a number that is"
    " too great leaves NCCL with its default, mostly without a line; from 2.24.3 on an"
    " unknown word in NCCL_ALGO or NCCL_PROTO makes the communicator fail.",
    mend="Write a value that this version takes: the evidence says which they are.",
    run=_run,
)
