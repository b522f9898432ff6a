"""The check `env-file-newer`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, of_told
from envprobe.checks.unit.since import env_files
from envprobe.launch.behind import facts_of


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition in context.definitions:
        live = definition.live
        for told in env_files(facts_of(definition), live.handed) if live is not None else ():
            yield of_told(CHECK, definition, told)


CHECK = Check(
    id="EP317",
    slug="env-file-newer",
    severity=Severity.ERROR,
    summary="An environment file was changed after the running process was started.",
    why="EnvironmentFile= is read when the service is started, and never again while it runs. No"
    " daemon-reload is needed, and none helps.",
    mend="Restart the unit.",
    run=_run,
)
