"""The check `unit-not-restarted`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, found
from envprobe.checks.unit.loaded import (
    TOLERANCE,
    is_stale,
    not_handed,
    not_handed_of_loaded,
)
from envprobe.checks.who import moment
from envprobe.launch.definition import Definition
from envprobe.launch.types import Source
from envprobe.model import Sentence


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition in context.definitions:
        live = definition.live
        if live is None or live.started is None:
            continue
        stale = is_stale(definition)
        newer = [
            (path, at)
            for path in (() if stale else definition.files)
            if (at := definition.modified.get(path)) is not None and at > live.started + TOLERANCE
        ]
        names = not_handed_of_loaded(definition) if stale else _differ(definition)
        if not newer and not names:
            continue
        yield found(
            CHECK,
            definition,
            Sentence.of(_message(live.main_pid, newer, names)),
            severity=Severity.WARNING if names == () else Severity.ERROR,
            evidence=(
                Sentence.of(f"The process was started at {moment(live.started)}."),
                *(Sentence.of(f"{path} was changed at {moment(at)}.") for path, at in newer),
            ),
        )


def _differ(definition: Definition) -> tuple[str, ...] | None:
    """Return what the process was started without, of what its unit itself says."""
    own = (Source.ENVIRONMENT, Source.PASSED)
    return not_handed(
        definition,
        [
            one
            for one in definition.declared.written
            if one.setting.source in own or one.removed is not None
        ],
    )


def _message(pid: int, newer: list[tuple[str, float]], names: tuple[str, ...] | None) -> str:
    if names:
        return (
            f"Process {pid} was started with another definition: it was not given what the unit"
            f" says now for {', '.join(names)}."
        )
    told = "was started before the unit was changed"
    if names is None:
        return f"Process {pid} {told}; with which variables it was started cannot be read."
    return f"Process {pid} {told}; the variables that it was given are those that it says now."


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
