"""The check `env-file-newer`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, found
from envprobe.checks.unit.loaded import TOLERANCE, not_handed
from envprobe.checks.who import moment
from envprobe.launch.definition import Definition
from envprobe.launch.types import Source
from envprobe.model import Sentence


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition in context.definitions:
        live = definition.live
        if live is None or live.started is None:
            continue
        for path in definition.env_files:
            at = definition.modified.get(path)
            names = _differ(definition, path)
            newer = at is not None and at > live.started + TOLERANCE
            if not newer and not names:
                continue
            evidence = [Sentence.of(f"The process was started at {moment(live.started)}.")]
            evidence += [Sentence.of(f"{path} was changed at {moment(at)}.")]
            told = "does not hold what it was started with"
            if names:
                told = f"says something else now for {', '.join(names)}"
            elif names == ():
                told = "was changed since, but says the same"
            yield found(
                CHECK,
                definition,
                Sentence.of(
                    f"{path} is read at each start, and for process {live.main_pid} {told}."
                ),
                severity=Severity.WARNING if names == () else Severity.ERROR,
                evidence=evidence,
            )


def _differ(definition: Definition, path: str) -> tuple[str, ...] | None:
    return not_handed(
        definition,
        [
            one
            for one in definition.declared.written
            if one.setting.source is Source.FILE and one.setting.place.file == path
        ],
    )


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
