"""What `gate` found, for the formats of other programs: a subject for each part."""

from __future__ import annotations

import dataclasses
from typing import Final

from envprobe import redact
from envprobe.checks.finding import Check
from envprobe.checks.gate.plan import KERNEL, Stand, Standing
from envprobe.checks.registry import Result
from envprobe.report.gate_model import WHEN, Part, Report
from envprobe.report.model import Presentation
from envprobe.report.outlet import Cell, Grid, Outlet, Subject, Tone, subject

_TONES: Final = {Standing.JUDGED: Tone.PLAIN}
_WORDS: Final = {
    Standing.JUDGED: "judged",
    Standing.AFTER: "only the running server shows",
    Standing.FILES: "not decided by files",
}


def build(report: Report, presentation: Presentation) -> Outlet:
    """Return everything that the report holds."""
    checks: dict[str, Check] = {one.id: one for part in report.parts for one in part.checks}
    subjects = [_subject(report, part, presentation) for part in report.parts]
    first = dataclasses.replace(subjects[0], grids=(_grid(report), *subjects[0].grids))
    return Outlet(
        command="gate",
        checks=tuple(checks.values()),
        subjects=(first, *subjects[1:]),
        verdict=report.verdict,
        fail_on=report.fail_on,
        exit_zero=report.exit_zero,
        done="; ".join(
            redact.show_text(note, 400)
            for part in report.parts
            if part.name == KERNEL
            for note in part.notes
        ),
    )


def _subject(report: Report, part: Part, presentation: Presentation) -> Subject:
    own = _own(report, part)
    made = subject(
        _name(report, part.name),
        own,
        part.verdict,
        allow_unknown=report.allow_unknown,
        fail_on=report.fail_on,
        called=part.called,
        notes=tuple(redact.show_text(one, 400) for one in part.notes),
        unmask=presentation.unmask,
    )
    said = {one.check for one in own.findings}
    # A check of which an earlier part tells has not passed in this one.
    passed = {one.check for one in part.result.findings}.isdisjoint
    checks = tuple(one for one in part.checks if one.slug in said or passed({one.slug}))
    return dataclasses.replace(made, checks=checks, elsewhere=_elsewhere(report, part))


def _name(report: Report, part: str) -> str:
    return f"{part}, {WHEN[report.plan.phase]} {redact.show_text(report.subject, 80)}"


def _own(report: Report, part: Part) -> Result:
    """Return what a part is the first to say."""
    return Result(
        tuple(one.finding for one in report.findings if one.parts[0] == part.name),
        tuple((one.finding, one.because) for one in report.ignored if one.parts[0] == part.name),
    )


def _elsewhere(report: Report, part: Part) -> tuple[str, ...]:
    """Return the names of earlier parts that tell what this one has found as well."""
    firsts = [one.parts[0] for one in report.findings if part.name in one.parts[1:]]
    return tuple(_name(report, one) for one in dict.fromkeys(firsts))


def _grid(report: Report) -> Grid:
    rows = tuple(_row(one) for one in report.plan.stands)
    return Grid("what is expected", ("expected of", "written in", "judged", "by"), rows)


def _row(stand: Stand) -> tuple[Cell, ...]:
    by = ", ".join(stand.parts) or stand.reason
    return (
        Cell(redact.show_text(stand.name, 200)),
        Cell(redact.show_text(stand.origin, 200)),
        Cell(_WORDS[stand.standing], _TONES.get(stand.standing, Tone.UNKNOWN)),
        Cell(redact.show_text(by, 400)),
    )
