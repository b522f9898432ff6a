"""The check `declared-unknown`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.unit.about import UnitContext, found, of_remark
from envprobe.launch.definition import Origin
from envprobe.launch.types import Kind
from envprobe.model import Sentence


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition, remark in context.remarks((Kind.FILE_UNREADABLE,)):
        one = of_remark(CHECK, definition, remark)
        mend = Sentence.of(_MEND.get(definition.origin, CHECK.mend))
        yield dataclasses.replace(one, undetermined=True, remedy=mend)
    for definition in context.definitions:
        for entry in definition.declared.written:
            setting = entry.setting
            if entry.known or entry.removed is not None:
                continue
            reason = entry.doubt or setting.reason
            where = f"{setting.place}: " if str(setting.place) else ""
            yield found(
                CHECK,
                definition,
                Sentence.of(f"{where}{setting.name} cannot be told: {reason}."),
                place=setting.place,
                variable=setting.name,
                remedy=_MEND.get(definition.origin, ""),
                undetermined=True,
            )


_MEND: Final = {
    Origin.ENV_FILE: "Write NAME=VALUE into the file, or pass it with `docker run -e NAME=VALUE`.",
    Origin.COMPOSE: "Set it where `docker compose config` is run, or write its value.",
    Origin.POD: "Give what it is taken from with another --kube, or write its value.",
}

CHECK = Check(
    id="EP308",
    slug="declared-unknown",
    severity=Severity.WARNING,
    summary="What is handed over under a name cannot be told from here.",
    why="An environment file that cannot be read may set any name, and some values are known to the"
    " manager, its user or its machine only.",
    mend="Run envprobe on the machine of the service, as root or as the service's user, and name"
    " the unit instead of its file.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
