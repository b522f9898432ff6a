"""The check `kernel-other-gpu`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.gate.about import GateContext
from envprobe.kernel.architecture import Architecture
from envprobe.model import Sentence


def _run(context: GateContext) -> Iterator[Finding]:
    expected, facts = context.plan.kernel, context.kernel
    if expected is None or not expected.arch or facts is None or facts.run is None:
        return
    wanted = Architecture.parse(expected.arch)
    for device in facts.run.devices:
        card = device.card
        if card is not None and card.architecture.number != wanted.number:
            told = f"The kernel was tried on {card.name} ({card.architecture}), and"
            yield Finding(
                check=CHECK.slug,
                severity=CHECK.severity,
                message=Sentence.of(f"{told} {expected.origin} expects it for {wanted}."),
                remedy=Sentence.of(CHECK.mend),
                undetermined=True,
                who=f"device {device.index}",
            )


CHECK = Check(
    id="EP707",
    slug="kernel-other-gpu",
    severity=Severity.ERROR,
    summary="The installed kernel was tried on another GPU than the one that is expected.",
    why="A kernel that works on one architecture may have no image for another, or too little"
    " shared memory there: a run on this card says nothing of that one.",
    mend="Run the gate on the server's machine; `installed` without `arch` takes the GPU at hand.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
