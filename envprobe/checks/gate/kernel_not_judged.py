"""The check `kernel-not-judged`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.gate.about import GateContext, not_judged
from envprobe.checks.gate.plan import KERNEL


def _run(context: GateContext) -> Iterator[Finding]:
    yield from not_judged(CHECK, context, KERNEL)


CHECK = Check(
    id="EP704",
    slug="kernel-not-judged",
    severity=Severity.ERROR,
    summary="The kernel that the configuration expects could not be tried.",
    why="A kernel that was not built and run is not known to work.",
    mend="Install what the finding names, or take [expect.kernel] out of this machine's"
    " configuration.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
