"""The report of `triage` as text: the cause, what was read, and what speaks for it."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe import redact
from envprobe.report.findings import Prose, counted
from envprobe.report.model import Presentation
from envprobe.report.triage_model import Report, headline, of_log, of_unit


def render(report: Report, presentation: Presentation) -> str:
    """Return the report as text of at least 80 columns, ending with a newline."""
    return redact.without_commands("\n".join(_Text(report, presentation).lines()) + "\n")


class _Text(Prose):
    def __init__(self, report: Report, presentation: Presentation) -> None:
        super().__init__(presentation.width, color=presentation.color, unmask=presentation.unmask)
        self.report = report
        self.all = presentation.show_all

    def lines(self) -> Iterator[str]:
        report = self.report
        found = list(counted(report.verdict.counts, report.fail_on))
        summary = "; ".join([*found, redact.show_text(report.subject, 100)])
        verdict = self.verdict(report.verdict.exit, summary, exit_zero=report.exit_zero)
        yield from verdict
        if not report.result.findings:
            yield from self.said(headline(report), "  ")
        yield ""
        if report.context.facts.unit is not None:
            yield from self.plain(of_unit(report.context.facts.unit))
        for log in report.context.facts.logs:
            yield from self.plain(of_log(log))
        for problem in report.context.facts.problems:
            yield from self.plain(f"not read: {problem.reason}")
        yield from self.findings(report.result, report.allow_unknown, details=self.all)
        yield ""
        yield from verdict

    def plain(self, text: str) -> list[str]:
        return self.wrapped(redact.show_text(text), "    ", "  ")
