"""What `trace-sitecustomize` found, for the formats of other programs: a grid for each start."""

from __future__ import annotations

from typing import Final

from envprobe import redact
from envprobe.checks.trace.registry import CHECKS
from envprobe.report import trace
from envprobe.report.model import Presentation
from envprobe.report.outlet import Cell, Grid, Outlet, Tone, subject
from envprobe.report.trace_model import Report, headline, title, told
from envprobe.startup.result import Hook, Outcome
from envprobe.startup.traced import Answer

_TONES: Final = {
    Outcome.RAN: Tone.SAME,
    Outcome.DISABLED: Tone.OTHER,
    Outcome.ABSENT: Tone.PLAIN,
    Outcome.UNKNOWN: Tone.UNKNOWN,
}


def build(report: Report, presentation: Presentation) -> Outlet:
    """Return everything that the report holds."""
    traced = report.context.traced
    python = traced.answers[0].startup.launch.python
    found = subject(
        redact.show_text(traced.definition.subject if traced.definition is not None else python),
        report.result,
        report.verdict,
        allow_unknown=report.allow_unknown,
        fail_on=report.fail_on,
        grids=tuple(map(_grid, traced.answers)),
        notes=(redact.show_text(headline(report)),),
        unmask=presentation.unmask,
    )
    return Outlet(
        "trace-sitecustomize", CHECKS, (found,), report.verdict, report.fail_on, report.exit_zero
    )


def _grid(answer: Answer) -> Grid:
    startup = answer.startup
    children = tuple(
        f"in a real child, {redact.show_text(trace.told_of(one))}" for one in startup.children
    )
    rows = tuple(_hook(hook) for hook in startup.hooks)
    heads = ("hook", "what became of it", "from")
    return Grid(redact.show_text(title(answer)), heads, rows, children)


def _hook(hook: Hook) -> tuple[Cell, ...]:
    outcome = Cell(redact.show_text(told(hook), 400), _TONES.get(hook.outcome, Tone.LOST))
    return (
        Cell(redact.show_text(hook.name)),
        outcome,
        Cell(redact.show_text(hook.path or hook.text, 400)),
    )
