"""The check `own-interpreter`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.trace.about import TraceContext, found


def _run(context: TraceContext) -> Iterator[Finding]:
    if context.traced.own:
        answer = context.traced.answers[0]
        yield found(
            CHECK,
            context,
            answer,
            f"no interpreter was named, and the first on PATH, {answer.startup.launch.python}, is"
            " the one that envprobe itself runs in",
        )


CHECK = Check(
    id="EP120",
    slug="own-interpreter",
    severity=Severity.WARNING,
    summary="No interpreter was named, and the one on PATH is that of envprobe itself.",
    why="The server most likely runs another one, with other hooks.",
    mend="Name the server's interpreter with --python, or the running server with --pid.",
    run=_run,
)
