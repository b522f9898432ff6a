"""The check `start-program-not-run`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.triage.about import TriageContext, of_cause, saying


def _run(context: TriageContext) -> Iterator[Finding]:
    yield from of_cause(CHECK, context, saying("the program could not be started"))


CHECK = Check(
    id="EP613",
    slug="start-program-not-run",
    severity=Severity.ERROR,
    summary="systemd, the shell or the interpreter could not begin the program.",
    why="No line of the server ran: the executable, the script, the working directory, the"
    " user or an environment file is not there or may not be used.",
    mend="Mend the path or the name that the finding tells. `envprobe unit` shows ExecStart="
    " as it is followed.",
    run=_run,
)
