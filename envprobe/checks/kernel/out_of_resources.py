"""The check `kernel-out-of-resources`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.kernel.about import Outcome, failures, found, named
from envprobe.kernel.facts import Device, KernelFacts


def _run(facts: KernelFacts) -> Iterator[Finding]:
    for device, failure in failures(facts, Outcome.OUT_OF_RESOURCES):
        yield found(
            CHECK,
            f"{named(device)} has too little of something for one block of the kernel.",
            who=named(device),
            evidence=(str(failure), *_wants(device)),
        )


def _wants(device: Device) -> Iterator[str]:
    if device.card is None:
        return
    yield f"a block may have {device.card.shared_limit} bytes of shared memory on this card"
    for name, one in device.kernels.items():
        yield f"{name} wants {one.shared} bytes of it, and {one.registers} registers a thread"


CHECK = Check(
    id="EP403",
    slug="kernel-out-of-resources",
    severity=Severity.ERROR,
    summary="A block of the kernel needs more shared memory or registers than the card gives.",
    why="A kernel that was tuned on a card with 227 KiB of shared memory a block does not start on"
    " one with 99 KiB (sm_86, sm_89, sm_120): every call fails.",
    mend="Use smaller tiles or fewer pipeline stages on this card, or fewer threads a block.",
    run=_run,
)
