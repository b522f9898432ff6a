"""The check `start-cause-unknown`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.triage.about import TriageContext, cut, exception
from envprobe.checks.triage.judgement import ready, running
from envprobe.model import Sentence

_LIMIT: Final = "start-limit-hit"
_MOST: Final = 5
_NOTHING: Final = "nothing of a log could be read"
_RUNS: Final = (
    "A log cannot tell whether the server still runs: `envprobe triage --unit NAME` or"
    " `envprobe workers --pid PID` can."
)


def _run(context: TriageContext) -> Iterator[Finding]:
    root = context.judgement.root
    if (root is not None and root.cause != _LIMIT) or holds(context):
        return
    yield Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(f"{_reason(context)}."),
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
        return f"Cause not recognised: the manager remembers no start of {unit.live.name}"
    if not any(log.lines for log in facts.logs):
        unread = bool(facts.problems) or any(log.broken for log in facts.logs)
        return f"Cause not recognised: {_NOTHING if unread else 'the log is empty'}"
    if context.judgement.strange:
        return "Cause not recognised: an exception that no rule knows"
    if unit is not None and not unit.live.failed:
        return f"No failure found: {unit.live.name} is {unit.live.active}, and its log tells none"
    if ready(facts) is not None:
        return "No failure found: the server was ready, and nothing after that tells one"
    return "Cause not recognised: no line tells a failure that is known"


def _evidence(context: TriageContext) -> Iterator[str]:
    facts = context.facts
    for log, raised in context.judgement.strange[:_MOST]:
        yield exception(log, raised)
    line = ready(facts)
    if line is not None:
        yield f"the server was ready: {cut(line.text)}"
    if number := context.judgement.survived:
        yield (
            f"left out: {number} sign{'' if number == 1 else 's'} of failures of an earlier start,"
            " from before the server was ready, or told as a warning"
        )
    for problem in facts.problems:
        yield problem.reason
    if facts.unit is not None and facts.unit.live.code:
        yield f"the last main process ended with {facts.unit.live.code}"


def _remedy(context: TriageContext) -> str:
    for problem in context.facts.problems:
        if problem.remedy:
            return problem.remedy
    if ready(context.facts) is not None and not context.judgement.strange:
        return _RUNS
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
