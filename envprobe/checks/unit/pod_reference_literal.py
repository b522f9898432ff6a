"""The check `pod-reference-literal`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, of_remark
from envprobe.launch.types import Kind

_SEVERITIES: Final = {
    Kind.REFERENCE_LITERAL: Severity.ERROR,
}


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition, remark in context.remarks(_SEVERITIES):
        yield of_remark(CHECK, definition, remark, _SEVERITIES[remark.kind])


CHECK = Check(
    id="EP327",
    slug="pod-reference-literal",
    severity=Severity.ERROR,
    summary="A $(NAME) of a container's definition stays as it is.",
    why="Kubernetes replaces $(NAME) only by variables that stand before it in the list or "
    "come from envFrom; else the text itself is the value.",
    mend="Move the variable up in the list, or write $$(NAME) if the text is meant.",
    run=_run,
)
