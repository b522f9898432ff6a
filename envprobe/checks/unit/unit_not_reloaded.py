"""The check `unit-not-reloaded`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, of_told
from envprobe.checks.unit.since import not_reloaded
from envprobe.launch.behind import facts_of


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition in context.definitions:
        told = not_reloaded(facts_of(definition)) if definition.live is not None else None
        if told is not None:
            yield of_told(CHECK, definition, told)


CHECK = Check(
    id="EP315",
    slug="unit-not-reloaded",
    severity=Severity.ERROR,
    summary="The unit's files were changed after the manager loaded them.",
    why="systemd reads units when it is told to. A restart alone starts the service with the"
    " definition that it read before.",
    mend="Run `systemctl daemon-reload`, then restart the unit.",
    run=_run,
)
