"""The check `env-file-not-found`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, of_remark
from envprobe.launch.types import Kind

_SEVERITIES: Final = {
    Kind.FILE_MISSING: Severity.ERROR,
    Kind.FILE_OPTIONAL: Severity.WARNING,
    Kind.PATH_IGNORED: Severity.ERROR,
    Kind.PATH_WITH_BLANK: Severity.WARNING,
}


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition, remark in context.remarks(_SEVERITIES):
        yield of_remark(CHECK, definition, remark, _SEVERITIES[remark.kind])


CHECK = Check(
    id="EP307",
    slug="env-file-not-found",
    severity=Severity.ERROR,
    summary="An environment file does not exist, or its path is not taken for one.",
    why="Without `-` before the path a missing file makes the start fail; with it the "
    "variables are missing in silence. A path has to be absolute, without quotes, one for "
    "each line.",
    mend="Give EnvironmentFile= the absolute path of a file that exists at each start.",
    run=_run,
)
