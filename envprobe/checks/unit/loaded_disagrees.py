"""The check `loaded-disagrees`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.unit.about import UnitContext, found
from envprobe.checks.unit.loaded import differing
from envprobe.launch.behind import facts_of
from envprobe.model import Sentence


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition in context.definitions:
        live = definition.live
        if live is None or live.load_state != "loaded":
            continue
        unit = facts_of(definition)
        for name in () if unit.stale else differing(unit):
            yield found(
                CHECK,
                definition,
                Sentence.of(
                    f"systemd has loaded another {name} than envprobe reads in the unit's files."
                ),
                variable=name,
                undetermined=True,
            )


CHECK = Check(
    id="EP320",
    slug="loaded-disagrees",
    severity=Severity.WARNING,
    summary="systemd and envprobe read the same files differently.",
    why="What systemd has loaded is what counts. That envprobe reads something else is a fault of"
    " envprobe, or the files were changed with their old modification time.",
    mend="Run `systemctl daemon-reload`, and report it if it stays.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
