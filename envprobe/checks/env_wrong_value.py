"""The check `env-wrong-value`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import expected
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.checks.outcomes import Status

_REMEDY = (
    "Correct {name} where the server is started (the unit's Environment=, the shell that exports"
    " it, or the launch option that makes the framework write it), or correct the expectation;"
    " then restart the server."
)


def _run(context: Context) -> Iterator[Finding]:
    yield from expected.findings(context, Status.WRONG, CHECK.slug, CHECK.severity, _REMEDY)


CHECK = Check(
    id="EP004",
    slug="env-wrong-value",
    severity=Severity.ERROR,
    summary="A variable has another value in a worker than the one that is expected.",
    why="Something between the place where the value was set and the worker replaced it: a launch"
    " script, a start-up hook, or the framework itself (SGLang always sets"
    " CUDA_DEVICE_MAX_CONNECTIONS, and NCCL_ALGO with --enable-deterministic-inference).",
    mend="Read where the value changed, and whether a known writer explains it. If the framework"
    " writes it, use the framework's option instead of the variable, or expect the framework's"
    " value. Else correct the value where the server is started, and restart the server.",
    run=_run,
)
