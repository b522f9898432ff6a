"""The check `set-late-unproven`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from envprobe.checks import who
from envprobe.checks.finding import Check, Context, Finding, Severity, Undetermined
from envprobe.checks.outcomes import Outcome, Status, break_of, exec_reading, outcomes
from envprobe.model import Confidence, Sentence, Shown
from envprobe.routes.types import ReadTime

_READ = {
    ReadTime.FIRST_USE: "it is read at its first use and then kept",
    ReadTime.EACH_COMMUNICATOR: "each communicator reads it when it is made",
}


def _run(context: Context) -> Iterator[Finding]:
    late = [one for one in context.once(outcomes) if one.status is Status.LATE_UNPROVEN]
    for group in who.folded(late, lambda one: (one.expectation, _seen(one))).values():
        yield dataclasses.replace(_finding(context, group), undetermined=context.config.strict)


def _seen(outcome: Outcome) -> bool:
    """Return whether the exec view was read, so that the lateness itself is certain."""
    if outcome.route is None:
        return False
    at_exec = exec_reading(outcome.route)
    return at_exec.known and at_exec.confidence is Confidence.PROVED


def _finding(context: Context, group: list[Outcome]) -> Finding:
    first = group[0]
    name = first.expectation.name
    value = first.reading.value
    read = _READ[first.route.read_time] if first.route and first.route.read_time in _READ else ""
    read = read or "when it is read is not known"
    came = "came only after the start" if _seen(first) else "may have come after the start"
    pids = tuple(one.pid for one in group)
    log = "; or look in NCCL's log (NCCL_DEBUG=INFO) for the value that it read"
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence(
            (
                f"{name} is ",
                "absent" if value is None else Shown(name, value),
                f" in {who.in_words(context, pids)} as expected, but {came}; {read}, so it may have"
                " come too late.",
            )
        ),
        confidence=Confidence.PROVED if _seen(first) else Confidence.INFERRED,
        pids=pids,
        variable=name,
        evidence=(Sentence.of(f"Expected by {first.expectation.origin}."),),
        remedy=Sentence.of(
            f"Set {name} before the process starts (in the unit's Environment=, or exported before"
            f" the command){log if name.startswith('NCCL_') else ''}."
        ),
        breaks=tuple(found for one in group if (found := break_of(one)) is not None),
    )


CHECK = Check(
    id="EP008",
    slug="set-late-unproven",
    severity=Severity.WARNING,
    summary="A variable is right now but came after the start, and may have been read before.",
    why="Most NCCL_* and CUDA_* variables are read at their first use and then kept. A value that"
    " code in the worker sets is in time if it is set before that use; from outside nobody can see"
    " which came first. Only NCCL's log says what NCCL read.",
    mend="Set the variable before the process starts, or prove it with NCCL's log. --strict makes"
    " this finding undetermined (exit code 3).",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
