"""The check `image-by-driver`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.kernel.about import found
from envprobe.checks.kernel.images import matches
from envprobe.kernel.facts import KernelFacts


def _run(facts: KernelFacts) -> Iterator[Finding]:
    for one in matches(facts):
        if one.by_driver:
            yield found(
                CHECK,
                f"{one.by_driver} of {one.units} units of {one.library.name} have only PTX for"
                f" {one.device}: the driver must compile it.",
                who=one.library.name,
            )


CHECK = Check(
    id="EP416",
    slug="image-by-driver",
    severity=Severity.WARNING,
    summary="A library runs on the card in question only by code that the driver compiles.",
    why="The first start takes minutes, the result lies in a cache (CUDA_CACHE_PATH) that a"
    " container may lose, and a driver older than the PTX refuses it.",
    mend="Install a build with machine code for this card, or keep the cache.",
    run=_run,
)
