"""The check `start-timed-out`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.triage.about import TriageContext, of_cause, saying


def _run(context: TriageContext) -> Iterator[Finding]:
    yield from of_cause(CHECK, context, saying("a step of its start or stop took too long"))


CHECK = Check(
    id="EP611",
    slug="start-timed-out",
    severity=Severity.ERROR,
    summary="The unit was not ready within TimeoutStartSec=.",
    why="Loading a large model takes longer than the 90 s that systemd allows by default."
    " systemd ends the server, and what it then says of signals and lost peers follows"
    " from that.",
    mend="Raise TimeoutStartSec= for a unit of Type=notify or with ExecStartPre=; else look"
    " at what the last lines before the timeout waited for.",
    run=_run,
)
