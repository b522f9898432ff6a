"""The check `trace-and-walk-disagree`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.trace.about import TraceContext, found


def _run(context: TraceContext) -> Iterator[Finding]:
    for answer, hook in context.hooks():
        walk = answer.startup.walk
        if walk is None or not hook.path or hook.name in walk.loaded:
            continue
        winner = walk.winner(hook.name)
        if winner is not None and hook.path in (winner.file.path, winner.file.real):
            continue
        walked = winner.file.path if winner is not None else "nothing"
        told = f"the trace shows {hook.path} as {hook.name}, the walk of sys.path {walked};"
        yield found(CHECK, context, answer, f"{told} the trace is trusted")


CHECK = Check(
    id="EP119",
    slug="trace-and-walk-disagree",
    severity=Severity.WARNING,
    summary="The trace shows another winner than the walk of sys.path has found.",
    why="The walk asks the interpreter in a second run. If files change meanwhile, or a "
    "startup file acts differently the second time, the two see different things. The "
    "trace is what ran and is trusted.",
    mend="Run the command again. If it stays, look for a .pth file that changes sys.path or "
    "sys.meta_path depending on how Python was started.",
    run=_run,
)
