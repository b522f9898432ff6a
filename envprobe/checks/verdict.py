"""The verdict on one scan: its exit code and counts, and whether waiting any longer can help."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable

from envprobe.checks import (
    hooked,
    library_missing,
    nccl_expected,
    no_workers,
    patched,
    who,
    worker_unreadable,
    workers_missing,
)
from envprobe.checks.finding import Context, Severity
from envprobe.checks.outcomes import Status, outcomes, without_process
from envprobe.checks.registry import Result
from envprobe.errors import Exit, decide
from envprobe.model import EnvironmentStatus, View


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """The exit code of a scan and the number of findings of each kind.

    `counts` has the keys error, warning and info (findings that could be judged), undetermined,
    accepted (undetermined, but allowed by --allow-unknown) and ignored.
    """

    exit: Exit
    counts: dict[str, int]


def judge(context: Context, result: Result, fail_on: Severity = Severity.ERROR) -> Verdict:
    """Return the verdict on all findings: 0 only with evidence from every worker.

    A finding at or above `fail_on` gives 1, one that is undetermined 3 unless its check is in
    `allow_unknown`, a root that ended during the scan 4; `errors.decide` chooses among several.
    """
    others = []
    if not _has_evidence(context):
        others.append(Exit.UNDETERMINED)
    if _root_is_gone(context):
        others.append(Exit.TARGET_GONE)
    return of_findings(result, context.config.allow_unknown, fail_on, others)


def of_findings(
    result: Result,
    allow_unknown: Container[str],
    fail_on: Severity = Severity.ERROR,
    others: Iterable[Exit] = (),
) -> Verdict:
    """Return the verdict that follows from findings, and from `others`: outcomes without one.

    The caller adds `Exit.UNDETERMINED` to `others` where no evidence was found: 0 needs some.
    """
    judged = [one for one in result.findings if not one.undetermined]
    unknown = [one for one in result.findings if one.undetermined]
    accepted = [one for one in unknown if one.check in allow_unknown]
    counts = {severity.value: 0 for severity in reversed(Severity)}
    for finding in judged:
        counts[finding.severity.value] += 1
    counts["undetermined"] = len(unknown) - len(accepted)
    counts["accepted"] = len(accepted)
    counts["ignored"] = len(result.ignored)
    outcomes = {Exit.HOLDS, *others}
    if any(finding.severity.rank >= fail_on.rank for finding in judged):
        outcomes.add(Exit.FINDING)
    if counts["undetermined"]:
        outcomes.add(Exit.UNDETERMINED)
    return Verdict(decide(outcomes), counts)


def _has_evidence(context: Context) -> bool:
    """Return whether every required fact was read, or its absence accepted, whatever checks say."""
    allowed = context.config.allow_unknown
    workers = who.workers(context)
    if not workers:
        return no_workers.CHECK.slug in allowed
    if worker_unreadable.CHECK.slug in allowed:
        return True
    # With expectations the required facts are those of the expectations: see `env-unknown`.
    enough = {EnvironmentStatus.COMPLETE}
    if context.config.expectations:
        enough.add(EnvironmentStatus.PARTIAL)
    return all(one.environment(View.LIBC).status in enough for one in workers)


def _root_is_gone(context: Context) -> bool:
    roots = [who.process_of(context, pid) for pid in context.routing.snapshot.roots]
    return bool(roots) and all(root is None or root.ended for root in roots)


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """How far a server has come: what --wait shows while it waits.

    `counts` maps each awaited role ("": any worker) to how many are there and how many should be;
    `undecided` holds the variables, questions, hooks and libraries of the expectations that are not
    decided in some process, and may be after another scan.
    """

    counts: dict[str, tuple[int, int]]
    undecided: tuple[str, ...]

    @property
    def decided(self) -> bool:
        """Whether all awaited workers are there and every expectation is decided."""
        enough = all(have >= wanted for have, wanted in self.counts.values())
        return enough and not self.undecided


def progress(context: Context) -> Progress:
    """Return how far the server has come; only processes whose role is final are counted.

    Without an expected number one worker is awaited.
    """
    wanted = context.config.workers or {"": 1}
    counts = {
        role: (len(workers_missing.found(context, role)), number) for role, number in wanted.items()
    }
    # What was read and yet leaves open what was there at the start stays open.
    unknown = [
        one.expectation.name
        for one in context.once(outcomes)
        if one.status is Status.UNKNOWN and not one.reading.known
    ]
    missing = [one.name for one in context.once(without_process)]
    inside = [*patched.undecided(context), *hooked.undecided(context)]
    outside = [*nccl_expected.undecided(context), *library_missing.undecided(context)]
    return Progress(counts, tuple(dict.fromkeys((*unknown, *missing, *inside, *outside))))


def decided(context: Context) -> bool:
    """Return whether all awaited workers are there and every expectation is decided."""
    return progress(context).decided
