"""The report of `triage` as JSON: data/triage.schema.json says what is in it."""

from __future__ import annotations

from typing import Any, Final

from envprobe import redact
from envprobe.checks.triage.about import cut
from envprobe.checks.triage.judgement import Sign
from envprobe.report import findings, pretty
from envprobe.report.triage_model import Report, headline
from envprobe.triage.facts import Frame, Line, Log, Raised, Unit
from envprobe.triage.places import place

_MOST_FRAMES: Final = 100
_MOST_SIGNS: Final = 200


def render(report: Report, *, unmask: bool = False) -> str:
    """Return the report as one JSON document in ASCII."""
    facts, judgement = report.context.facts, report.context.judgement
    follows = judgement.follows[:_MOST_SIGNS]
    whole = {
        **pretty.heading(),
        "verdict": {
            **findings.verdict_document(report.verdict),
            "fail_on": report.fail_on.value,
            "exit_zero": report.exit_zero,
        },
        "subject": redact.show_text(report.subject),
        "summary": redact.show_sentence(headline(report), unmask=unmask),
        "unit": _unit(facts.unit) if facts.unit is not None else None,
        "logs": [_log(one) for one in facts.logs],
        "not_read": [
            {"reason": redact.show_text(one.reason), "remedy": redact.show_text(one.remedy)}
            for one in facts.problems
        ],
        "cause": _sign(judgement.root) if judgement.root is not None else None,
        "follows": [_sign(one) for one in follows],
        "hooks": [_sign(one) for one in judgement.hooks[:_MOST_SIGNS]],
        "survived": judgement.survived,
        **findings.documents(report.result, report.allow_unknown, unmask=unmask),
    }
    return pretty.dumps(whole)


def _unit(unit: Unit) -> dict[str, Any]:
    live = unit.live
    return {
        "name": redact.show_text(live.name),
        "user_manager": unit.user,
        "active": redact.show_text(live.active),
        "sub": redact.show_text(live.sub),
        "result": redact.show_text(live.result),
        "ended": redact.show_text(live.code) or None,
        "restarts": live.restarts,
        "invocation": redact.show_text(unit.invocation) or None,
        "files": [redact.show_text(one) for one in unit.files],
    }


def _log(log: Log) -> dict[str, Any]:
    return {
        "name": redact.show_text(log.name),
        "kind": log.kind.value,
        "lines": log.lines,
        "bytes": log.size,
        "left_out_bytes": log.left_out,
        "binary": log.binary,
        "envelope": log.envelope or None,
        "broken": redact.show_text(log.broken) or None,
    }


def _sign(sign: Sign) -> dict[str, Any]:
    return {
        "check": sign.cause,
        "what": redact.show_text(cut(sign.what)),
        "effect": sign.effect,
        "fatal": sign.fatal,
        "confidence": "proved" if sign.certain else "inferred",
        "log": redact.show_text(sign.log.name) if sign.log is not None else None,
        "line": _line(sign.line) if sign.line is not None else None,
        "raised": _raised(sign.raised, sign.outermost) if sign.raised is not None else None,
    }


def _line(line: Line) -> dict[str, Any]:
    return {
        "number": line.number or None,
        "offset": line.offset,
        "time": redact.show_text(line.stamp) or None,
        "process": redact.show_text(line.label) or None,
        "text": redact.show_text(cut(line.text)),
    }


def _raised(raised: Raised, outermost: bool) -> dict[str, Any]:
    own = place(raised, outermost=outermost)
    return {
        "type": redact.show_text(raised.type) or None,
        "message": redact.show_text(cut(raised.message)),
        "mixed": raised.mixed,
        "place": _frame(own) if own is not None else None,
        "frames": [_frame(one) for one in raised.frames[-_MOST_FRAMES:]],
    }


def _frame(frame: Frame) -> dict[str, Any]:
    return {
        "file": redact.show_text(frame.file),
        "line": frame.line,
        "function": redact.show_text(frame.function) or None,
    }
