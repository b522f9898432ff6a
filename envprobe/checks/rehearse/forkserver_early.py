"""The check `forkserver-started-early`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.rehearse.about import RehearseContext, found
from envprobe.checks.who import some
from envprobe.rehearsal.types import Rehearsal


def _run(context: RehearseContext) -> Iterator[Finding]:
    for rehearsed, one in context.told():
        if not one.own_forkserver:
            continue
        used = one.plan.method.value == "forkserver"
        told = "A start-up hook has started the fork server before the server's own code runs"
        lost = list(_differing(one)) if used else []
        if used:
            told += ": its workers carry the environment of that moment"
            told += f", and differ from it in {some(lost, 8)}" if lost else ""
        else:
            told += f"; its workers are started by {one.plan.method.value}, and do not come from it"
        severity = CHECK.severity if lost else Severity.WARNING
        yield found(CHECK, rehearsed, f"{told}.", severity=severity)


def _differing(one: Rehearsal) -> Iterator[str]:
    """Yield the variables that the first process has now and a worker has otherwise."""
    if one.first is None:
        return
    now = one.first.environment
    for name in sorted({*now, *(name for each in one.workers for name in each.environment)}):
        if any(each.environment.get(name) != now.get(name) for each in one.workers):
            yield name


CHECK = Check(
    id="EP512",
    slug="forkserver-started-early",
    severity=Severity.ERROR,
    summary="A fork server runs before the environment is complete, and keeps what it was given.",
    why="Children that come from a fork server have the environment that it was started with. What"
    " a hook or the framework sets afterwards is not in any of them.",
    mend="Do not start the fork server, nor any process by it, in a hook: set what is to be set"
    " before the first process of the server starts.",
    run=_run,
)
