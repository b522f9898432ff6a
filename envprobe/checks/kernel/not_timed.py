"""The check `kernel-not-timed`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.kernel.about import devices, ending, found, named
from envprobe.kernel.facts import Device, KernelFacts, Stage


def _run(facts: KernelFacts) -> Iterator[Finding]:
    for device in devices(facts):
        why = _why(device)
        if why:
            wanted = facts.question.timed
            yield found(
                CHECK,
                f"How fast it is on {named(device)} is not judged: {why}.",
                who=named(device),
                severity=Severity.ERROR if wanted else Severity.INFO,
                undetermined=wanted,
            )


def _why(device: Device) -> str:
    if device.untimed or device.unpaired:
        return device.untimed or f"SGLang's own kernel cannot be imported: {device.unpaired}"
    if device.stage is Stage.TIME and device.failure is not None:
        return f"an error while it was measured: {device.failure}"
    if device.stage is Stage.TIME and device.ended is not None:
        return f"the process ended with {ending(device.ended)} while it was measured"
    if device.stage is Stage.TIME and not device.done:
        return "it did not end while it was measured"
    called = device.in_class
    return called.untimed if called is not None else ""


CHECK = Check(
    id="EP407",
    slug="kernel-not-timed",
    severity=Severity.ERROR,
    summary="There is no verdict on how fast a kernel is.",
    why="Other processes on the card, too little free memory for inputs larger than its cache, or"
    " no SGLang to compare with: a number would mean nothing. It is an info unless --time asks for"
    " a verdict.",
    mend="Run it on a card that nobody else uses, with an interpreter that has SGLang"
    " (--python P).",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
