"""The check `image-partly-missing`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.kernel.about import found
from envprobe.checks.kernel.images import matches
from envprobe.kernel.facts import KernelFacts


def _run(facts: KernelFacts) -> Iterator[Finding]:
    for one in matches(facts):
        if 0 < one.missing < one.units:
            yield found(
                CHECK,
                f"{one.missing} of {one.units} units of {one.library.name} have no code that"
                f" {one.device} runs.",
                who=one.library.name,
            )


CHECK = Check(
    id="EP415",
    slug="image-partly-missing",
    severity=Severity.INFO,
    summary="Some translation units of a library have no code for the card in question.",
    why="That is usual for kernels that only a newer card can run, which the library then does not"
    " call. If it does call one, it ends with `no kernel image is available`.",
    mend="Compare with a library that works on this card; --format json lists the images.",
    run=_run,
)
