"""The check `kernel-not-installed`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.gate.about import GateContext
from envprobe.checks.kernel.about import devices
from envprobe.model import Sentence


def _run(context: GateContext) -> Iterator[Finding]:
    expected, facts = context.plan.kernel, context.kernel
    if expected is None or not expected.installed or facts is None:
        return
    classes = [one.in_class for one in devices(facts) if one.in_class is not None]
    own = {one.functions[0] for one in classes if one.functions and not one.patched}
    for function in sorted(own, key=str):
        told = f"{expected.origin} expects a kernel in SGLang's class, which holds its own"
        yield Finding(
            check=CHECK.slug,
            severity=CHECK.severity,
            message=Sentence.of(f"{told} function: {function}."),
            remedy=Sentence.of(CHECK.mend),
            who=function.file,
        )


CHECK = Check(
    id="EP708",
    slug="kernel-not-installed",
    severity=Severity.ERROR,
    summary="`installed = true` is expected of the kernel, and SGLang's class is not patched.",
    why="The server would start, and work without the kernel.",
    mend="`envprobe trace-sitecustomize` says which hook this interpreter runs; [expect.patch] says"
    " in which workers the class must be patched.",
    run=_run,
)
