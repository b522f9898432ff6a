"""The check `start-inferred`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.trace.about import TraceContext, found
from envprobe.model import Confidence


def _run(context: TraceContext) -> Iterator[Finding]:
    for answer in context.traced.answers:
        for question in answer.questions:
            if question.confidence is Confidence.INFERRED:
                told = "what the environment was is inferred from the live one"
                one = found(CHECK, context, answer, told, evidence=[question.reason])
                yield dataclasses.replace(one, confidence=Confidence.INFERRED)


CHECK = Check(
    id="EP121",
    slug="start-inferred",
    severity=Severity.INFO,
    summary="What the process was started with could only be inferred.",
    why="setproctitle has overwritten the block that the kernel keeps of the environment at "
    "exec. The live environment stands in for it: what was set or removed since makes a "
    "difference.",
    mend="Start the server with SPT_NOENV=1 next time, which keeps setproctitle out of this block.",
    run=_run,
)
