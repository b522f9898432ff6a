"""The report of `gate` as text: the verdict, a line for each part, then what was found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe import redact
from envprobe.checks.gate.plan import UNASKED, Standing
from envprobe.report.findings import Prose, counted
from envprobe.report.gate_model import OUTCOMES, TITLES, WHEN, Part, Report, Spoken, told
from envprobe.report.model import Presentation

_OPEN: Final = (Standing.AFTER, Standing.FILES)


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
        yield from self.verdict(report.verdict.exit, self.summary(), exit_zero=report.exit_zero)
        yield ""
        for part in report.parts:
            yield from self.part(part)
        for standing in _OPEN:
            yield from self.open(standing)
        for spoken in report.findings:
            yield ""
            yield from self.spoken(spoken)
        for spoken in report.ignored:
            yield ""
            about = f"ignored  {spoken.finding.check}{_of(spoken)}: "
            yield from self.wrapped(about + self.text(spoken.finding.message), "  ", "  ")
            because = f"because: {redact.show_text(spoken.because, 200)}"
            yield from self.wrapped(because, "    ", "    ")

    def summary(self) -> str:
        report = self.report
        found = list(counted(report.verdict.counts, report.fail_on))
        judged = len(report.standing(Standing.JUDGED))
        number = sum(one.kind not in UNASKED for one in report.plan.stands)
        found.append(f"{judged} of {number} expectation{'' if number == 1 else 's'} judged")
        subject = redact.show_text(report.subject, 60)
        return f"{', '.join(found)}, {WHEN[report.plan.phase]} {subject}"

    def part(self, part: Part) -> Iterator[str]:
        outcome = OUTCOMES.get(part.verdict.exit, part.verdict.exit.name.lower())
        found = ", ".join(counted(part.verdict.counts, self.report.fail_on))
        line = f"{part.name:<20} {outcome}{f': {found}' if found else ''}"
        yield from self.wrapped(line, "      ", "  ")
        for note in part.notes:
            yield from self.wrapped(redact.show_text(note), "      ", "    - ")

    def open(self, standing: Standing) -> Iterator[str]:
        stands = self.report.standing(standing)
        if not stands:
            return
        yield from ("", f"  {TITLES[standing]}:")
        for stand in stands:
            yield from self.wrapped(redact.show_text(told(stand), 400), "      ", "    ")

    def spoken(self, spoken: Spoken) -> Iterator[str]:
        first, *rest = self.finding(spoken.finding, self.report.allow_unknown, details=self.all)
        yield first + _of(spoken)
        yield from rest


def _of(spoken: Spoken) -> str:
    return f" in {' and '.join(spoken.parts)}"
