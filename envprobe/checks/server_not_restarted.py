"""The check `server-not-restarted`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import behind
from envprobe.checks.finding import Check, Context, Finding, Severity


def _run(context: Context) -> Iterator[Finding]:
    _, told, _ = context.once(behind.changes)
    if told is not None:
        yield behind.finding(CHECK, context, told)


CHECK = Check(
    id="EP041",
    slug="server-not-restarted",
    severity=Severity.ERROR,
    summary="The unit is loaded as it is, but its server was started before it was changed.",
    why="A loaded unit says what the next start hands over; a process keeps what it was started"
    " with. The restart was never done, or one was tried and the old process stayed: the finding"
    " says which, as far as the state of the unit tells it.",
    mend="Restart the unit; if one was tried, look at what `systemctl status` and the journal say"
    " of it first.",
    run=_run,
)
