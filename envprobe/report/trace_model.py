"""What the renderers of `trace-sitecustomize` get, and the words that they share."""

from __future__ import annotations

import dataclasses
from typing import Final

from envprobe.checks.finding import Severity
from envprobe.checks.registry import Result
from envprobe.checks.trace.about import TraceContext, place
from envprobe.checks.verdict import Verdict
from envprobe.model import Confidence
from envprobe.startup.result import Hook, Outcome
from envprobe.startup.traced import Answer
from envprobe.startup.types import Asked, Question

TITLES: Final = {
    Asked.GIVEN: "what this interpreter runs at its start",
    Asked.RAN: "what this process ran at its start",
    Asked.NEXT: "what its next spawned child will run",
    Asked.AGAIN: "what a start of this process would run now",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """Everything that one run found; with `exit_zero` the process ends with 0 in any case."""

    context: TraceContext
    result: Result
    verdict: Verdict
    allow_unknown: frozenset[str] = frozenset()
    fail_on: Severity = Severity.ERROR
    exit_zero: bool = False


def title(answer: Answer) -> str:
    """Return what an answer says, in words."""
    if answer.start is not None:
        inferred = " (inferred)" if answer.start.gaps else ""
        return f"what the start at {answer.start.declared.place} runs{inferred}"
    return ", and ".join(_title(question) for question in answer.questions)


def _title(question: Question) -> str:
    inferred = question.asked is Asked.RAN and question.confidence is Confidence.INFERRED
    return TITLES[question.asked] + (" (inferred)" if inferred else "")


def headline(report: Report) -> str:
    """Return in one sentence what runs, or what the memory of the process says where it decides."""
    traced = report.context.traced
    expected = report.context.expected.winner
    found = [f"{one} runs" for one in _imported(traced.answers[0], expected)]
    found.append(_at(traced.answers[0], several=traced.several) + summary(traced.answers[0]))
    asked = {question.asked for question in traced.answers[0].questions}
    if Asked.AGAIN in asked and traced.target is not None and traced.target.loaded is not None:
        held = traced.target.loaded.get("sitecustomize") or "no sitecustomize"
        found = [f"the process has loaded {held}", f"a start now: {found[-1]}"]
    for one in traced.answers[1:]:
        at = _at(one, several=True) or "in its next child "
        found.append(at + summary(one))
    return "; ".join(found)


def _at(answer: Answer, *, several: bool) -> str:
    """Return of which command an answer speaks, "" where there is no other."""
    return f"at {answer.start.declared.place} " if several and answer.start is not None else ""


def _imported(answer: Answer, expected: str | None) -> tuple[str, ...]:
    """Return the expected hook if a startup file has imported it."""
    path = place(answer.startup.launch, expected) if expected is not None else None
    return tuple(path for hook in answer.startup.hooks if path is not None and path in hook.files)


def summary(answer: Answer) -> str:
    """Return in one sentence which sitecustomize runs."""
    hook = answer.startup.hook("sitecustomize")
    if hook.outcome is Outcome.RAN:
        return f"{hook.path} wins and runs to its end"
    if hook.outcome is Outcome.ABSENT:
        return "no sitecustomize is found"
    if hook.outcome is Outcome.DISABLED:
        return "no sitecustomize can run"
    if not hook.path:
        return "which sitecustomize runs is not known"
    return f"{hook.path} wins, and {WORDS[hook.outcome]}"


WORDS: Final = {
    Outcome.RAN: "ran to its end",
    Outcome.RAISED: "raised",
    Outcome.SILENT: "failed in silence",
    Outcome.NAMESPACE: "nothing was executed",
    Outcome.ENDED: "ended the interpreter",
    Outcome.STOPPED: "had to be stopped",
    Outcome.DISABLED: "disabled",
    Outcome.SUPPRESSED: "not executed",
    Outcome.ABSENT: "none found",
    Outcome.UNKNOWN: "not known",
}


def told(hook: Hook) -> str:
    """Return what became of a hook, with its error or the reason."""
    if hook.outcome is Outcome.ENDED and hook.raised is None and hook.reason:
        return hook.reason
    text = WORDS[hook.outcome]
    if hook.raised is not None and hook.raised.type:
        where = f" at {hook.raised.file}:{hook.raised.line}" if hook.raised.file else ""
        between = " " if hook.outcome is Outcome.RAISED else ": "
        text += f"{between}{hook.raised.type}{where}"
    elif hook.reason:
        text += f": {hook.reason}"
    return text
