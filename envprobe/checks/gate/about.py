"""What the checks of `gate` look at, and how they tell of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding
from envprobe.checks.gate.plan import Plan
from envprobe.kernel.facts import KernelFacts
from envprobe.launch.steps import Python
from envprobe.model import Sentence
from envprobe.startup.traced import Traced


@dataclasses.dataclass(frozen=True, slots=True)
class Unjudged:
    """A part that could not look at what it was asked to look at: why, and what to do."""

    part: str
    reason: str
    remedy: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class GateContext:
    """All that a check of `gate` may look at.

    `subject` names what the gate is for; `traced` are the starts that were traced, `pythons` the
    interpreters that the definition starts, and `kernel` what the kernel's programs found.
    """

    plan: Plan
    subject: str
    traced: tuple[Traced, ...] = ()
    pythons: tuple[Python, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()
    kernel: KernelFacts | None = None


def not_judged(check: Check, context: GateContext, part: str) -> Iterator[Finding]:
    """Yield that a part was not judged, as "could not tell"."""
    for one in context.unjudged:
        if one.part == part:
            yield Finding(
                check=check.slug,
                severity=check.severity,
                message=Sentence.of(f"`{part}` could not be asked: {one.reason.rstrip('.')}."),
                remedy=Sentence.of(one.remedy or check.mend),
                undetermined=True,
                who=context.subject,
            )
