"""The check `start-cause-unknown`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.triage.about import TriageContext, cut, where
from envprobe.checks.triage.judgement import ready, running
from envprobe.model import Sentence
from envprobe.triage.facts import Log, Raised
from envprobe.triage.places import place

_LIMIT: Final = "start-limit-hit"
_MOST: Final = 5


def _run(context: TriageContext) -> Iterator[Finding]:
    root = context.judgement.root
    if (root is not None and root.cause != _LIMIT) or holds(context):
        return
    yield Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(f"Cause not recognised: {_reason(context)}."),
        evidence=tuple(map(Sentence.of, _evidence(context))),
        remedy=Sentence.of(_remedy(context)),
        undetermined=True,
        who=_who(context),
    )


def holds(context: TriageContext) -> bool:
    """Return whether there is evidence that nothing failed: the unit runs, and its log was read."""
    facts = context.facts
    if facts.unit is None or not running(facts.unit.live) or facts.problems:
        return False
    return context.judgement.root is None and any(log.lines for log in facts.logs)


def _who(context: TriageContext) -> str:
    facts = context.facts
    return facts.unit.live.name if facts.unit is not None else facts.logs[0].name


def _reason(context: TriageContext) -> str:
    facts = context.facts
    unit = facts.unit
    if unit is not None and not unit.invocation:
        return f"the manager remembers no start of {unit.live.name}"
    if not any(log.lines for log in facts.logs):
        return "no line of a log could be read" if facts.problems else "the log is empty"
    if any(log.strange for log in facts.logs):
        return "an exception that no rule knows"
    if unit is not None and not unit.live.failed:
        return f"{unit.live.name} is {unit.live.active}, and its log has no sign of a failure"
    if ready(facts) is not None:
        return "the server was ready, and nothing after that tells a failure"
    return "no line tells a failure that is known"


def _evidence(context: TriageContext) -> Iterator[str]:
    facts = context.facts
    for log in facts.logs:
        for raised in log.strange[:_MOST]:
            yield _exception(log, raised)
    line = ready(facts)
    if line is not None:
        yield f"the server was ready: {cut(line.text)}"
    if context.judgement.survived:
        yield (
            f"{context.judgement.survived} signs of failures are those of an earlier start, or came"
            " before the server was ready"
        )
    for problem in facts.problems:
        yield problem.reason
    if facts.unit is not None and facts.unit.live.code:
        yield f"the last main process ended with {facts.unit.live.code}"


def _exception(log: Log, raised: Raised) -> str:
    frame = place(raised)
    at = f" at {frame.file}:{frame.line}" if frame is not None else ""
    said = f"{raised.type}: {raised.message}" if raised.message else raised.type
    return f"{where(log, raised.line)}: {cut(said)}{at}"


def _remedy(context: TriageContext) -> str:
    for problem in context.facts.problems:
        if problem.remedy:
            return problem.remedy
    return CHECK.mend


CHECK = Check(
    id="EP614",
    slug="start-cause-unknown",
    severity=Severity.WARNING,
    summary="What ended the start could not be told.",
    why="A log may be cut, written elsewhere, or tell something that no rule knows. That is no"
    " proof that nothing failed.",
    mend="Read the last lines of the log, raise its level, and see that it is the log of the last"
    " start and holds what is written to stderr too.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
