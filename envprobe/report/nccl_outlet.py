"""What `nccl` found, for the formats of other programs: a grid for each communicator."""

from __future__ import annotations

from typing import Final

from envprobe import redact
from envprobe.checks.nccl.registry import CHECKS
from envprobe.report import nccl
from envprobe.report.model import Presentation
from envprobe.report.nccl_model import Report
from envprobe.report.outlet import Cell, Grid, Outlet, Tone, subject

_MAX_FILES: Final = 3


def build(report: Report, presentation: Presentation) -> Outlet:
    """Return everything that the report holds."""
    files = [redact.show_text(file.name, 200) for file in report.context.log.files]
    more = f" and {len(files) - _MAX_FILES} more" if len(files) > _MAX_FILES else ""
    found = subject(
        ", ".join(files[:_MAX_FILES]) + more,
        report.result,
        report.verdict,
        allow_unknown=report.context.config.allow_unknown,
        fail_on=report.fail_on,
        grids=tuple(
            Grid(title, nccl.HEADS, tuple(tuple(map(_cell, line)) for line in lines))
            for title, lines in nccl.tables(report, presentation)
        ),
        unmask=presentation.unmask,
    )
    return Outlet("nccl", CHECKS, (found,), report.verdict, report.fail_on, report.exit_zero)


def _cell(text: str) -> Cell:
    if text.endswith(nccl.REFUSED):
        return Cell(text, Tone.LOST)
    if " -> " in text:
        return Cell(text, Tone.OTHER)
    return Cell(text, Tone.UNKNOWN if text == nccl.NOT_SHOWN else Tone.PLAIN)
