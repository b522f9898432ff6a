"""What the renderers of `triage` get."""

from __future__ import annotations

import dataclasses

from envprobe.checks.finding import Severity
from envprobe.checks.registry import Result
from envprobe.checks.triage.about import TriageContext
from envprobe.checks.triage.oneline import of_context
from envprobe.checks.verdict import Verdict
from envprobe.errors import Exit
from envprobe.model import Sentence
from envprobe.triage.facts import Log, Unit


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """Everything that one run found; with `exit_zero` the process ends with 0 in any case."""

    context: TriageContext
    result: Result
    verdict: Verdict
    allow_unknown: frozenset[str] = frozenset()
    fail_on: Severity = Severity.ERROR
    exit_zero: bool = False

    @property
    def subject(self) -> str:
        """What was looked at."""
        facts = self.context.facts
        return facts.unit.live.name if facts.unit is not None else facts.logs[0].name


def headline(report: Report) -> Sentence:
    """Return the cause in one sentence, or that nothing failed."""
    if report.context.judgement.root is None and report.verdict.exit is Exit.HOLDS:
        return Sentence.of(f"{report.subject} runs, and the log of its last start has no failure.")
    return of_context(report.context)


def of_unit(unit: Unit) -> str:
    """Return a unit's state in one line."""
    live = unit.live
    told = f"manager: {live.active} ({live.sub}), result {live.result or 'not known'}"
    if live.code:
        told += f", last main process: {live.code}"
    if live.restarts:
        told += f", {live.restarts} restart{'' if live.restarts == 1 else 's'}"
    return told


def of_log(log: Log) -> str:
    """Return in one line what of a log was read."""
    told = f"read: {log.name}, {log.lines} lines"
    if log.envelope:
        told += f" of {log.envelope}"
    if log.left_out:
        told += f"; of {log.size} bytes {log.left_out} in the middle were left out"
    if log.binary:
        told += "; it holds NUL bytes"
    if log.broken:
        told += f"; {log.broken}"
    return told
