"""The check `start-port-in-use`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.triage.about import TriageContext, of_cause, saying


def _run(context: TriageContext) -> Iterator[Finding]:
    yield from of_cause(CHECK, context, saying("an address is taken"))


CHECK = Check(
    id="EP608",
    slug="start-port-in-use",
    severity=Severity.ERROR,
    summary="A port that the server wants to listen on is in use.",
    why="A former instance still ends, a second one was started, or a rendezvous port was"
    " chosen twice.",
    mend="Find who listens with `ss -ltnp`; wait for the former instance to end, or choose"
    " another port.",
    run=_run,
)
