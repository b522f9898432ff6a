"""The check `variable-removed`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, found, origin
from envprobe.model import Sentence


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition in context.definitions:
        for entry in definition.declared.entries:
            if entry.removed is None or entry.setting.source.given:
                continue
            name = entry.setting.name
            yield found(
                CHECK,
                definition,
                Sentence.of(
                    f"{entry.removed}: UnsetEnvironment= removes {name}, set by {origin(entry)}."
                ),
                place=entry.removed,
                variable=name,
            )


CHECK = Check(
    id="EP311",
    slug="variable-removed",
    severity=Severity.ERROR,
    summary="UnsetEnvironment= removes a variable that the same unit sets.",
    why="It is applied last, whatever sets the name, and a drop-in may hold it.",
    mend="Remove the name from UnsetEnvironment=, or the assignment.",
    run=_run,
)
