"""The check `lost-on-the-way`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import on_the_way
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.model import State


def _run(context: Context) -> Iterator[Finding]:
    yield from on_the_way.findings(context, State.ABSENT, CHECK.slug, CHECK.severity)


CHECK = Check(
    id="EP012",
    slug="lost-on-the-way",
    severity=Severity.WARNING,
    summary="A variable that was set further up never reached a worker.",
    why="Someone set it, so someone wanted it; the worker runs without it. No expectation is needed"
    " to see that, and no known code of the framework explains it.",
    mend="The break names the last view that had the variable and the first without it, with every"
    " cause that fits. If the loss is meant, note the reason under [ignore] in envprobe.toml; else"
    " set the variable before the first process of the server starts.",
    run=_run,
)
