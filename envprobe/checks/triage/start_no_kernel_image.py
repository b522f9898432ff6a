"""The check `start-no-kernel-image`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.triage.about import TriageContext, of_cause, saying


def _run(context: TriageContext) -> Iterator[Finding]:
    yield from of_cause(CHECK, context, saying("the code does not fit the GPU or its driver"))


CHECK = Check(
    id="EP605",
    slug="start-no-kernel-image",
    severity=Severity.ERROR,
    summary="A CUDA kernel was not built for this GPU, or its driver is too old for it.",
    why="A wheel holds machine code for a list of architectures. A GPU that is not among"
    " them can run only PTX that its driver can translate; else the first launch fails,"
    " at start or at the first request.",
    mend="Install a build of the package for this architecture, or a newer driver. `envprobe"
    " kernel` builds and runs the bundled kernel on this GPU.",
    run=_run,
)
