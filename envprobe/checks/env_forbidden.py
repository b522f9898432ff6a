"""The check `env-forbidden`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import expected
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.checks.outcomes import Status

_REMEDY = (
    "Remove {name} where it is set: `unset {name}` in the shell before the command, or"
    " UnsetEnvironment={name} in the unit; then restart the server."
)


def _run(context: Context) -> Iterator[Finding]:
    yield from expected.findings(context, Status.FORBIDDEN, CHECK.slug, CHECK.severity, _REMEDY)


CHECK = Check(
    id="EP005",
    slug="env-forbidden",
    severity=Severity.ERROR,
    summary="A variable that must be absent is set in a worker.",
    why="A setting from an earlier experiment, a profile or an image is still in force, such as"
    " NCCL_P2P_DISABLE=1 on a machine whose peer-to-peer path works. Being set and empty counts"
    " as set.",
    mend="Read from which view on the variable is there; remove it at that place (unset in the"
    " shell, UnsetEnvironment= in the unit), and restart the server.",
    run=_run,
)
