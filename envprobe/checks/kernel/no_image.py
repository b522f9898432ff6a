"""The check `kernel-no-image`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.kernel.about import Outcome, devices, failures, found, named
from envprobe.kernel.facts import KernelFacts


def _run(facts: KernelFacts) -> Iterator[Finding]:
    for device, failure in failures(facts, Outcome.NO_IMAGE):
        yield found(
            CHECK,
            f"No code for {named(device)}: the driver found no image that this card runs.",
            who=named(device),
            evidence=(str(failure),),
        )
    for device in devices(facts):
        if device.stopped is not None and device.stopped.reason == "too-old":
            yield found(
                CHECK,
                f"No code for {named(device)}: the bundled kernel needs compute capability 8.0.",
                who=named(device),
                evidence=(device.stopped.text,),
                remedy="Leave the patch off on this machine: ENVPROBE_KERNEL=off.",
            )


CHECK = Check(
    id="EP402",
    slug="kernel-no-image",
    severity=Severity.ERROR,
    summary="A card finds no code for itself in the kernel.",
    why="The first call in a server ends with `no kernel image is available for execution on the"
    " device`. Machine code runs within one major compute capability only, and PTX only where the"
    " driver can compile it.",
    mend="Build the kernel for this card. `envprobe kernel --archs-of LIB.so` shows for which ones"
    " a library was built.",
    run=_run,
)
