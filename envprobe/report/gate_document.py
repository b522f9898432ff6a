"""The report of `gate` as JSON: data/gate.schema.json says what is in it."""

from __future__ import annotations

from typing import Any

from envprobe import redact
from envprobe.checks.gate.plan import Stand
from envprobe.checks.registry import Result
from envprobe.report import findings, pretty
from envprobe.report.gate_model import Part, Report, Spoken


def render(report: Report, *, unmask: bool = False) -> str:
    """Return the report as one JSON document in ASCII."""
    called = {part.name: part.called for part in report.parts}

    def spoken(ones: tuple[Spoken, ...], document: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {
                **made,
                "parts": list(one.parts),
                "processes": [
                    redact.show_text(called[one.parts[0]](pid), 200) for pid in one.finding.pids
                ],
            }
            for one, made in zip(ones, document, strict=True)
        ]

    found, ignored = report.findings, report.ignored
    made = findings.documents(
        Result(
            tuple(one.finding for one in found),
            tuple((one.finding, one.because) for one in ignored),
        ),
        report.allow_unknown,
        unmask=unmask,
    )
    whole = {
        **pretty.heading(),
        "verdict": {
            **findings.verdict_document(report.verdict),
            "fail_on": report.fail_on.value,
            "exit_zero": report.exit_zero,
        },
        "phase": report.plan.phase.value,
        "subject": redact.show_text(report.subject),
        "parts": [_part(one) for one in report.parts],
        "expectations": [_stand(one) for one in report.plan.stands],
        "findings": spoken(found, made["findings"]),
        "ignored": spoken(ignored, made["ignored"]),
    }
    return pretty.dumps(whole)


def _part(part: Part) -> dict[str, Any]:
    return {
        "name": part.name,
        "verdict": findings.verdict_document(part.verdict),
        "notes": [redact.show_text(one) for one in part.notes],
    }


def _stand(stand: Stand) -> dict[str, Any]:
    return {
        "kind": stand.kind,
        "name": redact.show_text(stand.name),
        "origin": redact.show_text(stand.origin),
        "standing": stand.standing.value,
        "parts": list(stand.parts),
        "reason": redact.show_text(stand.reason),
    }
