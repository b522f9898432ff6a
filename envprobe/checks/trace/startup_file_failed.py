"""The check `startup-file-failed`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.trace.about import TraceContext, found
from envprobe.startup.result import Outcome
from envprobe.startup.types import MODULES


def _run(context: TraceContext) -> Iterator[Finding]:
    for answer in context.traced.answers:
        for hook in answer.startup.hooks:
            if hook.outcome is Outcome.RAISED and hook.name not in MODULES and hook.raised:
                place = f"line {hook.line} of {hook.path}" if hook.line else hook.path
                yield found(
                    CHECK,
                    context,
                    answer,
                    f"{place} raised {hook.raised.type}: {hook.raised.message}",
                    evidence=[f"the line: {hook.text}"] if hook.text else [],
                )
        walk = answer.startup.walk
        for file in walk.files if walk is not None else ():
            if file.unreadable:
                told = f"{file.file.path} could not be read ({file.unreadable})"
                yield found(CHECK, context, answer, told)


CHECK = Check(
    id="EP109",
    slug="startup-file-failed",
    severity=Severity.ERROR,
    summary="A line of a .pth or .start file raised an exception, or the file could not be read.",
    why="The interpreter goes on with exit code 0. Up to CPython 3.14 the rest of that .pth "
    "file is not read; from 3.15 on the other lines still run. What the file should have "
    "set up is missing in every process.",
    mend="Mend the line, or reinstall the package that the file belongs to. On CPython 3.15 "
    "and later use a .start file with an entry point.",
    run=_run,
)
