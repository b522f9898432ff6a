"""The check `env-file-not-shell`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, of_remark
from envprobe.launch.types import Kind

_SEVERITIES: Final = {
    Kind.FILE_DOLLAR: Severity.ERROR,
    Kind.FILE_COMMENT_IN_VALUE: Severity.ERROR,
    Kind.FILE_QUOTE_RUNS_ON: Severity.ERROR,
    Kind.FILE_TEXT_AFTER_QUOTE: Severity.WARNING,
    Kind.FILE_QUOTE_INSIDE: Severity.WARNING,
    Kind.FILE_BACKSLASH: Severity.WARNING,
    Kind.FILE_DOUBLED_PERCENT: Severity.WARNING,
    Kind.FILE_COMMENT_CONTINUED: Severity.WARNING,
    Kind.FILE_QUOTES_KEPT: Severity.ERROR,
    Kind.FILE_NAME_ALONE: Severity.INFO,
}


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition, remark in context.remarks(_SEVERITIES):
        yield of_remark(CHECK, definition, remark, _SEVERITIES[remark.kind])


CHECK = Check(
    id="EP306",
    slug="env-file-not-shell",
    severity=Severity.ERROR,
    summary="A line of an environment file means something else than it does in a shell.",
    why="systemd and docker each have a grammar of their own: no variables, no comments "
    "behind a value, for docker no quotes. The value arrives with what was not meant to "
    "be part of it.",
    mend="Write the plain value: for systemd in quotes where it has blanks, for docker without "
    "any.",
    run=_run,
)
