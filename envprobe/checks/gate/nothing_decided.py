"""The check `nothing-decided`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.gate.about import GateContext
from envprobe.checks.gate.plan import Phase
from envprobe.model import Sentence

_TOLD: Final = {
    Phase.STATIC: "Nothing of what is expected is decided by files alone.",
    Phase.BEFORE: "Nothing of what is expected can be told before the start.",
    Phase.LIVE: "Nothing of what is expected can be told of a running server.",
}


def _run(context: GateContext) -> Iterator[Finding]:
    plan = context.plan
    if any(stand.parts for stand in plan.stands):
        return
    yield Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(_TOLD[plan.phase]),
        evidence=tuple(
            Sentence.of(f"{stand.name} ({stand.origin}): {stand.reason}.") for stand in plan.stands
        ),
        remedy=Sentence.of(CHECK.mend),
        undetermined=True,
        who=context.subject,
    )


CHECK = Check(
    id="EP701",
    slug="nothing-decided",
    severity=Severity.ERROR,
    summary="The gate was asked, and nothing of what the configuration expects was judged.",
    why="A gate that has judged nothing must not pass: exit code 0 needs evidence.",
    mend="Expect something that is known at this point, such as a variable under [expect.env]; or"
    " run `envprobe gate` without --static, or after the start with --live.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
