"""The check `passed-unset`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, of_remark
from envprobe.launch.types import Kind

_SEVERITIES: Final = {
    Kind.PASSED_UNSET: Severity.ERROR,
}


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition, remark in context.remarks(_SEVERITIES):
        yield of_remark(CHECK, definition, remark, _SEVERITIES[remark.kind])


CHECK = Check(
    id="EP312",
    slug="passed-unset",
    severity=Severity.ERROR,
    summary="A variable is to be passed on that is not set there.",
    why="PassEnvironment= and `docker run -e NAME` take the value of the program that starts "
    "the service: a service manager has few variables, and none of a login shell.",
    mend="Give the value itself: Environment=NAME=VALUE, -e NAME=VALUE.",
    run=_run,
)
