"""The check `nccl-not-as-expected`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import nccl_expected, who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.checks.nccl_expected import Outcome, Status
from envprobe.model import Confidence, Sentence, Shown

_BROKEN = (Status.OTHER, Status.FORBIDDEN, Status.REFUSED, Status.MISREAD)
_SAID = {
    Status.OTHER: "and something else is expected",
    Status.FORBIDDEN: "and is to read no such variable",
    Status.REFUSED: "and does not use it",
    Status.MISREAD: "which is not what the expected text means",
}


def _run(context: Context) -> Iterator[Finding]:
    broken = [one for one in context.once(nccl_expected.outcomes) if one.status in _BROKEN]
    groups = who.folded(
        broken,
        lambda one: (one.expectation, one.status, one.hop.reading.value if one.hop else None),
    )
    for group in groups.values():
        yield _finding(context, group)


def _finding(context: Context, group: list[Outcome]) -> Finding:
    one = group[0]
    name = one.expectation.name
    pids = tuple(dict.fromkeys(each.pid for each in group))
    assert one.hop is not None
    reading = one.hop.reading
    value = () if reading.value is None else (Shown(name, reading.value),)
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(
            f"NCCL in {who.in_words(context, pids)} says that it read {name}=",
            *value,
            f", {_SAID[one.status]}.",
        ),
        confidence=reading.confidence,
        pids=pids,
        variable=name,
        evidence=tuple(_evidence(one)),
        remedy=Sentence.of(CHECK.mend),
    )


def _evidence(one: Outcome) -> Iterator[Sentence]:
    if one.expectation.values:
        values: list[str | Shown] = []
        for value in one.expectation.values:
            values += [" or " if values else "Expected: ", Shown(one.expectation.name, value)]
        yield Sentence.of(*values, f" ({one.expectation.origin}).")
    if one.hop is not None:
        yield Sentence.of(f"Shown in {one.hop.reading.source}.")
        if one.hop.reading.confidence is Confidence.INFERRED:
            yield Sentence.of("Which process of the log it is was inferred.")
        yield from one.hop.origin


CHECK = Check(
    id="EP036",
    slug="nccl-not-as-expected",
    severity=Severity.ERROR,
    summary="NCCL in a worker read another value than [expect.nccl] asks for.",
    why="Only NCCL's log says what NCCL has read: a value that reached the process can be replaced"
    " by a configuration file or a plugin, come too late, or be read as something else (8M as 8)."
    " Ranks that differ in some of them compute wrong sums or hang.",
    mend="See the finding's evidence for where the value is from; the routes show where the"
    " expected one was lost. `envprobe nccl LOG` judges the whole log.",
    run=_run,
)
