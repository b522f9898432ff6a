"""The check `image-missing`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.kernel.about import found
from envprobe.checks.kernel.images import matches
from envprobe.kernel.facts import KernelFacts


def _run(facts: KernelFacts) -> Iterator[Finding]:
    for one in matches(facts):
        if one.missing == one.units and not one.library.problem:
            carried = ", ".join(
                f"{image.architecture} {image.kind.value}" for image in one.library.counts
            )
            yield found(
                CHECK,
                f"{one.library.name} has no code that {one.device} runs.",
                who=one.library.name,
                evidence=(f"it carries {carried or 'nothing'}",),
            )


CHECK = Check(
    id="EP414",
    slug="image-missing",
    severity=Severity.ERROR,
    summary="A library has no code for the card in question.",
    why="Its first kernel ends with `no kernel image is available for execution on the device`."
    " Machine code runs within one major compute capability, from its minor number on; with the"
    " suffix `a` on that one capability only. PTX is compiled by the driver for later ones.",
    mend="Install a build for this card, or build it with the architecture in its list"
    " (TORCH_CUDA_ARCH_LIST, CMAKE_CUDA_ARCHITECTURES).",
    run=_run,
)
