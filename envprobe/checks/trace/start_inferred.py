"""The check `start-inferred`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.trace.about import TraceContext, found
from envprobe.model import Confidence
from envprobe.startup.types import Asked

_OF_PROCESS: Final = "what this process was started with is inferred"
_OF_DECLARED: Final = "what this start is handed is not known as a whole"


def _run(context: TraceContext) -> Iterator[Finding]:
    for answer in context.traced.answers:
        for question in answer.questions:
            # Of AGAIN `memory-disagrees` speaks.
            inferred = question.confidence is Confidence.INFERRED
            if inferred and question.asked is not Asked.AGAIN:
                told, evidence = _OF_PROCESS, [question.reason]
                if answer.start is not None:
                    evidence = list(answer.start.gaps)
                    told = f"{_OF_DECLARED}: {evidence[0]}"
                    told += f" (and {len(evidence) - 1} more)" if len(evidence) > 1 else ""
                one = found(CHECK, context, answer, told, evidence=evidence)
                yield dataclasses.replace(one, confidence=Confidence.INFERRED)


CHECK = Check(
    id="EP121",
    slug="start-inferred",
    severity=Severity.INFO,
    summary="What the process was, or would be, started with could only be inferred.",
    why="setproctitle has overwritten the block that the kernel keeps of the environment at "
    "exec, and the live environment stands in for it; or the interpreter has been moved; or "
    "PYTHONPATH has a relative entry, and the directory may have been another one. What was "
    "changed since makes a difference. A unit file does not say what its manager hands over, and "
    "some variables are known only once the unit is started.",
    mend="Start the server with SPT_NOENV=1 next time, which keeps setproctitle out of this block, "
    "by an interpreter that stays in its place, and with absolute paths in PYTHONPATH. Name a "
    "unit, not its file, on the machine that it runs on.",
    run=_run,
)
