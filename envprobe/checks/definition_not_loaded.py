"""The check `definition-not-loaded`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import behind
from envprobe.checks.finding import Check, Context, Finding, Severity


def _run(context: Context) -> Iterator[Finding]:
    told, _, _ = context.once(behind.changes)
    if told is not None:
        yield behind.finding(CHECK, context, told)


CHECK = Check(
    id="EP040",
    slug="definition-not-loaded",
    severity=Severity.ERROR,
    summary="The unit of the server was edited after its manager loaded it.",
    why="The routes start at what the unit's files say now. systemd reads them when it is told to:"
    " the server has what was loaded before, and a restart alone would hand over the same again.",
    mend="Run `systemctl daemon-reload`, then restart the unit.",
    run=_run,
)
