"""The check `declared-variable-lost`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import on_the_way
from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.rehearse.about import RehearseContext
from envprobe.checks.rehearse.scans import declared
from envprobe.model import State


def _run(context: RehearseContext) -> Iterator[Finding]:
    yield from declared(
        context,
        lambda scan: on_the_way.findings(scan, State.ABSENT, CHECK.slug, CHECK.severity),
    )


CHECK = Check(
    id="EP505",
    slug="declared-variable-lost",
    severity=Severity.ERROR,
    summary="A variable that the definition sets would not reach a worker.",
    why="The unit or command line sets it, so it is wanted; in the rehearsal, with the same"
    " interpreter, hooks and start method, a worker does not have it. After the restart it would"
    " not either.",
    mend="The break names the last view that had the variable and the first without it, with every"
    " cause that fits: mostly a start-up hook that removes it, or a fork server that was started"
    " before it was set.",
    run=_run,
)
