"""The check `hook-ruled-out`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.gate.about import GateContext
from envprobe.checks.gate.plan import runs_no_hook
from envprobe.model import Sentence


def _run(context: GateContext) -> Iterator[Finding]:
    for python in filter(runs_no_hook, context.pythons):
        for hook in context.plan.hooks:
            told = f"{hook.name} is expected by {hook.origin}, and {python.interpreter} is started"
            yield Finding(
                check=CHECK.slug,
                severity=CHECK.severity,
                message=Sentence.of(f"{told} with -S: it runs no start-up hook."),
                remedy=Sentence.of(CHECK.mend),
                who=context.subject,
            )


CHECK = Check(
    id="EP705",
    slug="hook-ruled-out",
    severity=Severity.ERROR,
    summary="A start-up hook is expected, and the interpreter is started with -S.",
    why="-S leaves out the module site, which runs the hooks: in the server and in each child that"
    " is spawned with the same options.",
    mend="Start the interpreter without -S.",
    run=_run,
)
