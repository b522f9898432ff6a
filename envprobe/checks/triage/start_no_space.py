"""The check `start-no-space`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.triage.about import TriageContext, of_cause, saying


def _run(context: TriageContext) -> Iterator[Finding]:
    yield from of_cause(CHECK, context, saying("no space is left"))


CHECK = Check(
    id="EP618",
    slug="start-no-space",
    severity=Severity.ERROR,
    summary="A disk, a quota or /dev/shm is full.",
    why="Caches of compiled kernels, models and core dumps fill disks. A container has 64 MiB of"
    " /dev/shm unless --shm-size or --ipc=host says otherwise, and NCCL and torch need more.",
    mend="Look at `df -h` for the directory and for /dev/shm, as the server sees them; give a"
    " container --shm-size.",
    run=_run,
)
