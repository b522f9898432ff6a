"""The check `start-out-of-memory`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.triage.about import TriageContext, of_cause, saying


def _run(context: TriageContext) -> Iterator[Finding]:
    yield from of_cause(CHECK, context, saying("memory ran out"))


CHECK = Check(
    id="EP606",
    slug="start-out-of-memory",
    severity=Severity.ERROR,
    summary="The GPU, the host or the control group ran out of memory.",
    why="On the GPU another process holds memory, or weights, KV cache and graphs together"
    " are too large. On the host or in the control group the kernel ends a process by"
    " signal 9, which leaves no traceback; other workers then fail because their peer is"
    " gone.",
    mend="On the GPU: lower --mem-fraction-static or --gpu-memory-utilization, and see with"
    " nvidia-smi who else holds memory. On the host: look at MemoryMax= and at the"
    " kernel's log.",
    run=_run,
)
