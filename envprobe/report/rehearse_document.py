"""The report of `rehearse` as JSON: data/rehearse.schema.json says what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envprobe import redact
from envprobe.checks.rehearse.about import Rehearsed
from envprobe.rehearsal.types import Choice, Failed, Held, Member, Rehearsal, Target, Written
from envprobe.report import document, findings, pretty, rehearse_model, values
from envprobe.report.model import Presentation
from envprobe.report.rehearse_model import Report
from envprobe.values import Value


def render(report: Report, presentation: Presentation) -> str:
    """Return the report as one JSON document in ASCII."""
    scans = [document.facts(scan, presentation) for scan, _ in report.scans()]
    whole = {
        **pretty.heading(),
        "verdict": {
            **findings.verdict_document(report.verdict),
            "fail_on": report.fail_on.value,
            "exit_zero": report.exit_zero,
        },
        "definition": {
            "subject": redact.show_text(report.context.definition.subject),
            "files": [redact.show_text(one) for one in report.context.definition.files],
        },
        "rehearsals": [
            _Rehearsal(one, presentation).document() for one in report.context.rehearsed
        ],
        "scans": scans,
        **findings.documents(report.result, report.allow_unknown, unmask=presentation.unmask),
    }
    return pretty.dumps(whole)


class _Rehearsal:
    def __init__(self, rehearsed: Rehearsed, presentation: Presentation) -> None:
        self.one: Rehearsal = rehearsed.rehearsal
        self.unmask = presentation.unmask

    def document(self) -> dict[str, Any]:
        one, launch = self.one, self.one.start.launch
        return {
            "command": rehearse_model.command(one),
            "python": redact.show_text(launch.python),
            "flags": [redact.show_text(flag) for flag in launch.flags],
            "cwd": redact.show_text(launch.cwd),
            "rights": str(launch.rights) if launch.rights is not None else None,
            "framework": _choice(one.plan.framework),
            "version": redact.show_text(one.version) or None,
            "method": _choice(one.plan.method),
            "workers": {**_choice(one.plan.workers), "started": one.plan.count},
            "through_shell": bool(one.plan.shell),
            "not_rehearsed": [redact.show_text(told) for told in rehearse_model.limits(one)],
            "gaps": [redact.show_text(told) for told in one.start.gaps],
            "sandbox": [redact.show_text(str(told)) for told in one.sandbox],
            "written": [self.written(each) for each in one.written],
            "processes": [self.member(each) for each in one.members],
            "failed": [_failed(each) for each in one.failed],
            "end": {
                "code": one.end.code,
                "stopped": one.end.stopped.value,
                "seconds": round(one.end.seconds, 3),
                "also_running": [redact.show_command(each.split(), 200) for each in one.end.seen],
            },
            "read": one.snapshot is not None,
        }

    def written(self, one: Written) -> dict[str, Any]:
        return {
            "name": redact.show_name(one.name),
            "value": None if one.value is None else self.value(one.name, one.value),
            "before": None if one.before is None else self.value(one.name, one.before),
            "condition": one.condition,
            "source": one.source,
            "in_workers": one.in_workers,
        }

    def member(self, one: Member) -> dict[str, Any]:
        effects = one.effects
        return {
            "pid": one.pid,
            "parent": one.parent,
            "role": None if one.node is None else redact.show_text(one.node.role),
            "name": redact.show_text(one.name),
            "worker": one.worker,
            "titled": one.titled,
            "ready_ms": round(one.seconds * 1000, 1),
            "flags": dict(one.flags),
            "hooks": {name: redact.show_text(path) for name, path in effects.loaded.items()},
            "reached": [
                {
                    "module": child.module,
                    "reached": child.reached.value,
                    "origin": redact.show_text(child.origin),
                    "reason": redact.show_text(child.reason),
                    "importable": child.importable,
                }
                for child in one.hooks
            ],
            "targets": _targets(one.targets),
            "held": [
                {"attribute": redact.show_text(name), **_held(held)}
                for name, held in one.held.items()
            ],
            "cuda_initialised": effects.cuda_initialised,
        }

    def value(self, name: str, value: Value) -> dict[str, Any]:
        return values.document((name,), value, unmask=self.unmask)


def _choice(one: Choice) -> dict[str, str]:
    return {"value": redact.show_text(one.value), "told_by": redact.show_text(one.told_by)}


def _targets(targets: Mapping[str, Target]) -> list[dict[str, Any]]:
    return [
        {
            "name": redact.show_text(name),
            "origin": redact.show_text(one.origin) or None,
            "missing": redact.show_text(one.missing) or None,
            "error": redact.show_text(one.error) or None,
            "imported": one.imported,
        }
        for name, one in targets.items()
    ]


def _held(one: Held) -> dict[str, Any]:
    found = one.attribute
    return {
        "file": redact.show_text(found.file) or None,
        "line": found.line,
        "error": redact.show_text(found.error.partition(":")[0]) or None,
        "own": redact.show_text(one.own) or None,
        "runs_in": redact.show_text(one.runs_in) or None,
        "recorded": redact.show_text(one.recorded),
    }


def _failed(one: Failed) -> dict[str, Any]:
    return {"name": redact.show_text(one.name), "why": one.why, "code": one.code}
