"""The check `kernel-wrong-result`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.kernel.about import devices, found, named
from envprobe.checks.kernel.driven import judgeable
from envprobe.kernel.facts import Device, Errors, KernelFacts

_SHOWN: Final = 6


def _run(facts: KernelFacts) -> Iterator[Finding]:
    for device in devices(facts):
        yield from _of(device, (*device.compared, *_timed(device)), "The bundled kernel")
        called = device.in_class
        if called is None or not judgeable(called):
            continue
        who = f"{called.functions[0]}" if called.functions else "The patched class"
        yield from _of(device, called.asked, who)
        lost = [one.shape for one in called.asked if not one.stored]
        if lost:
            yield found(
                CHECK,
                f"{who} leaves the new keys out of the pool on {named(device)}.",
                who=named(device),
                evidence=(f"at {', '.join(lost[:_SHOWN])}",),
                remedy="Write k and v into the pool as SGLang's own function does when"
                " save_kv_cache is true: later steps read them.",
            )


def _of(device: Device, rows: Iterable[Errors], who: str) -> Iterator[Finding]:
    wrong = [one for one in rows if one.wrong or not one.part <= 1]
    if wrong:
        yield found(
            CHECK,
            f"{who} computes wrong results on {named(device)}, for {len(wrong)} shapes.",
            who=named(device),
            evidence=[_told(one) for one in wrong[:_SHOWN]],
        )


def _timed(device: Device) -> Iterator[Errors]:
    """Yield the errors of what the bundled kernel computed while it was timed."""
    for one in device.timings:
        if "bundled" in one.part:
            yield Errors(one.shape, 0.0, 0.0, one.part["bundled"], 0)


def _told(one: Errors) -> str:
    worst = f"{one.shape}: the worst element is {one.part:.3g} times what is allowed off"
    if not one.wrong:
        return f"{worst}, while it was timed"
    return (
        f"{worst}, {one.wrong} elements are wrong (largest error {one.absolute:.3g}, of a row's"
        f" norm {one.relative:.3g})"
    )


CHECK = Check(
    id="EP405",
    slug="kernel-wrong-result",
    severity=Severity.ERROR,
    summary="A kernel computes something else than the reference in fp32.",
    why="A server with a wrong attention kernel answers, and answers wrongly. What is allowed is"
    " 2^-8 (sum of p |v| + |out|) + 1e-6 an element: twice what rounding probabilities and output"
    " to bfloat16 explains.",
    mend="Leave the patch off, and compare call by call with ENVPROBE_KERNEL=validate.",
    run=_run,
)
