"""The check `orphan-worker`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks import who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.model import Confidence, Process, Sentence

_SHOWN: Final = 120
"""How many characters of an identifier are shown: it comes from the process."""

_LISTED: Final = 20
"""How many processes the command of the remedy names."""


def _run(context: Context) -> Iterator[Finding]:
    snapshot = context.routing.snapshot
    roots = {one.uid for one in who.processes(context, snapshot.roots)}
    orphans = [one for one in snapshot.processes if one.orphan]
    # Those of other users are no leftovers of this server.
    groups = who.folded(orphans, lambda one: not roots or one.uid in roots)
    for near, together in groups.items():
        yield _finding(context, together, CHECK.severity if near else Severity.INFO)


def _finding(context: Context, orphans: list[Process], severity: Severity) -> Finding:
    pids = tuple(process.pid for process in orphans)
    return Finding(
        check=CHECK.slug,
        severity=severity,
        message=Sentence.of(
            f"{who.in_words(context, pids)}: probably left behind by a launch whose launcher is"
            " gone; not counted among the workers."
        ),
        confidence=Confidence.INFERRED,
        pids=pids,
        evidence=tuple(_evidence(context, orphans)),
        remedy=Sentence.of(_remedy(pids)),
    )


def _evidence(context: Context, orphans: list[Process]) -> Iterator[Sentence]:
    for one in orphans[: who.NAMED]:
        yield Sentence.of(
            f"{who.named(context, one.pid)} is now a child of PID {one.ppid} and runs as user"
            f" {one.uid}."
        )
    for run_id in sorted({one.run_id for one in orphans if one.run_id})[: who.NAMED]:
        yield Sentence.of(f"Its SGLANG_RUN_ID is {run_id[:_SHOWN]}.")


def _remedy(pids: tuple[int, ...]) -> str:
    first = ",".join(str(pid) for pid in pids[:_LISTED])
    more = f" (and {len(pids) - _LISTED} more)" if len(pids) > _LISTED else ""
    return (
        f"Look first at what they are: `ps -o pid,ppid,user,lstart,cmd -p {first}`{more}. A server"
        " that was started with nohup, setsid or by a program that has ended looks the same. Does a"
        " server still need them? Only if none does, end them: they hold GPU memory and ports."
    )


CHECK = Check(
    id="EP016",
    slug="orphan-worker",
    severity=Severity.WARNING,
    summary="A worker seems to have outlived the launch that started it.",
    why="The launcher is gone and init or a subreaper has adopted the worker. It keeps GPU memory"
    " and ports, and it has the environment of the earlier start; taken for a worker of the new"
    " server it would give a wrong verdict. One that runs as another user than the server is only"
    " noted (info).",
    mend="Look with ps when it was started and by whom, and whether a server still needs it: one"
    " whose starter has ended looks the same. Only then end it yourself; envprobe never ends"
    " processes.",
    run=_run,
)
