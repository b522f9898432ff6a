"""The check `rehearsal-not-judged`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.gate.about import GateContext, not_judged
from envprobe.checks.gate.plan import REHEARSAL


def _run(context: GateContext) -> Iterator[Finding]:
    yield from not_judged(CHECK, context, REHEARSAL)


CHECK = Check(
    id="EP703",
    slug="rehearsal-not-judged",
    severity=Severity.ERROR,
    summary="The start could not be rehearsed with real children.",
    why="What a worker gets is shown by a child that is started as a worker is: what was not"
    " rehearsed does not hold.",
    mend="Run the gate on the server's machine, where the interpreter is; `envprobe gate --static`"
    " asks for what files decide.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
