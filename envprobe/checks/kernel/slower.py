"""The check `kernel-slower`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.kernel.about import devices, found, named
from envprobe.checks.kernel.driven import judgeable
from envprobe.kernel.facts import Device, KernelFacts, Timing
from envprobe.model import Confidence


def _run(facts: KernelFacts) -> Iterator[Finding]:
    for device in devices(facts):
        if not device.untimed:
            yield from _of(device, device.timings, "bundled", "triton", "The bundled kernel")
        called = device.in_class
        if called is not None and called.timing is not None and judgeable(called):
            who = f"{called.functions[0]}" if called.functions else "The patched class"
            yield from _of(device, (called.timing,), "asked", "own", who)


def _of(
    device: Device, timings: tuple[Timing, ...], ours: str, theirs: str, who: str
) -> Iterator[Finding]:
    slower = [one for one in timings if _slower(one, ours, theirs)]
    if slower:
        known = device.neighbours_known
        yield found(
            CHECK,
            f"{who} is slower than SGLang's own on {named(device)}, for {len(slower)} shapes.",
            who=named(device),
            evidence=[
                f"{one.shape}: {one.microseconds[ours]:.1f} us, SGLang's own"
                f" {one.microseconds[theirs]:.1f} us"
                for one in slower
            ],
            confidence=Confidence.PROVED if known else Confidence.INFERRED,
        )


def _slower(one: Timing, ours: str, theirs: str) -> bool:
    times = one.microseconds
    return ours in times and theirs in times and times[ours] > times[theirs]


CHECK = Check(
    id="EP406",
    slug="kernel-slower",
    severity=Severity.WARNING,
    summary="A kernel takes longer than the one it replaces.",
    why="Both were measured in the same run on the same inputs: medians of CUDA graph replays whose"
    " inputs are not in the second level cache. A patch that makes a server slower is best left"
    " off.",
    mend="Leave the patch off for this card, or report the numbers.",
    run=_run,
)
