"""The check `env-file-line-ignored`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, of_remark
from envprobe.launch.types import Kind

_SEVERITIES: Final = {
    Kind.FILE_EXPORT: Severity.ERROR,
    Kind.FILE_BAD_NAME: Severity.ERROR,
    Kind.FILE_WITHOUT_EQUALS: Severity.ERROR,
    Kind.FILE_REFUSED: Severity.ERROR,
}


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition, remark in context.remarks(_SEVERITIES):
        yield of_remark(CHECK, definition, remark, _SEVERITIES[remark.kind])


CHECK = Check(
    id="EP305",
    slug="env-file-line-ignored",
    severity=Severity.ERROR,
    summary="A line of an environment file is not read.",
    why="EnvironmentFile= is no shell file: `export NAME=VALUE` is skipped without notice, "
    "and so is what has no equals sign or a name with other characters than letters, "
    "digits and underscores.",
    mend="Write NAME=VALUE, one a line.",
    run=_run,
)
