"""The check `entry-unknown`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.unit.about import UnitContext, found
from envprobe.model import Sentence


def _run(context: UnitContext) -> Iterator[Finding]:
    for number, definition in enumerate(context.definitions):
        for look in context.entries.get(number, ()):
            if look.reason:
                yield found(
                    CHECK,
                    definition,
                    Sentence.of(
                        f"Whether {look.path} has a main guard cannot be told: {look.reason}."
                    ),
                    undetermined=True,
                )


CHECK = Check(
    id="EP326",
    slug="entry-unknown",
    severity=Severity.WARNING,
    summary="The file that a launch begins with cannot be looked at.",
    why="Without it nobody can say whether a spawned child would start the server once more.",
    mend="Run envprobe on the machine of the service, as a user that may read the file.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
