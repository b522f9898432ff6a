"""What `rehearse` found, for the formats of other programs: its processes as grids."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe import redact
from envprobe.checks.rehearse.registry import KNOWN
from envprobe.rehearsal.types import Member, Rehearsal
from envprobe.report import rehearse_model, workers_outlet
from envprobe.report.model import Presentation
from envprobe.report.outlet import Cell, Grid, Outlet, Tone, subject
from envprobe.report.rehearse_model import Report


def build(report: Report, presentation: Presentation) -> Outlet:
    """Return everything that the report holds."""
    names = {
        each.pid: f"{each.name} (PID {each.pid})"
        for one in report.context.rehearsed
        for each in one.rehearsal.members
    }
    found = subject(
        redact.show_text(report.context.definition.subject),
        report.result,
        report.verdict,
        allow_unknown=report.allow_unknown,
        fail_on=report.fail_on,
        called=lambda pid: names.get(pid, f"PID {pid}"),
        grids=tuple(_grids(report, presentation)),
        notes=(redact.show_text(rehearse_model.headline(report)),),
        unmask=presentation.unmask,
    )
    return Outlet("rehearse", KNOWN, (found,), report.verdict, report.fail_on, report.exit_zero)


def _grids(report: Report, presentation: Presentation) -> Iterator[Grid]:
    for one in report.context.rehearsed:
        yield _grid(one.rehearsal)
    for scan, scanned in report.scans():
        yield from workers_outlet.grids(scanned, scan, presentation)


def _grid(one: Rehearsal) -> Grid:
    heads = ("process", "ready after", "sitecustomize")
    rows = tuple(_row(each) for each in one.members)
    told = (*rehearse_model.chosen(one), *rehearse_model.limits(one))
    title = f"rehearsed: {rehearse_model.command(one)}"
    return Grid(title, heads, rows, tuple(redact.show_text(each) for each in told))


def _row(member: Member) -> tuple[Cell, ...]:
    hook = rehearse_model.hook_of(member)
    tone = Tone.PLAIN if hook == "none" else Tone.SAME
    return (
        Cell(redact.show_text(member.name)),
        Cell(f"{member.seconds * 1000:.0f} ms"),
        Cell(redact.show_text(hook, 400), tone),
    )
