"""The check `kernel-launch-failed`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.kernel.about import (
    Outcome,
    class_crashed,
    crashed,
    devices,
    ending,
    failures,
    found,
    named,
)
from envprobe.kernel.facts import Device, KernelFacts, Stage
from envprobe.model import Confidence


def _run(facts: KernelFacts) -> Iterator[Finding]:
    for device, failure in failures(facts, Outcome.LAUNCH_FAILED):
        yield found(
            CHECK,
            f"The kernel failed on {named(device)}{_at(device)}.",
            who=named(device),
            evidence=(str(failure), *((failure.where,) if failure.where else ())),
        )
    for device in devices(facts):
        run = facts.run
        assert run is not None
        code = device.ended
        if class_crashed(device.in_class):
            assert device.in_class is not None
            code = device.in_class.ended
        if code is not None and (crashed(device) or class_crashed(device.in_class)):
            yield found(
                CHECK,
                f"The process ended with {ending(code)} while the kernel ran on"
                f" {named(device)}{_at(device)}.",
                who=named(device),
                evidence=(f"its last words: {run.said}",) if run.said else (),
            )
        elif device.stage is Stage.GRID and not device.done and run.problem and not device.failure:
            yield found(
                CHECK,
                f"The kernel did not end on {named(device)}{_at(device)}: {run.problem}.",
                who=named(device),
                confidence=Confidence.INFERRED,
            )


def _at(device: Device) -> str:
    called = device.in_class
    shape = device.at
    if called is not None and called.calling and (called.problem or called.ended):
        shape = called.calling.partition(" ")[2]
    return f" at the shape {shape}" if shape else ""


CHECK = Check(
    id="EP404",
    slug="kernel-launch-failed",
    severity=Severity.ERROR,
    summary="The kernel could not be started, or failed while it ran.",
    why="An illegal address, an illegal instruction or a crash makes the context of the whole"
    " process unusable: in a server every rank ends.",
    mend="Run the shape that is named under `compute-sanitizer --tool memcheck`, and leave the"
    " patch off until it is mended.",
    run=_run,
)
