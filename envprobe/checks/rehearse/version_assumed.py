"""The check `framework-version-assumed`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.rehearse.about import RehearseContext, found
from envprobe.model import Confidence
from envprobe.rehearsal import frameworks


def _run(context: RehearseContext) -> Iterator[Finding]:
    for rehearsed, one in context.told():
        python = one.start.declared.python
        if one.version or one.first is None or python is None:
            continue
        framework = frameworks.of(one.plan.framework.value, python)
        if not framework.distribution:
            continue
        told = f"{framework.distribution} is not installed for this interpreter, or does not say"
        told += f" its version: what {framework.newest} sets and starts was rehearsed."
        yield found(CHECK, rehearsed, told, confidence=Confidence.INFERRED)


CHECK = Check(
    id="EP515",
    slug="framework-version-assumed",
    severity=Severity.INFO,
    summary="The framework's version is not known: that of the newest known one was rehearsed.",
    why="Which variables a framework writes, and which of its processes start the workers, has"
    " changed between versions.",
    mend="Rehearse with the interpreter that the framework is installed for.",
    run=_run,
)
