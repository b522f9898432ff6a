"""The check `peers-differ-default`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import peerfindings
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.checks.peers import Kind

_REMEDY = (
    "Nothing is wrong now. Set {name} in all workers or in none, so that another default in a later"
    " version does not make the ranks differ."
)


def _run(context: Context) -> Iterator[Finding]:
    yield from peerfindings.findings(context, Kind.DEFAULT, CHECK.severity, _REMEDY)


CHECK = Check(
    id="EP011",
    slug="peers-differ-default",
    severity=Severity.WARNING,
    summary="A variable is absent in some workers and set to its default in others.",
    why="Absent and the default mean the same today. That one worker lacks the variable shows that"
    " it did not get what the others got, and the next value that is not the default will make the"
    " ranks differ.",
    mend="Find out why the variable did not reach these workers (the finding says where it was"
    " lost), and set it in all workers or in none.",
    run=_run,
)
