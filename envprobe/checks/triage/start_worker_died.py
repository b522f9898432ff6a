"""The check `start-worker-died`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.triage.about import TriageContext, of_cause, saying


def _run(context: TriageContext) -> Iterator[Finding]:
    yield from of_cause(CHECK, context, saying("a process of the server ended"))


CHECK = Check(
    id="EP612",
    slug="start-worker-died",
    severity=Severity.ERROR,
    summary="A worker was killed, crashed or raised, and nothing before it says why.",
    why="Exit code -9 is SIGKILL: mostly the kernel for lack of memory, which only its own"
    " log tells. -11 is a crash in native code. An exception that no rule knows is told"
    " with its line.",
    mend="For -9 look into `journalctl -k` for `Killed process`; for -11 start with"
    " PYTHONFAULTHANDLER=1; for an exception begin at the line that the finding names.",
    run=_run,
)
