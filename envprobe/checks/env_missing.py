"""The check `env-missing`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import expected
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.checks.outcomes import Status

_REMEDY = (
    "Set {name} before the first process of the server starts (in the unit's Environment=, or"
    " exported in the shell before the command), not in a program that has already started its"
    " workers; then restart the server."
)


def _run(context: Context) -> Iterator[Finding]:
    yield from expected.findings(context, Status.MISSING, CHECK.slug, CHECK.severity, _REMEDY)


CHECK = Check(
    id="EP003",
    slug="env-missing",
    severity=Severity.ERROR,
    summary="A variable that is expected is absent in a worker.",
    why="The worker runs without the setting. For NCCL that is silent: a rank without"
    " NCCL_BUFFSIZE can return wrong sums, a rank without NCCL_PROTO or NCCL_ALGO hangs at the"
    " first all-reduce, and no message names the variable.",
    mend="Read where the variable was lost: the break names the last view that had it and the"
    " first that did not, with every cause that fits. Set the variable before the first process"
    " of the server starts (in the unit's Environment=, or exported in the shell before the"
    " command), and restart the server.",
    run=_run,
)
