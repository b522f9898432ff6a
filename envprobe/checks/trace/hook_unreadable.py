"""The check `hook-unreadable`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.trace.about import TraceContext, found
from envprobe.startup.traced import Answer
from envprobe.startup.types import EntryState


def _run(context: TraceContext) -> Iterator[Finding]:
    for answer in context.traced.answers:
        walk = answer.startup.walk
        # Of what only the trace cannot read `start-not-traced` speaks.
        if walk is None or answer.blind:
            continue
        for one in walk.candidates:
            if not one.file.readable:
                yield _finding(context, answer, one.file.path)
        for entry in walk.entries:
            if entry.state is EntryState.UNREADABLE:
                told = f"{entry.path}, an entry of sys.path ({entry.origin.value}),"
                yield _finding(context, answer, told)


def _finding(context: TraceContext, answer: Answer, told: str) -> Finding:
    return found(
        CHECK, context, answer, f"{told} cannot be read by the user that Python is started as"
    )


CHECK = Check(
    id="EP112",
    slug="hook-unreadable",
    severity=Severity.ERROR,
    summary="A hook, or a directory on sys.path, cannot be read with the rights of this process.",
    why="A hook that cannot be read raises PermissionError at each start; one in a directory "
    "that cannot be read is not found at all, and the next one runs instead.",
    mend="Give the user of the server the right to read the file and to search its directories "
    "(chmod a+rX), then run the command again as that user.",
    run=_run,
)
