"""The check `hook-without-code`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.trace.about import TraceContext, found
from envprobe.startup.result import Outcome


def _run(context: TraceContext) -> Iterator[Finding]:
    for answer, hook in context.hooks():
        if hook.outcome is Outcome.NAMESPACE:
            yield found(
                CHECK,
                context,
                answer,
                f"{hook.path or hook.name} is a directory without __init__.py: it was imported as a"
                " namespace package, and nothing was executed",
            )


CHECK = Check(
    id="EP108",
    slug="hook-without-code",
    severity=Severity.WARNING,
    summary="A directory named like a hook was imported, and nothing was executed.",
    why="A directory without __init__.py is a namespace package: importing it succeeds, the "
    "module is in sys.modules, and no code runs. 'It imports' proves nothing.",
    mend="Add __init__.py to the directory, or rename or remove it.",
    run=_run,
)
