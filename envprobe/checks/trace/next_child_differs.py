"""The check `next-child-differs`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.trace.about import TraceContext, found
from envprobe.startup.result import Hook, Outcome
from envprobe.startup.types import MODULES


def _run(context: TraceContext) -> Iterator[Finding]:
    # Two answers: what the process ran, and what its next spawned child will run.
    if len(context.traced.answers) < 2:
        return
    before, after = (answer.startup for answer in context.traced.answers)
    for module in MODULES:
        ran, next_one = _path(before.hook(module)), _path(after.hook(module))
        if ran != next_one:
            changed = before.launch.python_path != after.launch.python_path
            yield found(
                CHECK,
                context,
                context.traced.answers[1],
                f"{next_one or 'no ' + module} runs, where the process itself ran"
                f" {ran or 'no ' + module}",
                evidence=["PYTHONPATH was changed after the process started"] if changed else [],
            )


def _path(hook: Hook) -> str:
    return hook.path if hook.outcome is Outcome.RAN else ""


CHECK = Check(
    id="EP124",
    slug="next-child-differs",
    severity=Severity.WARNING,
    summary="The next spawned child of a process will run another hook than the process did.",
    why="A spawned worker starts with the environment that its parent has at that time. If the "
    "parent has changed PYTHONPATH since its own start, the hook that it ran itself does not run "
    "in workers that are started, or restarted, from now on.",
    mend="Find what changes PYTHONPATH in the process (a hook, the launcher, the framework) and "
    "let it keep the directory of the hook; or use a .pth file, which needs no variable.",
    run=_run,
)
