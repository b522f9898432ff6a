"""The check `nccl-failure`."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

from envprobe import tables
from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.nccl.context import Context, process_words
from envprobe.model import Confidence, Sentence
from envprobe.nccl.facts import Process, WarnLine


def _run(context: Context) -> Iterator[Finding]:
    found: dict[str, tuple[dict[str, Any], list[tuple[Process, WarnLine]]]] = {}
    for process in context.log.processes:
        for line in process.warnings:
            for pattern, row in _rows():
                if pattern.search(line.text):
                    found.setdefault(row["pattern"], (row, []))[1].append((process, line))
                    break
    for row, lines in found.values():
        yield _finding(row, lines)


@functools.cache
def _rows() -> tuple[tuple[re.Pattern[str], dict[str, Any]], ...]:
    rows = tables.load("nccl-failures")["rows"]
    return tuple((re.compile(row["pattern"]), row) for row in rows)


def _finding(row: dict[str, Any], lines: list[tuple[Process, WarnLine]]) -> Finding:
    process, line = lines[0]
    where = f"{line.place.file}:{line.place.line}"
    more = f" and {len(lines) - 1} more" if lines[1:] else ""
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(f"NCCL failed in {process_words(process)}{more}: {row['means']}."),
        # The table says what usually is the cause; the differing ranks have findings of their own.
        confidence=Confidence.INFERRED,
        pids=tuple(dict.fromkeys(one.pid for one, _ in lines if one.pid is not None)),
        evidence=(
            Sentence.of(f"{where}: {line.text}"),
            Sentence.of(f"Source: {row['source']}."),
        ),
        remedy=Sentence.of(CHECK.mend if row["settings"] else ""),
        who=process_words(process),
    )


CHECK = Check(
    id="EP217",
    slug="nccl-failure",
    severity=Severity.ERROR,
    summary="NCCL warned of a failure whose usual cause is known.",
    why="NCCL's own words name what failed and not why: ranks that disagree in a setting end in"
    " errors about messages, rings or CUDA.",
    mend="Mend what the other findings say of ranks that differ; where all agree, look at the"
    " machine.",
    run=_run,
)
