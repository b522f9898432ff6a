"""The check `kernel-not-taken`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.kernel.about import devices, found, named
from envprobe.kernel.facts import InClass, KernelFacts


def _run(facts: KernelFacts) -> Iterator[Finding]:
    for device in devices(facts):
        called = device.in_class
        if called is None or called.interpreted or not _fell_back(called):
            continue
        yield found(
            CHECK,
            f"The patched class did not use the bundled kernel on {named(device)}.",
            who=named(device),
            evidence=(f"the last call fell back: {called.last_reason}",)
            if called.last_reason
            else ("no call of it was counted",),
        )


def _fell_back(called: InClass) -> bool:
    if not called.done:
        return False
    if called.counters:
        return called.counters.get("fallen_back", 0) > 0
    return not called.functions


CHECK = Check(
    id="EP409",
    slug="kernel-not-taken",
    severity=Severity.ERROR,
    summary="The patch is in the class, and its calls go to SGLang's own kernel all the same.",
    why="The result is right then, and nothing is gained: what falls back looks like what works.",
    mend="The evidence has the reason. docs/kernel.md lists what falls back.",
    run=_run,
)
