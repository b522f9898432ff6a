"""The check `start-reimports-main`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.triage.about import TriageContext, of_cause
from envprobe.checks.triage.judgement import Sign


def _run(context: TriageContext) -> Iterator[Finding]:
    yield from of_cause(CHECK, context, _say)


def _say(sign: Sign) -> str:
    at = f"{sign.code} starts a process" if sign.code else "the main module starts a process"
    return f"{at} while a spawned child imports it again: there is no main guard"


CHECK = Check(
    id="EP601",
    slug="start-reimports-main",
    severity=Severity.ERROR,
    summary="A spawned child ran the main module again and was stopped by multiprocessing.",
    why="The start method spawn imports the main module in every child. What it starts outside of"
    " `if __name__ == '__main__':` is started once more there; multiprocessing refuses that with a"
    " RuntimeError, and the server ends before it has a worker.",
    mend="Put the statement that the finding names, and all that leads to it, under"
    " `if __name__ == '__main__':`. `envprobe unit` finds it before a start.",
    run=_run,
)
