"""The check `memory-disagrees`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.trace.about import TraceContext, found
from envprobe.startup.types import MODULES, Asked


def _run(context: TraceContext) -> Iterator[Finding]:
    target = context.traced.target
    if target is None or target.loaded is None:
        return
    for answer in context.traced.answers:
        effects = answer.startup.effects
        if effects is None or Asked.AGAIN not in {one.asked for one in answer.questions}:
            continue
        for module in MODULES:
            held, now = target.loaded.get(module, ""), effects.loaded.get(module, "")
            if held != now:
                told = f"the process has {held or 'no ' + module} in its memory"
                told += f", and its start would now load {now or 'no ' + module}"
                yield found(CHECK, context, answer, told, of_memory=True)


CHECK = Check(
    id="EP123",
    slug="memory-disagrees",
    severity=Severity.WARNING,
    summary="The process has loaded another hook than its start would run today.",
    why="Files or directories have changed since the process started, or it was started with "
    "an environment or a directory that cannot be seen any more. What is in its memory is "
    "what it has.",
    mend="Trust the memory for the running process and the trace for the next start; restart "
    "the server if they should agree.",
    run=_run,
)
