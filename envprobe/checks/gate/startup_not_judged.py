"""The check `startup-not-judged`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.gate.about import GateContext, not_judged
from envprobe.checks.gate.plan import STARTUP


def _run(context: GateContext) -> Iterator[Finding]:
    yield from not_judged(CHECK, context, STARTUP)


CHECK = Check(
    id="EP702",
    slug="startup-not-judged",
    severity=Severity.ERROR,
    summary="Which start-up hooks the declared interpreter runs could not be asked.",
    why="Whether the hook runs, and in the workers too, is decided by that interpreter alone:"
    " what could not be asked does not hold.",
    mend="Run the gate on the server's machine, where the interpreter is; `envprobe gate --static`"
    " asks for what files decide.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
