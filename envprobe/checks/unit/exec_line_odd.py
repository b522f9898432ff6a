"""The check `exec-line-odd`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, of_remark
from envprobe.launch.types import Kind

_SEVERITIES: Final = {
    Kind.EXEC_SEVERAL: Severity.ERROR,
    Kind.EXEC_MISSING: Severity.ERROR,
    Kind.EXEC_IGNORED: Severity.ERROR,
    Kind.EXEC_NOT_ON_PATH: Severity.WARNING,
    Kind.EXEC_DOLLAR: Severity.WARNING,
}


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition, remark in context.remarks(_SEVERITIES):
        yield of_remark(CHECK, definition, remark, _SEVERITIES[remark.kind])


CHECK = Check(
    id="EP313",
    slug="exec-line-odd",
    severity=Severity.ERROR,
    summary="ExecStart= starts nothing, too much, or something else than it looks.",
    why="Only Type=oneshot may have several commands; the program is an absolute path, or a name "
    "that is looked for in a fixed path and not in the declared PATH; $NAME is replaced only as a "
    "word of its own, ${NAME} anywhere, neither of them in the program.",
    mend="Give one command, the absolute path of its program, and ${NAME} for variables inside "
    "of words.",
    run=_run,
)
