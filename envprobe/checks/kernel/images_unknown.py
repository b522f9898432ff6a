"""The check `images-unknown`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.kernel.about import found
from envprobe.kernel.facts import KernelFacts


def _run(facts: KernelFacts) -> Iterator[Finding]:
    several = len(facts.libraries) > 1
    for one in facts.libraries:
        if one.problem:
            told = f"Not all code of {one.name} could be read: {one.problem}."
        elif one.units or (several and any(other.units for other in facts.libraries)):
            continue
        else:
            told = f"{one.name} has no GPU code where compilers put it."
        yield found(CHECK, told, who=one.name, undetermined=True)


CHECK = Check(
    id="EP417",
    slug="images-unknown",
    severity=Severity.WARNING,
    summary="The GPU code of a library could not be read, or none is where it is looked for.",
    why="Compilers put images into the section .nv_fatbin. A library may load its kernels from"
    " other files, or compile them when it runs; and a damaged or packed file shows nothing.",
    mend="Name the file that holds the kernels: `envprobe kernel --archs-of` takes shared objects,"
    " cubins, fat binaries and wheels.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
