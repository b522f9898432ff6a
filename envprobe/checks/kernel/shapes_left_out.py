"""The check `shapes-left-out`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.kernel.about import devices, found, named
from envprobe.kernel.facts import KernelFacts

_MIB: Final = 1 << 20


def _run(facts: KernelFacts) -> Iterator[Finding]:
    for device in devices(facts):
        if device.skipped:
            yield found(
                CHECK,
                f"{len(device.skipped)} shapes were left out on {named(device)}: they take more"
                f" than {facts.question.memory // _MIB} MiB of the card.",
                who=named(device),
                evidence=[
                    f"{shape} takes {-(-need // _MIB)} MiB"
                    for shape, need in device.skipped.items()
                ],
            )


CHECK = Check(
    id="EP418",
    slug="shapes-left-out",
    severity=Severity.INFO,
    summary="Not all shapes were compared with the reference: memory was not allowed for all.",
    why="By default no more than 1 GiB of a card is taken, so that a check can run beside a server."
    " The long prefixes need more.",
    mend="Give --memory 4GiB where nobody else uses the card.",
    run=_run,
)
