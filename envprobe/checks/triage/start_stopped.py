"""The check `start-stopped`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.triage.about import TriageContext, of_cause, saying


def _run(context: TriageContext) -> Iterator[Finding]:
    yield from of_cause(CHECK, context, saying("it did not fail by itself, it was told to end"))


CHECK = Check(
    id="EP615",
    slug="start-stopped",
    severity=Severity.ERROR,
    summary="The server was told to end: by systemctl, a signal or Ctrl-C.",
    why="What a process prints while it is ended looks like a failure, and follows from that. A"
    " signal also comes from a closed session (SIGHUP), a container that is stopped, or a unit"
    " that another one stops (Conflicts=, BindsTo=, PartOf=).",
    mend="Find who ended it: `journalctl _COMM=systemctl`, the shell or the container engine that"
    " started it. Start it again.",
    run=_run,
)
