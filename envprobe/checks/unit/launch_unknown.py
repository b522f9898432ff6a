"""The check `launch-unknown`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.unit.about import UnitContext, found
from envprobe.model import Sentence


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition, launch in context.launches():
        if launch.opaque:
            at = launch.opaque_at
            yield found(
                CHECK,
                definition,
                Sentence.of(f"Could not tell what is started from {at} on: {launch.opaque}."),
                place=at,
                undetermined=True,
            )


CHECK = Check(
    id="EP322",
    slug="launch-unknown",
    severity=Severity.WARNING,
    summary="A command line cannot be followed to the interpreter that it starts.",
    why="A wrapper may set or remove any variable. One that envprobe cannot read without running it"
    " leaves open what the server is handed.",
    mend="Let ExecStart= start the interpreter itself, or keep the wrapper to export, source and"
    " exec; once it runs, `envprobe workers` shows what arrived.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
