"""The check `orphan-worker`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks import who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.model import Sentence

_SHOWN: Final = 120
"""How many characters of an identifier are shown: it comes from the process."""


def _run(context: Context) -> Iterator[Finding]:
    orphans = [one for one in context.routing.snapshot.processes if one.orphan]
    if not orphans:
        return
    pids = tuple(process.pid for process in orphans)
    run_ids = sorted({process.run_id for process in orphans if process.run_id})
    yield Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(
            f"{who.in_words(context, pids)}: left behind by a launch whose launcher is gone;"
            " not counted among the workers."
        ),
        pids=pids,
        evidence=tuple(
            [
                Sentence.of(f"{who.named(context, one.pid)} is now a child of PID {one.ppid}.")
                for one in orphans[: who.NAMED]
            ]
            + [
                Sentence.of(f"Its SGLANG_RUN_ID is {run_id[:_SHOWN]}.")
                for run_id in run_ids[: who.NAMED]
            ]
        ),
        remedy=Sentence.of(
            "If no server needs them any more, end them (they hold GPU memory and ports):"
            f" `kill {' '.join(str(pid) for pid in pids)}`."
        ),
    )


CHECK = Check(
    id="EP016",
    slug="orphan-worker",
    severity=Severity.WARNING,
    summary="A worker outlived the launch that started it.",
    why="The launcher is gone and init or a subreaper has adopted the worker. It keeps GPU memory"
    " and ports, and it has the environment of the earlier start; taken for a worker of the new"
    " server it would give a wrong verdict.",
    mend="Check that no server uses it, then end it yourself with `kill`. envprobe never ends"
    " processes.",
    run=_run,
)
