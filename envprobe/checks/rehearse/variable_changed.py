"""The check `declared-variable-changed`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import on_the_way
from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.rehearse.about import RehearseContext
from envprobe.checks.rehearse.scans import declared
from envprobe.model import State


def _run(context: RehearseContext) -> Iterator[Finding]:
    yield from declared(
        context,
        lambda scan: on_the_way.findings(scan, State.VALUE, CHECK.slug, CHECK.severity),
    )


CHECK = Check(
    id="EP506",
    slug="declared-variable-changed",
    severity=Severity.ERROR,
    summary="A worker would have another value than the definition sets.",
    why="The definition says one thing, and what a hook or a program on the way makes of it is what"
    " the workers read. No known code of the framework explains it.",
    mend="The break names where the value changes. If the change is meant, let the definition say"
    " the value that the workers are to have.",
    run=_run,
)
