"""The check `launch-unknown`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.unit.about import UnitContext, found
from envprobe.launch.definition import Origin
from envprobe.model import Sentence

_STARTED_HERE: Final = (Origin.UNIT, Origin.COMMAND)
"""A file of a unit may be one of another machine, which has another interpreter."""

_FIND: Final = "Mend its path, or run envprobe where the interpreter is seen."


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
        elif launch.missing and launch.python is not None and definition.origin in _STARTED_HERE:
            told = f"{launch.place}: the interpreter {launch.python.interpreter} is"
            yield found(
                CHECK,
                definition,
                Sentence.of(f"{told} {launch.missing}: whether it starts cannot be told."),
                place=launch.place,
                remedy=_FIND,
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
