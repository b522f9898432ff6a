"""The check `unit-dollar-literal`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, of_remark
from envprobe.launch.types import Kind

_SEVERITIES: Final = {
    Kind.DOLLAR: Severity.ERROR,
}


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition, remark in context.remarks(_SEVERITIES):
        yield of_remark(CHECK, definition, remark, _SEVERITIES[remark.kind])


CHECK = Check(
    id="EP303",
    slug="unit-dollar-literal",
    severity=Severity.ERROR,
    summary="A value of Environment= holds a variable or a command, which stays as it is.",
    why="Environment= expands specifiers such as %h and nothing else: "
    "PYTHONPATH=/opt/hooks:$PYTHONPATH names a directory called $PYTHONPATH.",
    mend="Write the value out, or set it in a script that ExecStart= runs.",
    run=_run,
)
