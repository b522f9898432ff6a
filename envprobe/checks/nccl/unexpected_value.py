"""The check `nccl-unexpected-value`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.nccl import expected
from envprobe.checks.nccl.context import Context, pids
from envprobe.checks.nccl.expected import Outcome, Status
from envprobe.model import Confidence, Sentence, Shown

_KINDS = (Status.OTHER, Status.ABSENT, Status.PRESENT)


def _run(context: Context) -> Iterator[Finding]:
    for group in expected.grouped(context, _KINDS):
        yield _finding(context, group)


def _finding(context: Context, group: tuple[Outcome, ...]) -> Finding:
    one = group[0]
    absent = one.status is Status.ABSENT
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(*_message(context, group)),
        confidence=Confidence.INFERRED if absent else Confidence.PROVED,
        pids=pids(context.process(other.cell.rank) for other in group),
        variable=one.expectation.name,
        evidence=tuple(_evidence(one)),
        remedy=Sentence.of(CHECK.mend),
        who=expected.ranks_in_words(context, group),
    )


def _message(context: Context, group: tuple[Outcome, ...]) -> Iterator[str | Shown]:
    one = group[0]
    name, those = one.expectation.name, expected.ranks_in_words(context, group)
    if one.status is Status.PRESENT:
        yield f"{name} is expected to be absent, and was read in {those}: "
    elif one.status is Status.ABSENT:
        yield f"{name} was not read in {those}, which would have shown it"
    else:
        yield f"{name} was read with another value than expected in {those}: "
    if one.cell.value is not None:
        yield Shown(one.cell.name, one.cell.value)
    yield "."


def _evidence(one: Outcome) -> Iterator[Sentence]:
    if one.expectation.values:
        values: list[str | Shown] = []
        for value in one.expectation.values:
            values += [" or " if values else "Expected: ", Shown(one.expectation.name, value)]
        yield Sentence.of(*values, f" ({one.expectation.origin}).")
    if one.cell.reads:
        place = one.cell.reads[-1].place
        yield Sentence.of(f"Shown in {place.file}:{place.line}.")


CHECK = Check(
    id="EP209",
    slug="nccl-unexpected-value",
    severity=Severity.ERROR,
    summary="A rank did not read the value that is expected of it.",
    why="A setting that did not reach a rank, or that something replaced on the way, does not take"
    " effect there, and where ranks differ NCCL computes wrong sums, hangs or fails.",
    mend="`envprobe workers --pid PID --expect NAME=VALUE` shows at which step a running server"
    " lost or changed it; look in /etc/nccl.conf and ~/.nccl.conf of that node too.",
    run=_run,
)
