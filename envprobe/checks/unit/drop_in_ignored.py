"""The check `drop-in-ignored`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, of_remark
from envprobe.launch.types import Kind

_SEVERITIES: Final = {
    Kind.DROP_IN_IGNORED: Severity.INFO,
    Kind.DROP_IN_ELSEWHERE: Severity.WARNING,
}


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition, remark in context.remarks(_SEVERITIES):
        yield of_remark(CHECK, definition, remark, _SEVERITIES[remark.kind])


CHECK = Check(
    id="EP314",
    slug="drop-in-ignored",
    severity=Severity.WARNING,
    summary="A unit file or drop-in is not read, or others would be.",
    why="Of drop-ins with one name only the first in systemd's search path counts, and names "
    "that do not end with .conf do not count at all.",
    mend="Remove the file, or give it a name that ends with .conf and is used once.",
    run=_run,
)
