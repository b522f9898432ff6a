"""The check `start-argument-refused`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.triage.about import TriageContext, of_cause, saying


def _run(context: TriageContext) -> Iterator[Finding]:
    yield from of_cause(CHECK, context, saying("the program refused its command line"))


CHECK = Check(
    id="EP603",
    slug="start-argument-refused",
    severity=Severity.ERROR,
    summary="The program did not accept an option or a value of its command line.",
    why="An option that this version does not know, a value out of its choices, or one that"
    " is missing: the program ends before it does anything, and every restart does the"
    " same.",
    mend="Compare the command line with the --help of the installed version: options are"
    " renamed between versions. `envprobe unit` shows the command line that is started.",
    run=_run,
)
