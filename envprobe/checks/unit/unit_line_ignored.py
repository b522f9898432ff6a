"""The check `unit-line-ignored`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, of_remark
from envprobe.launch.types import Kind

_SEVERITIES: Final = {
    Kind.LINE_WITHOUT_EQUALS: Severity.ERROR,
    Kind.LINE_OUTSIDE_SECTION: Severity.ERROR,
    Kind.LINE_IN_OTHER_SECTION: Severity.ERROR,
    Kind.LINE_NOT_UTF8: Severity.ERROR,
    Kind.LINE_TOO_LONG: Severity.ERROR,
    Kind.SECTION_UNKNOWN: Severity.ERROR,
    Kind.SECTION_BROKEN: Severity.ERROR,
    Kind.KEY_UNKNOWN: Severity.ERROR,
}


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition, remark in context.remarks(_SEVERITIES):
        yield of_remark(CHECK, definition, remark, _SEVERITIES[remark.kind])


CHECK = Check(
    id="EP301",
    slug="unit-line-ignored",
    severity=Severity.ERROR,
    summary="A line or section of a unit is not read.",
    why="systemd warns in its journal at most and starts the unit without the line; what it "
    "was to set is simply not there.",
    mend="Mend the line: the keys of an environment stand in [Service], as Environment=NAME=VALUE.",
    run=_run,
)
