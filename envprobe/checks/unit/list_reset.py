"""The check `list-reset`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, of_remark
from envprobe.launch.types import Kind

_SEVERITIES: Final = {
    Kind.LIST_RESET: Severity.WARNING,
}


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition, remark in context.remarks(_SEVERITIES):
        yield of_remark(CHECK, definition, remark, _SEVERITIES[remark.kind])


CHECK = Check(
    id="EP310",
    slug="list-reset",
    severity=Severity.WARNING,
    summary="An empty assignment takes back everything that was given before it.",
    why="A drop-in with an empty Environment= or EnvironmentFile= resets the list, also what "
    "other files have put there.",
    mend="Leave the empty assignment out, or repeat what should stay after it.",
    run=_run,
)
