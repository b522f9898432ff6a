"""What the checks of `trace-sitecustomize` look at, and how they name it."""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Iterable, Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.model import Confidence, Sentence
from envprobe.startup.result import Hook
from envprobe.startup.traced import Answer, Traced, Untold
from envprobe.startup.types import MODULES, Asked, Launch


@dataclasses.dataclass(frozen=True, slots=True)
class Expected:
    """What must hold: the path of the winner, the ways in which children get the hook, patches."""

    winner: str | None = None
    reach: tuple[str, ...] = ()
    patches: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class TraceContext:
    """All that a check of `trace-sitecustomize` may look at."""

    traced: Traced
    expected: Expected = Expected()

    @property
    def pids(self) -> tuple[int, ...]:
        """The process that was asked about, if any."""
        return () if self.traced.target is None else (self.traced.target.pid,)

    def hooks(self) -> Iterator[tuple[Answer, Hook]]:
        """Yield sitecustomize and usercustomize of each start."""
        for answer in self.traced.answers:
            for module in MODULES:
                yield answer, answer.startup.hook(module)


def who(answer: Answer) -> str:
    """Return what an answer is about, for `Finding.who`."""
    if answer.start is not None:
        return str(answer.start.declared.place)
    python, asked = answer.startup.launch.python, _asked(answer)
    return _SUBJECTS.get(next(iter(asked)), python) if len(asked) == 1 else python


def found(
    check: Check,
    context: TraceContext,
    answer: Answer,
    told: str,
    *,
    severity: Severity | None = None,
    evidence: Iterable[str] = (),
    remedy: str = "",
    undetermined: bool = False,
    of_memory: bool = False,
) -> Finding:
    """Return a finding about one answer; `told` is a sentence without its end.

    `of_memory`: it speaks of what the process holds, not of the start that was traced.
    """
    asked = {Asked.GIVEN} if of_memory else _asked(answer)
    told = _BEGINNINGS.get(next(iter(asked)), "") + told if len(asked) == 1 else told
    if answer.start is not None and context.traced.several:
        told = f"{answer.start.declared.place}: {told}"
    # Names of files and modules stay as they are.
    first = told.partition(" ")[0]
    if first.isalpha() and first not in MODULES:
        told = told[:1].upper() + told[1:]
    severity = severity or check.severity
    if asked == {Asked.AGAIN} or (answer.unsure and not of_memory):
        # It is no proven fault of the process: what it has loaded is in its memory, or what it
        # loads hangs on something that is not known.
        severity = min(severity, Severity.WARNING, key=lambda one: one.rank)
    return Finding(
        check=check.slug,
        severity=severity,
        message=Sentence.of(told + "."),
        confidence=_confidence(answer),
        who=_SUBJECTS[Asked.RAN] if of_memory else who(answer),
        pids=context.pids,
        evidence=tuple(Sentence.of(line) for line in evidence),
        remedy=Sentence.of(remedy or check.mend),
        undetermined=undetermined,
    )


def untold(check: Check, one: Untold) -> Finding:
    """Return what there is to say of a command that was not traced; its reason names the line."""
    return Finding(
        check=check.slug,
        severity=check.severity,
        message=Sentence.of(one.reason + "."),
        who=str(one.place),
        remedy=Sentence.of(one.remedy),
        undetermined=True,
    )


def _asked(answer: Answer) -> set[Asked]:
    """Return the questions that an answer speaks to: AGAIN only where there is no other."""
    asked = {question.asked for question in answer.questions}
    return asked - {Asked.AGAIN} or asked


def _confidence(answer: Answer) -> Confidence:
    """Return that of what was seen: it is inferred if every question is."""
    proved = any(one.confidence is Confidence.PROVED for one in answer.questions)
    again = any(one.asked is Asked.AGAIN for one in answer.questions)
    return Confidence.PROVED if proved or again else Confidence.INFERRED


_SUBJECTS: Final = {
    Asked.RAN: "what the process ran",
    Asked.NEXT: "what its next spawned child will run",
    Asked.AGAIN: "what a start of the process would run now",
}
_BEGINNINGS: Final = {
    Asked.AGAIN: "if this process were started now, ",
    Asked.RAN: "when this process started, ",
    Asked.NEXT: "when its next spawned child starts, ",
}


def place(launch: Launch, path: str) -> str:
    """Return a path as the user writes it: absolute, seen from the launch's directory."""
    return posixpath.normpath(posixpath.join(launch.cwd, path))
