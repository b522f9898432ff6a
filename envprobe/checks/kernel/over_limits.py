"""The check `kernel-over-limits`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.kernel.about import found
from envprobe.kernel.facts import Compiled, KernelFacts

_SPILLS: Final = 128
"""A few registers that are stored once outside the loop cost nothing that can be measured."""


def _run(facts: KernelFacts) -> Iterator[Finding]:
    for one in facts.compile_only.compiled if facts.compile_only is not None else ():
        broken = list(_broken(one))
        if broken:
            yield found(
                CHECK,
                f"Compiled for {one.architecture}, the kernel breaks its limits.",
                who=str(one.architecture),
                evidence=broken,
            )
        spilling = list(_spilling(one))
        if spilling:
            yield found(
                CHECK,
                f"Compiled for {one.architecture}, the kernel spills registers into memory.",
                who=str(one.architecture),
                evidence=spilling,
                severity=Severity.WARNING,
            )


def _broken(one: Compiled) -> Iterator[str]:
    for name, kernel in one.kernels.items():
        if kernel.shared > one.shared_limit:
            yield f"{name} wants {kernel.shared} bytes of shared memory, of {one.shared_limit}"
    if one.forbidden:
        yield f"it holds instructions that sm_120 lacks: {', '.join(one.forbidden)}"
    if one.driver_calls:
        yield f"it calls into the driver: {', '.join(one.driver_calls)}"


def _spilling(one: Compiled) -> Iterator[str]:
    for name, kernel in one.kernels.items():
        if (kernel.spill_stores or 0) > _SPILLS:
            yield f"{name} stores {kernel.spill_stores} bytes a thread for lack of registers"


CHECK = Check(
    id="EP411",
    slug="kernel-over-limits",
    severity=Severity.ERROR,
    summary="The compiled kernel needs what some card that it is for does not have.",
    why="A block of sm_86, sm_89 and sm_120 has 99 KiB of shared memory, and sm_120 has no wgmma,"
    " no tcgen05 and no cluster multicast. More than 128 bytes of spilled registers a thread are a"
    " warning: they cost time in the loop.",
    mend="Report it: the bundled kernel is meant to keep these limits with every compiler.",
    run=_run,
)
