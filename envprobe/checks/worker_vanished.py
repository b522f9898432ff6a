"""The check `worker-vanished`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks import who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.model import Confidence, Death, Process, Sentence

_READ_THE_LOG: Final = (
    "Read the end of the server's log for the reason (out of memory, a failed kernel, a signal)"
)


def _run(context: Context) -> Iterator[Finding]:
    yield from _gone(context)
    every = context.routing.snapshot.processes
    dead = [one for one in every if one.death is not None and one.was_worker is not False]
    for group in who.folded(dead, lambda one: (one.ppid, one.death, one.was_worker)).values():
        yield _dead(context, group)


def _gone(context: Context) -> Iterator[Finding]:
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
        remedy=Sentence.of(f"{_READ_THE_LOG}, then scan again."),
    )


def _dead(context: Context, group: list[Process]) -> Finding:
    one, first = len(group) == 1, group[0]
    sure = bool(first.was_worker)
    called = (
        f"{who.name_of(process) if sure else process.comm} (PID {process.pid})" for process in group
    )
    names = who.some(called, who.NAMED)
    is_dead = f"{'is' if one else 'are'} dead (zombie)"
    since = f"{is_dead}, since before the scan"
    if first.death is Death.DURING:
        since = f"died during the scan and {is_dead}"
    doubt = f"; {'it' if one else 'each'} may have been a worker" if not sure else ""
    whose = "its" if one else "their"
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity if sure else Severity.WARNING,
        message=Sentence.of(
            f"{names} {since}: {whose} parent has not collected {'it' if one else 'them'}{doubt}."
        ),
        confidence=Confidence.PROVED if sure else Confidence.INFERRED,
        pids=tuple(process.pid for process in group),
        evidence=tuple(_evidence(context, first)),
        remedy=Sentence.of(
            f"{_READ_THE_LOG}, and start the server again{'' if sure else ' if a worker died'}:"
            " what is dead does not come back."
        ),
    )


def _evidence(context: Context, dead: Process) -> Iterator[Sentence]:
    yield Sentence.of(f"Its parent is {who.named(context, dead.ppid)}.")
    if not dead.title:
        yield Sentence.of(
            f"Its command line is gone; the kernel still shows its name, {dead.comm}."
        )
    if not dead.was_worker:
        yield Sentence.of("A helper, such as an earlier resource tracker, would leave the same.")


CHECK = Check(
    id="EP018",
    slug="worker-vanished",
    severity=Severity.ERROR,
    summary="A worker is dead, or ended while it was being read.",
    why="A worker that ends during a scan of a second is a server that is crashing, restarting or"
    " being stopped: what was read of the others says little. A zombie is a process that has died"
    " and that its parent has not collected: the others wait for it at their next collective."
    " Little is left of it, so a dead child of the launcher that has no title of a worker but may"
    " have been one is a warning.",
    mend="Read the end of the server's log for the reason, and scan again once the server runs.",
    run=_run,
)
