"""What one run found, in the form that every renderer for other programs takes.

All text in it is ready to be shown: credentials are masked and control characters are escaped. What
a format itself gives a meaning (`<`, `%`, braces) is for that format's renderer to escape.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from envprobe import redact
from envprobe.checks import registry
from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.registry import Result
from envprobe.checks.verdict import Verdict
from envprobe.errors import Exit
from envprobe.report import findings


class Outcome(str, enum.Enum):
    """What a finding does to the run.

    FAILS makes the exit code 1, UNKNOWN ("could not tell") makes it 3; a REMARK is below --fail-on,
    an ACCEPTED one could not be told and is allowed, an IGNORED one is kept apart by [ignore].
    """

    FAILS = "fails"
    UNKNOWN = "unknown"
    REMARK = "remark"
    ACCEPTED = "accepted"
    IGNORED = "ignored"


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """A finding in words. `whom` names what it speaks of; `because` is the reason of [ignore]."""

    check: Check
    severity: Severity
    outcome: Outcome
    message: str
    confidence: str
    whom: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()
    variable: str = ""
    evidence: tuple[str, ...] = ()
    remedy: str = ""
    because: str = ""

    @property
    def places(self) -> tuple[str, ...]:
        """What it speaks of without numbers of processes: the same after a restart."""
        return tuple(one.partition(" (PID ")[0] for one in self.whom)

    @property
    def lines(self) -> tuple[str, ...]:
        """The whole finding as lines: what it says, its evidence, what to do."""
        last = (f"=> {self.remedy}",) if self.remedy else ()
        ignored = (f"ignored because: {self.because}",) if self.because else ()
        return (self.message, *(f"- {one}" for one in self.evidence), *last, *ignored)


class Tone(str, enum.Enum):
    """What a cell of a table says at a glance."""

    PLAIN = ""
    SAME = "same"
    OTHER = "other"
    LOST = "lost"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclasses.dataclass(frozen=True, slots=True)
class Grid:
    """A table with its heads; `notes` are lines below it."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """One thing that was looked at (a server, a log, an interpreter) and all that was found.

    `checks` are those that were run on it, None: all of the outlet. `elsewhere` names the subjects
    under which findings of this one are told already.
    """

    name: str
    verdict: Verdict
    told: tuple[Told, ...]
    grids: tuple[Grid, ...] = ()
    notes: tuple[str, ...] = ()
    checks: tuple[Check, ...] | None = None
    elsewhere: tuple[str, ...] = ()

    @property
    def unexplained(self) -> bool:
        """Whether the verdict is no 0, and no finding is why: evidence lacks, or the root ended."""
        outcomes = {one.outcome for one in self.told}
        if self.verdict.exit is Exit.HOLDS or self.elsewhere:
            return False
        if self.verdict.exit is Exit.FINDING:
            return Outcome.FAILS not in outcomes
        return self.verdict.exit is not Exit.UNDETERMINED or Outcome.UNKNOWN not in outcomes


@dataclasses.dataclass(frozen=True, slots=True)
class Outlet:
    """Everything that one run found. `checks` are those that were run, whether they found anything.

    With `exit_zero` the process ends with 0 whatever `verdict` says. `done` says in the verdict's
    line what was run and what was not; it must be fit to be shown.
    """

    command: str
    checks: tuple[Check, ...]
    subjects: tuple[Subject, ...]
    verdict: Verdict
    fail_on: Severity = Severity.ERROR
    exit_zero: bool = False
    done: str = ""

    @property
    def word(self) -> str:
        """The word with which a report begins."""
        return findings.WORDS.get(self.verdict.exit, self.verdict.exit.name)

    @property
    def summary(self) -> str:
        """The verdict in one line, its exit code last."""
        counted = list(findings.counted(self.verdict.counts, self.fail_on))
        what = ", ".join(counted) or "nothing to report"
        told = f"exit {int(self.verdict.exit)}"
        if self.exit_zero and self.verdict.exit:
            told = f"exit 0 by --exit-zero, would be {int(self.verdict.exit)}"
        names = ", ".join(one.name for one in self.subjects)
        done = f"; {self.done}" if self.done else ""
        return f"{self.word}: {what} in {names}{done} ({told})"


def subject(
    name: str,
    result: Result,
    verdict: Verdict,
    *,
    allow_unknown: Mapping[str, str] | frozenset[str],
    fail_on: Severity,
    called: Callable[[int], str] = "PID {}".format,
    grids: tuple[Grid, ...] = (),
    notes: tuple[str, ...] = (),
    unmask: bool = False,
) -> Subject:
    """Return what was found on one subject; `called` names a process.

    `name`, `notes` and the grids must be fit to be shown already.
    """

    def tell() -> Iterator[Told]:
        for one in result.findings:
            accepted = one.check in allow_unknown
            yield _told(one, _outcome(one, accepted, fail_on), called, unmask)
        for one, reason in result.ignored:
            made = _told(one, Outcome.IGNORED, called, unmask)
            yield dataclasses.replace(made, because=redact.show_text(reason, 400))

    return Subject(name, verdict, tuple(tell()), grids, notes)


_MAX_WHOM: Final = 64


def _outcome(finding: Finding, accepted: bool, fail_on: Severity) -> Outcome:
    if finding.undetermined:
        return Outcome.ACCEPTED if accepted else Outcome.UNKNOWN
    return Outcome.FAILS if finding.severity.rank >= fail_on.rank else Outcome.REMARK


def _told(finding: Finding, outcome: Outcome, called: Callable[[int], str], unmask: bool) -> Told:
    whom = [redact.show_text(called(pid), 200) for pid in finding.pids[:_MAX_WHOM]]
    if finding.who:
        whom.insert(0, redact.show_text(finding.who, 400))
    return Told(
        check=registry.find(finding.check),
        severity=finding.severity,
        outcome=outcome,
        message=redact.show_sentence(finding.message, unmask=unmask),
        confidence=finding.confidence.value,
        whom=tuple(whom),
        pids=finding.pids,
        variable=redact.show_name(finding.variable) if finding.variable else "",
        evidence=tuple(redact.show_sentence(one, unmask=unmask) for one in finding.evidence),
        remedy=redact.show_sentence(finding.remedy, unmask=unmask),
    )
