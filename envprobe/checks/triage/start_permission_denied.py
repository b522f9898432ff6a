"""The check `start-permission-denied`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.triage.about import TriageContext, of_cause, saying


def _run(context: TriageContext) -> Iterator[Finding]:
    yield from of_cause(CHECK, context, saying("access was refused"))


CHECK = Check(
    id="EP609",
    slug="start-permission-denied",
    severity=Severity.ERROR,
    summary="A file, a device or a port may not be used by the server's user.",
    why="A unit runs as another user, and in another sandbox, than the shell in which it"
    " worked: User=, ProtectHome=, PrivateTmp= and ReadOnlyPaths= all lead here.",
    mend="Compare the owner and mode of what the finding names with User= and Group=, and"
    " look for sandbox settings with `systemctl cat`.",
    run=_run,
)
