"""The check `changed-on-the-way`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import on_the_way
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.model import State


def _run(context: Context) -> Iterator[Finding]:
    yield from on_the_way.findings(context, State.VALUE, CHECK.slug, CHECK.severity)


CHECK = Check(
    id="EP013",
    slug="changed-on-the-way",
    severity=Severity.WARNING,
    summary="A variable has another value in a worker than further up.",
    why="What was set is not what arrived: a launch script, a hook or code of the server put"
    " another value in its place, and no known code of the framework explains it.",
    mend="The break names the two views between which the value changed, with every cause that"
    " fits. If the change is meant, note the reason under [ignore] in envprobe.toml; else set the"
    " variable at the place that wins.",
    run=_run,
)
