"""The report of `rehearse` as text: what was started, what it said, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe import redact
from envprobe.model import Sentence, Shown
from envprobe.rehearsal.types import Member, Rehearsal, Written
from envprobe.report import labels, rehearse_model, text
from envprobe.report.findings import Prose, counted
from envprobe.report.model import Presentation
from envprobe.report.rehearse_model import Report

_MAX_LISTED: Final = 12


def render(report: Report, presentation: Presentation) -> str:
    """Return the report as text of at least 80 columns, ending with a newline."""
    return redact.without_commands("\n".join(_Text(report, presentation).lines()) + "\n")


class _Text:
    def __init__(self, report: Report, presentation: Presentation) -> None:
        self.report = report
        self.presentation = presentation
        self.all = presentation.show_all
        self.prose = Prose(presentation.width, color=presentation.color, unmask=presentation.unmask)

    def lines(self) -> Iterator[str]:
        report = self.report
        found = [*counted(report.verdict.counts, report.fail_on), rehearse_model.headline(report)]
        verdict = self.prose.verdict(
            report.verdict.exit, "; ".join(found), exit_zero=report.exit_zero
        )
        yield from verdict
        for one in report.context.rehearsed:
            yield ""
            yield from self.rehearsal(one.rehearsal)
        for scan, scanned in report.scans():
            yield ""
            yield from text.facts(scan, scanned, self.presentation)
        yield from self.prose.findings(report.result, report.allow_unknown, details=self.all)
        yield ""
        yield from verdict

    def said(self, told: str, below: str = "    ", first: str = "  ") -> list[str]:
        return self.prose.wrapped(redact.show_text(told), below, first)

    def rehearsal(self, one: Rehearsal) -> Iterator[str]:
        yield self.prose.style(
            f"rehearsed: {labels.cut(rehearse_model.command(one), self.prose.width - 12)}", "title"
        )
        for told in rehearse_model.chosen(one):
            yield from self.said(told)
        for told in rehearse_model.limits(one):
            yield from self.said(f"not rehearsed: {told}")
        yield from self.written(one)
        yield from self.members(one)

    def written(self, one: Rehearsal) -> Iterator[str]:
        if not one.written:
            return
        if not self.all:
            names = [redact.show_name(each.name) for each in one.written]
            shown = ", ".join(names[:_MAX_LISTED])
            rest = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
            told = f"set in the place of the framework (--show-all): {shown}{rest}"
            yield from self.prose.wrapped(told, "    ", "  ")
            return
        yield "  set in the place of the framework:"
        for each in one.written:
            yield from self.prose.said(_written(each), "      ", "    ")

    def members(self, one: Rehearsal) -> Iterator[str]:
        names = [redact.show_text(each.name) for each in one.members]
        if not names:
            return
        wide = max(len("process"), *map(labels.width_of, names))
        title = f"  {labels.pad('process', wide)}  {'ready':>8}  sitecustomize"
        yield self.prose.style(title, "title")
        for each, name in zip(one.members, names, strict=True):
            hook = redact.show_text(rehearse_model.hook_of(each))
            yield f"  {labels.pad(name, wide)}  {each.seconds * 1000:5.0f} ms  {hook}"
        yield from self.targets(one)

    def targets(self, one: Rehearsal) -> Iterator[str]:
        told: dict[str, list[Member]] = {}
        for each in one.members:
            for name, target in each.targets.items():
                said = f"{name}: {rehearse_model.target_of(target)}"
                if name in each.held:
                    said += f"; holds {rehearse_model.held_of(each.held[name])}"
                told.setdefault(said, []).append(each)
        for said, members in told.items():
            yield from self.said(f"{said} ({_number(members)})")


def _number(members: list[Member]) -> str:
    return members[0].name if len(members) == 1 else f"{len(members)} processes"


def _written(one: Written) -> Sentence:
    where = " in each worker" if one.in_workers else ""
    name = redact.show_name(one.name)
    if one.value is None:
        return Sentence.of(f"{name} removed{where}: {one.condition} ({one.source})")
    told = f"{where}: {one.condition} ({one.source})"
    return Sentence.of(f"{name}=", Shown(one.name, one.value), told)
