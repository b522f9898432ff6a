"""What the renderers of `gate` get: the parts, and what they say together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable
from typing import Final

from envprobe.checks import verdict
from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.gate.plan import Phase, Plan, Stand, Standing
from envprobe.checks.registry import Result
from envprobe.checks.verdict import Verdict
from envprobe.errors import Exit, decide
from envprobe.routes.types import Change

WHEN: Final = {
    Phase.BEFORE: "before the start of",
    Phase.STATIC: "by files alone, before the start of",
    Phase.LIVE: "running:",
}
TITLES: Final = {
    Standing.AFTER: "only the running server shows (ask after the start: `envprobe gate --live`)",
    Standing.FILES: "not decided by files, and not counted as holding",
}
OUTCOMES: Final = {
    Exit.HOLDS: "holds",
    Exit.FINDING: "fails",
    Exit.UNDETERMINED: "could not tell",
    Exit.TARGET_GONE: "the target is gone",
}
"""A part's outcome: not the word of the whole verdict, for which a script may look."""

_DECLARED: Final = "declared-unexpected"
_OF_WORKERS: Final = ("env-missing", "env-wrong-value", "env-forbidden")
"""What the workers have is told once, with the definition that hands it over."""


def _pid(pid: int) -> str:
    return f"PID {pid}"


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """One command's share: `checks` are those that were run, `called` names a process."""

    name: str
    checks: tuple[Check, ...]
    result: Result
    verdict: Verdict
    notes: tuple[str, ...] = ()
    called: Callable[[int], str] = _pid


@dataclasses.dataclass(frozen=True, slots=True)
class Spoken:
    """One finding, and the parts that say it; `because` is the reason of one that is ignored."""

    finding: Finding
    parts: tuple[str, ...]
    because: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """Everything that one run found; with `exit_zero` the process ends with 0 in any case."""

    plan: Plan
    subject: str
    parts: tuple[Part, ...]
    allow_unknown: frozenset[str] = frozenset()
    fail_on: Severity = Severity.ERROR
    exit_zero: bool = False

    @property
    def findings(self) -> tuple[Spoken, ...]:
        """What all parts have found, the worst first, each once."""
        found = _once((one, part.name, "") for part in self.parts for one in part.result.findings)
        return tuple(sorted(found, key=self._rank))

    @property
    def ignored(self) -> tuple[Spoken, ...]:
        """What is kept apart, each once."""
        every = ((part.name, *one) for part in self.parts for one in part.result.ignored)
        return _once((one, part, reason) for part, one, reason in every)

    @property
    def verdict(self) -> Verdict:
        """The one verdict: the worst part decides, and what two parts say counts once."""
        findings = tuple(one.finding for one in self.findings)
        ignored = tuple((one.finding, one.because) for one in self.ignored)
        counts = verdict.of_findings(
            Result(findings, ignored), self.allow_unknown, self.fail_on
        ).counts
        return Verdict(decide(part.verdict.exit for part in self.parts), counts)

    def standing(self, standing: Standing) -> tuple[Stand, ...]:
        """Return the expectations that stand so."""
        return tuple(one for one in self.plan.stands if one.standing is standing)

    def _rank(self, spoken: Spoken) -> tuple[bool, bool, int]:
        """Put what fails first, then what could not be told, and what was accepted last."""
        one = spoken.finding
        accepted = one.undetermined and one.check in self.allow_unknown
        return (accepted, one.undetermined, -one.severity.rank)


def _once(found: Iterable[tuple[Finding, str, str]]) -> tuple[Spoken, ...]:
    every = tuple(found)
    declared = {
        finding.variable: _key(finding)
        for finding, _, _ in every
        if finding.check == _DECLARED and not finding.undetermined
    }
    kept: dict[Hashable, Spoken] = {}
    for finding, part, because in every:
        key = declared.get(finding.variable, "") if _as_handed(finding) else ""
        key = key or _key(finding)
        before = kept.get(key)
        parts = (part,) if before is None else (*before.parts, part)
        first = finding if before is None else before.finding
        kept[key] = Spoken(first, tuple(dict.fromkeys(parts)), because)
    return tuple(kept.values())


def _as_handed(one: Finding) -> bool:
    """Return whether a worker has just what the definition hands over: nothing came in between."""
    same = all(each.change is Change.NEVER_THERE for each in one.breaks)
    return one.check in _OF_WORKERS and same


def _key(one: Finding) -> Hashable:
    """Return what two findings that say the same have in common."""
    about = (one.check, one.severity, one.undetermined, one.variable, one.pids, one.who)
    return (*about, one.message)


def told(stand: Stand) -> str:
    """Return an expectation in words: what it is of, where it is written, and why it stands so."""
    why = f": {stand.reason}" if stand.reason else ""
    return f"{stand.name} ({stand.origin}){why}"
