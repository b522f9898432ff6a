"""The check `start-limit-hit`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.triage.about import TriageContext, limited, reset
from envprobe.model import Sentence


def _run(context: TriageContext) -> Iterator[Finding]:
    if not limited(context):
        return
    unit = context.facts.unit
    name = unit.live.name if unit is not None else "the unit"
    times = ""
    if unit is not None and unit.live.restarts:
        times = f" after {unit.live.restarts} restarts"
    yield Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(f"systemd refuses to start {name} again{times}: it failed too often."),
        remedy=Sentence.of(
            f"Mend the cause first, then run `{reset(context)}` and start the unit."
        ),
        who=name,
    )


CHECK = Check(
    id="EP610",
    slug="start-limit-hit",
    severity=Severity.ERROR,
    summary="systemd refuses further starts of the unit, because it was started too often.",
    why="After StartLimitBurst= starts within StartLimitIntervalSec= (by default 5 in 10 s) a unit"
    " stays failed: a correct one is not started either until its state is reset or the time is"
    " over. It is never the cause, only what came of it.",
    mend="Mend the cause, then run `systemctl reset-failed UNIT` and start the unit.",
    run=_run,
)
