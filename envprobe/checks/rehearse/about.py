"""What the checks of `rehearse` look at, and how they tell of it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.checks.unit.about import UnitContext
from envprobe.checks.who import folded, some
from envprobe.config import Expectation, PatchExpectation
from envprobe.launch.definition import Definition
from envprobe.model import Confidence, Sentence, Shown
from envprobe.rehearsal.types import Member, Rehearsal
from envprobe.values import Value

_NAMED: Final = 6


@dataclasses.dataclass(frozen=True, slots=True)
class Open:
    """An expectation of a variable that the definition leaves open, for `reason`."""

    expectation: Expectation
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Rehearsed:
    """One rehearsal; `scan` is what `workers` makes of its processes, None if they were not read.

    `subject` names the start in words; `open` is what `scan` shows nothing of, and does not hold.
    """

    rehearsal: Rehearsal
    scan: Context | None
    subject: str
    open: tuple[Open, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class RehearseContext:
    """All that a check of `rehearse` may look at.

    `patches` are attributes that must be patched, whoever does it; `sources` those that must come
    from somewhere. `unit` holds a look at the declared program's first file.
    """

    definition: Definition
    rehearsed: tuple[Rehearsed, ...]
    unit: UnitContext
    patches: tuple[str, ...] = ()
    sources: tuple[PatchExpectation, ...] = ()

    @property
    def declared_names(self) -> tuple[str, ...]:
        """The variables that the definition, or a program on the way to an interpreter, sets."""
        handed = [one.rehearsal.start.declared.declared.names for one in self.rehearsed]
        every = (*self.definition.relevant, *(name for names in handed for name in names))
        return tuple(dict.fromkeys(every))

    def told(self) -> Iterator[tuple[Rehearsed, Rehearsal]]:
        """Yield each rehearsal."""
        for one in self.rehearsed:
            yield one, one.rehearsal


def found(
    check: Check,
    rehearsed: Rehearsed,
    message: str | Sentence,
    *,
    members: Iterable[Member] = (),
    variable: str = "",
    severity: Severity | None = None,
    evidence: Iterable[str | Sentence] = (),
    remedy: str = "",
    undetermined: bool = False,
    confidence: Confidence = Confidence.PROVED,
) -> Finding:
    """Return a finding about a rehearsal, or about some of its processes."""
    return Finding(
        check=check.slug,
        severity=severity or check.severity,
        message=_sentence(message),
        confidence=confidence,
        pids=tuple(one.pid for one in members),
        variable=variable,
        evidence=tuple(map(_sentence, evidence)),
        remedy=Sentence.of(remedy or check.mend),
        undetermined=undetermined,
        who=rehearsed.subject,
    )


def _sentence(told: str | Sentence) -> Sentence:
    return told if isinstance(told, Sentence) else Sentence.of(told)


def quoted(text: str) -> Shown:
    """Return words of a foreign program, which may hold a credential."""
    return Shown("", Value(os.fsencode(text)))


def names(members: Iterable[Member]) -> str:
    """Return processes in words."""
    return some([one.name for one in members], _NAMED)


def groups(
    members: Iterable[Member], key: Callable[[Member], object]
) -> Iterator[tuple[object, list[Member]]]:
    """Yield the processes that have one key together; those with None are left out."""
    keyed = [(one, value) for one in members if (value := key(one)) is not None]
    for value, group in folded(keyed, lambda pair: pair[1]).items():
        yield value, [one for one, _ in group]
