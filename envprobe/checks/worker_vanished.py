"""The check `worker-vanished`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.model import Sentence


def _run(context: Context) -> Iterator[Finding]:
    snapshot = context.routing.snapshot
    gone = {one.pid: one.role.label for one in snapshot.vanished if one.role.worker}
    gone.update(
        {one.pid: who.name_of(one) for one in snapshot.processes if one.ended and one.role.worker}
    )
    if not gone:
        return
    names = who.listed(f"{name or 'worker'} (PID {pid})" for pid, name in gone.items())
    yield Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(f"{names} ended, or became another program, while it was being read."),
        pids=tuple(gone),
        remedy=Sentence.of(
            "Read the end of the server's log for the reason (out of memory, a failed kernel, a"
            " signal), then scan again."
        ),
    )


CHECK = Check(
    id="EP018",
    slug="worker-vanished",
    severity=Severity.ERROR,
    summary="A worker ended while it was being read.",
    why="A worker that ends during a scan of a second is a server that is crashing, restarting or"
    " being stopped. What was read of the others says little.",
    mend="Read the end of the server's log for the reason, and scan again once the server runs.",
    run=_run,
)
