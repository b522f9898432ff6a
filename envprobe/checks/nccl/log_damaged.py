"""The check `nccl-log-damaged`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.nccl.context import Context
from envprobe.model import Sentence
from envprobe.nccl.facts import DamageKind

_LOST: Final = {
    DamageKind.CUT: "cut before their end",
    DamageKind.TAIL: "without their beginning",
    DamageKind.LONG: "cut at NCCL's own limit of 1024 bytes",
    DamageKind.NO_PREFIX: "without host and pid",
    DamageKind.DEDUPLICATED: "standing for others that Ray left out",
    DamageKind.INCOMPLETE: "broken off at the end of a file",
}
"""What is lost; glued lines that were split, and cut ones that were joined, are whole again."""


def _run(context: Context) -> Iterator[Finding]:
    counts = context.log.damage_counts
    lost = [f"{counts[kind]} {words}" for kind, words in _LOST.items() if counts.get(kind)]
    if lost:
        first = next(one for one in context.log.damage if one.kind in _LOST)
        yield Finding(
            check=CHECK.slug,
            severity=CHECK.severity,
            message=Sentence.of(f"Lines of NCCL were damaged on their way: {', '.join(lost)}."),
            evidence=(Sentence.of(f"The first is {first.place.file}:{first.place.line}."),),
            remedy=Sentence.of(CHECK.mend),
        )
    for file in context.log.files:
        if file.broken:
            yield Finding(
                check=CHECK.slug,
                severity=CHECK.severity,
                message=Sentence.of(
                    f"{file.name} could not be read to its end: {file.broken}."
                    " What follows in it is not judged."
                ),
                remedy=Sentence.of("Give a whole copy of the file."),
                undetermined=True,
                who=file.name,
            )
    dropped = [f"{number} {kind}" for kind, number in context.log.left_out.items()]
    if dropped:
        yield Finding(
            check=CHECK.slug,
            severity=Severity.WARNING,
            message=Sentence.of(f"Too much to keep: {', '.join(dropped)} were left out."),
            remedy=Sentence.of("Give fewer files at once."),
        )


CHECK = Check(
    id="EP219",
    slug="nccl-log-damaged",
    severity=Severity.INFO,
    summary="Lines of the log are damaged, or were left out.",
    why="NCCL writes to a pipe in blocks of 4096 bytes, so that lines of several processes are cut"
    " and glued; Ray leaves equal lines of other processes out.",
    mend="Run with PYTHONUNBUFFERED=1 or NCCL_DEBUG_FILE=/tmp/nccl.%h.%p, and under Ray with"
    " RAY_DEDUP_LOGS=0.",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
