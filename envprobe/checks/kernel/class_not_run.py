"""The check `kernel-class-not-run`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.kernel.about import found, judged_by_word, named
from envprobe.checks.kernel.driven import undriven
from envprobe.kernel.facts import KernelFacts


def _run(facts: KernelFacts) -> Iterator[Finding]:
    if facts.question.installed is not None or facts.run is None:
        return
    for device in facts.run.devices:
        called = device.in_class
        if called is None or judged_by_word(called):
            continue
        why = undriven(facts.run, device)
        if called.step == "import" and called.problem is not None:
            why = f"SGLang's class cannot be imported: {called.problem}"
        if why:
            wanted = facts.question.in_class
            yield found(
                CHECK,
                f"The patch was not called in SGLang's real class on {named(device)}: {why}.",
                who=named(device),
                severity=Severity.ERROR if wanted else Severity.INFO,
                undetermined=wanted,
            )


CHECK = Check(
    id="EP408",
    slug="kernel-class-not-run",
    severity=Severity.ERROR,
    summary="The patch could not be called in SGLang's real class.",
    why="The kernel itself was run; that the patched class calls it is then shown by the running"
    " server only. It is an info unless --in-class asks for it.",
    mend="Name an interpreter that has SGLang with --python P. In a running server `envprobe"
    " inspect --pid PID kernel_ext.counters:taken` shows whether the kernel is called.",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
