"""The check `unit-not-restarted`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, of_told
from envprobe.checks.unit.since import not_restarted
from envprobe.launch.behind import facts_of


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition in context.definitions:
        live = definition.live
        told = not_restarted(facts_of(definition), live.handed) if live is not None else None
        if told is not None:
            yield of_told(CHECK, definition, told)


CHECK = Check(
    id="EP316",
    slug="unit-not-restarted",
    severity=Severity.ERROR,
    summary="The running process was started before the unit was changed.",
    why="A loaded unit says what the next start hands over. A process keeps what it was started"
    " with: the restart was forgotten, or it failed and the old process stayed.",
    mend="Restart the unit, and look at what `systemctl status` says of the last attempt.",
    run=_run,
)
