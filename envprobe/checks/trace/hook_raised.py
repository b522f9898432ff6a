"""The check `hook-raised`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.trace.about import TraceContext, found
from envprobe.startup.result import Outcome


def _run(context: TraceContext) -> Iterator[Finding]:
    for answer, hook in context.hooks():
        if hook.outcome is Outcome.RAISED and hook.raised is not None:
            raised = hook.raised
            where = f" at {raised.file}:{raised.line}" if raised.file else ""
            name = hook.path or f"importing {hook.name}"
            what = f"{raised.type}: {raised.message}" if raised.message else raised.type
            yield found(
                CHECK,
                context,
                answer,
                f"{name} raised {what}{where}: it did not run to its end, and no exit code shows"
                " it",
            )


CHECK = Check(
    id="EP103",
    slug="hook-raised",
    severity=Severity.ERROR,
    summary="A sitecustomize or usercustomize raised an exception.",
    why="The interpreter goes on with exit code 0 and one line on stderr. What the hook did "
    "before that line stays, what comes after it is missing, and the module is not in "
    "sys.modules.",
    mend="Mend the line that the finding names. Keep a hook small, and let it catch and log "
    "its own errors.",
    run=_run,
)
