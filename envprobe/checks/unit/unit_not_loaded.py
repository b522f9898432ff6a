"""The check `unit-not-loaded`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, found
from envprobe.model import Sentence


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition in context.definitions:
        live = definition.live
        if live is not None and live.load_state != "loaded":
            reason = f" ({live.load_error})" if live.load_error else ""
            yield found(
                CHECK,
                definition,
                Sentence.of(
                    f"{live.name} cannot be started: its state is {live.load_state}{reason}."
                ),
            )


CHECK = Check(
    id="EP319",
    slug="unit-not-loaded",
    severity=Severity.ERROR,
    summary="The manager refuses the unit.",
    why="A broken section header, or several ExecStart= lines in a service that may have one only,"
    " and the unit cannot be started at all.",
    mend="Mend the lines that the other findings name, and run `systemctl daemon-reload`.",
    run=_run,
)
