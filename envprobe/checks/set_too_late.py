"""The check `set-too-late`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import expected
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.checks.outcomes import Status

_REMEDY = (
    "Put {name} right before the process starts: in the unit's Environment=, exported before the"
    " command, or in the parent before it spawns its workers, not in code that the worker runs"
    " itself; then restart the server."
)


def _run(context: Context) -> Iterator[Finding]:
    yield from expected.findings(context, Status.TOO_LATE, CHECK.slug, CHECK.severity, _REMEDY)


CHECK = Check(
    id="EP007",
    slug="set-too-late",
    severity=Severity.ERROR,
    summary="A variable is right now, but was not when it was read.",
    why="Some variables are read once, when the process starts or when a library is loaded:"
    " PYTHONPATH and PYTHONHASHSEED by the interpreter, LD_* by the loader, MALLOC_* by the C"
    " library, OMP_NUM_THREADS by the OpenMP library. Set later, they look right in every listing"
    " and have no effect.",
    mend="Set the variable before the process starts: in the unit's Environment=, exported before"
    " the command, or in the parent before it spawns its workers. Code in the worker, and a"
    " sitecustomize.py, come too late for these variables.",
    run=_run,
)
