"""The check `hook-newer-than-process`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.trace.about import TraceContext, found
from envprobe.startup.traced import Answer
from envprobe.startup.types import FileFacts

_SLACK_SECONDS: Final = 0.02
"""A start is known to a clock tick."""


def _run(context: TraceContext) -> Iterator[Finding]:
    target = context.traced.target
    if target is None:
        return
    told: set[str] = set()
    for answer in context.traced.answers:
        for file in _files(answer):
            late = file.changed is not None and file.changed > target.started + _SLACK_SECONDS
            if late and file.path not in told:
                told.add(file.path)
                what = f"{file.path} has changed since: it is not what that process loaded"
                yield found(CHECK, context, answer, what)


def _files(answer: Answer) -> Iterator[FileFacts]:
    walk = answer.startup.walk
    if walk is None:
        return
    for one in walk.candidates:
        if one.file.path == answer.startup.hook(one.module).path:
            yield one.file
    yield from (file.file for file in walk.files if file.lines)


CHECK = Check(
    id="EP122",
    slug="hook-newer-than-process",
    severity=Severity.WARNING,
    summary="A hook was changed after the process started.",
    why="The process has loaded what was there before. The trace shows what the file does "
    "now, which the next start will run.",
    mend="Restart the server so that it loads the file as it is now.",
    run=_run,
)
