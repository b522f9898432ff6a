"""What the checks of `triage` look at, and how they tell of a cause."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.triage.judgement import Judgement, Sign, is_a_reason, running
from envprobe.model import Confidence, Sentence
from envprobe.triage.facts import Kind, Line, Log, Raised, Triage
from envprobe.triage.places import is_own, place

_SHOWN: Final = 300
_MOST_FOLLOWING: Final = 8
_MOST_STRANGE: Final = 3
_LIMIT: Final = "start-limit-hit"


@dataclasses.dataclass(frozen=True, slots=True)
class TriageContext:
    """All that a check of `triage` may look at."""

    facts: Triage
    judgement: Judgement


def where(log: Log | None, line: Line | None) -> str:
    """Return the place of a line: its log and number, or how many bytes are before it."""
    if log is None or line is None:
        return "the service manager"
    if log.kind is Kind.JOURNAL:
        return f"{log.name}, {line.stamp or f'entry {line.number}'}"
    if log.kind is Kind.FILE and line.number:
        return f"{log.name}:{line.number}"
    return f"{log.name}, {f'line {line.number}' if line.number else f'at byte {line.offset}'}"


def told(sign: Sign) -> str:
    """Return in one line what a sign says, and where in the user's code."""
    said = cut(sign.what)
    code = f" ({sign.code})" if sign.code else ""
    return f"{said}{code}"


def saying(what: str) -> Callable[[Sign], str]:
    """Return what tells a sign behind a few words that say what happened."""
    return lambda sign: f"{what}: {told(sign)}"


def cut(text: str) -> str:
    """Return text of a log as one line of bounded length."""
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def of_cause(check: Check, context: TriageContext, say: Callable[[Sign], str]) -> Iterator[Finding]:
    """Yield the finding of a check whose cause is the one of this start; `say` tells it."""
    root = context.judgement.root
    if root is None or root.cause != check.slug:
        return
    severity, still = check.severity, ""
    unit = context.facts.unit
    if unit is not None and running(unit.live) and root.fatal:
        severity, still = Severity.WARNING, f"; {unit.live.name} runs all the same"
    said = f"{where(root.log, root.line)}: {say(root)}{still}"
    yield Finding(
        check=check.slug,
        severity=severity,
        message=Sentence.of(said if said.endswith(".") else f"{said}."),
        confidence=Confidence.PROVED if root.certain else Confidence.INFERRED,
        evidence=tuple(map(Sentence.of, evidence(context, root))),
        remedy=Sentence.of(f"{check.mend}{after(context)}"),
        who=where(root.log, root.line),
    )


def evidence(context: TriageContext, sign: Sign) -> Iterator[str]:
    """Yield what speaks for a cause: its line, its exception, what followed, how often."""
    broken_off = sign.raised is not None and sign.raised.line is sign.line and not sign.raised.type
    if sign.line is not None and not broken_off:
        by = f" by {sign.line.label}" if sign.line.label else ""
        yield f"the line{by}: {cut(sign.line.text)}"
    yield from (f"then: {cut(one)}" for one in sign.more)
    if sign.raised is not None:
        yield from _exception(sign)
    if sign.log is not None and sign.log.counts.get(sign.cause, 0) > 1:
        yield f"{sign.log.counts[sign.cause]} lines of {sign.log.name} tell this cause"
    if sign.log is not None and sign.log.gap and sign.line and sign.line.order >= sign.log.gap:
        yield f"{sign.log.left_out} bytes before it were not read: a cause there is not known"
    yield from _following(context, sign)
    yield from _unexplained(context, sign)
    yield from _restarts(context)


def _exception(sign: Sign) -> Iterator[str]:
    raised = sign.raised
    assert raised is not None
    if sign.frame is not None:
        whose = "your own code is" if is_own(sign.frame) else "none of your own code; last is"
        yield f"in the traceback: {whose} {sign.code}"
    if raised.mixed:
        yield "lines of several tracebacks are mixed: which file raised it cannot be told"
    said = f"{raised.type}: {raised.message}" if raised.message else raised.type
    if not raised.type:
        yield "the log breaks off in this traceback"
    elif raised.line is not sign.line:
        yield f"the exception: {cut(said)}"


def _following(context: TriageContext, sign: Sign) -> Iterator[str]:
    follows = context.judgement.follows
    for one in follows[:_MOST_FOLLOWING]:
        yield f"follows from it: {where(one.log, one.line)}: {told(one)} ({one.cause})"
    if len(follows) > _MOST_FOLLOWING:
        yield f"follows from it: {len(follows) - _MOST_FOLLOWING} more"


def _unexplained(context: TriageContext, sign: Sign) -> Iterator[str]:
    """Yield exceptions that came before the sign and that no rule knows: they may be the cause."""
    for log, raised in context.judgement.strange[:_MOST_STRANGE]:
        before = sign.line is None or log is not sign.log or raised.line.order < sign.line.order
        if before and raised.frames and raised is not sign.raised and is_a_reason(raised):
            yield f"before it, and not explained: {exception(log, raised)}"


def exception(log: Log, raised: Raised) -> str:
    """Return an exception as one line: where it is told, what it says, where it was raised."""
    frame = place(raised)
    at = f" at {frame.file}:{frame.line}" if frame is not None else ""
    said = f"{raised.type}: {raised.message}" if raised.message else raised.type
    return f"{where(log, raised.line)}: {cut(said)}{at}"


def _restarts(context: TriageContext) -> Iterator[str]:
    unit = context.facts.unit
    if unit is not None and unit.live.restarts:
        number = unit.live.restarts
        yield f"{unit.live.name} was restarted {number} time{'' if number == 1 else 's'} by itself"


def limited(context: TriageContext) -> bool:
    """Return whether systemd refuses further starts until the unit's state is reset."""
    unit = context.facts.unit
    if unit is not None:
        return unit.live.failed and (unit.live.result == _LIMIT or _hit(context))
    return _hit(context)


def _hit(context: TriageContext) -> bool:
    judgement = context.judgement
    signs = (*judgement.follows, *((judgement.root,) if judgement.root else ()))
    return any(one.cause == _LIMIT for one in signs)


def reset(context: TriageContext) -> str:
    """Return the command that lets a unit be started again."""
    unit = context.facts.unit
    if unit is None:
        return "systemctl reset-failed UNIT"
    return f"systemctl{' --user' if unit.user else ''} reset-failed {unit.live.name}"


def after(context: TriageContext) -> str:
    """Return what must be done after the cause is mended, as the end of a remedy."""
    unit = context.facts.unit
    if limited(context):
        return f" Then run `{reset(context)}`: until then systemd refuses to start it."
    if unit is not None and unit.live.failed:
        return " Then start the unit: `reset-failed` is not needed."
    return ""
