"""The check `hook-starts-processes`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.trace.about import TraceContext, found

_NAME: Final = 120


def _run(context: TraceContext) -> Iterator[Finding]:
    for answer in context.traced.answers:
        run, effects = answer.startup.run, answer.startup.effects
        names = [*run.started, *run.left]
        if effects is not None:
            names += effects.children or ()
        waited = effects is not None and effects.waited_for_children
        if names or waited or run.stopped == "processes":
            evidence = [f"seen: {name[:_NAME]}" for name in dict.fromkeys(names) if name.strip()]
            yield found(CHECK, context, answer, "the hooks start processes", evidence=evidence)
        elif effects is not None and (effects.threads or 1) > 1:
            told = f"after the hooks the interpreter has {effects.threads} threads"
            yield found(CHECK, context, answer, told, severity=Severity.WARNING)


CHECK = Check(
    id="EP117",
    slug="hook-starts-processes",
    severity=Severity.ERROR,
    summary="A hook starts processes or threads.",
    why="A process that a hook starts runs the hook again if it is Python and inherits the "
    "environment: thousands of processes in seconds. Threads are lost in forked children, "
    "with the locks that they hold.",
    mend="Start nothing in a hook. If it must be, guard it by a variable that the child "
    "inherits, and use python -I -S.",
    run=_run,
)
