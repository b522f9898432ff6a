"""The check `variable-changed-by-framework`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from envprobe.checks import framework_wrote
from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.rehearse.about import RehearseContext
from envprobe.checks.rehearse.scans import declared


def _run(context: RehearseContext) -> Iterator[Finding]:
    for finding in declared(context, framework_wrote.CHECK.run):
        if any(one.change.value != "appeared" for one in finding.breaks):
            yield dataclasses.replace(finding, check=CHECK.slug, severity=CHECK.severity)


CHECK = Check(
    id="EP507",
    slug="variable-changed-by-framework",
    severity=Severity.WARNING,
    summary="The framework itself would write over a value that the definition sets.",
    why="SGLang, vLLM and others write some variables whatever the user has set (SGLang sets"
    " CUDA_DEVICE_MAX_CONNECTIONS in every server). Which ones follows from its version and"
    " options; the rehearsal has set them in its place.",
    mend="Use the framework's own option for it, or take the variable out of the definition: it has"
    " no effect there.",
    run=_run,
)
