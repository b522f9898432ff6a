"""What the checks of `trace-sitecustomize` look at, and how they name it."""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Iterable, Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.model import Sentence
from envprobe.startup.result import Hook
from envprobe.startup.traced import Answer, Traced
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
    asked = {question.asked for question in answer.questions}
    if asked == {Asked.RAN}:
        return "what the process ran"
    if asked == {Asked.NEXT}:
        return "what its next spawned child will run"
    return answer.startup.launch.python


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
) -> Finding:
    """Return a finding about one answer; `told` is a sentence without its end."""
    asked = {question.asked for question in answer.questions}
    told = _BEGINNINGS.get(next(iter(asked)), "") + told if len(asked) == 1 else told
    # Names of files and modules stay as they are.
    if told.partition(" ")[0].isalpha():
        told = told[:1].upper() + told[1:]
    return Finding(
        check=check.slug,
        severity=severity or check.severity,
        message=Sentence.of(told + "."),
        who=who(answer),
        pids=context.pids,
        evidence=tuple(Sentence.of(line) for line in evidence),
        remedy=Sentence.of(remedy or check.mend),
        undetermined=undetermined,
    )


_BEGINNINGS: Final = {
    Asked.RAN: "when this process started, ",
    Asked.NEXT: "when its next spawned child starts, ",
}


def place(launch: Launch, path: str) -> str:
    """Return a path as the user writes it: absolute, seen from the launch's directory."""
    return posixpath.normpath(posixpath.join(launch.cwd, path))
