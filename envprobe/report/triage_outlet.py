"""What `triage` found, for the formats of other programs: a grid of the signs in their order."""

from __future__ import annotations

from typing import Final

from envprobe import redact
from envprobe.checks.triage.about import told, where
from envprobe.checks.triage.judgement import Judgement, Sign
from envprobe.checks.triage.registry import CHECKS
from envprobe.report.model import Presentation
from envprobe.report.outlet import Cell, Grid, Outlet, Tone, subject
from envprobe.report.triage_model import Report, headline, of_log, of_unit

_HEADS: Final = ("what it is", "cause", "where", "what it says")
_MOST: Final = 200


def build(report: Report, presentation: Presentation) -> Outlet:
    """Return everything that the report holds."""
    facts = report.context.facts
    notes = [redact.show_sentence(headline(report), unmask=presentation.unmask)]
    notes += [redact.show_text(of_unit(facts.unit))] if facts.unit is not None else []
    notes += [redact.show_text(of_log(log)) for log in facts.logs]
    notes += [redact.show_text(f"not read: {one.reason}") for one in facts.problems]
    found = subject(
        redact.show_text(report.subject, 200),
        report.result,
        report.verdict,
        allow_unknown=report.allow_unknown,
        fail_on=report.fail_on,
        grids=(Grid("signs of the failure", _HEADS, _rows(report.context.judgement)),),
        notes=tuple(notes),
        unmask=presentation.unmask,
    )
    return Outlet("triage", CHECKS, (found,), report.verdict, report.fail_on, report.exit_zero)


def _rows(judgement: Judgement) -> tuple[tuple[Cell, ...], ...]:
    rows = [] if judgement.root is None else [_row("cause", judgement.root, Tone.LOST)]
    hooks = (one for one in judgement.hooks if one is not judgement.root)
    rows += [_row("hook", one, Tone.OTHER) for one in hooks]
    rows += [_row("follows", one, Tone.PLAIN) for one in judgement.follows]
    return tuple(rows[:_MOST])


def _row(kind: str, sign: Sign, tone: Tone) -> tuple[Cell, ...]:
    return (
        Cell(kind, tone),
        Cell(redact.show_text(sign.cause)),
        Cell(redact.show_text(where(sign.log, sign.line), 400)),
        Cell(redact.show_text(told(sign), 800)),
    )
