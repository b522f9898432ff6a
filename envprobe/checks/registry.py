"""All checks in their order, and running them."""

from __future__ import annotations

import dataclasses
from typing import Final

from envprobe.checks import (
    block_wiped,
    changed_on_the_way,
    duplicate_variable,
    env_forbidden,
    env_missing,
    env_unknown,
    env_wrong_value,
    exec_view_inferred,
    framework_wrote,
    lost_on_the_way,
    no_workers,
    orphan_worker,
    peers_differ,
    peers_differ_critical,
    peers_differ_default,
    set_late_unproven,
    set_too_late,
    unstable_tree,
    worker_unreadable,
    worker_vanished,
    workers_missing,
)
from envprobe.checks.finding import Check, Context, Finding
from envprobe.config import did_you_mean
from envprobe.errors import UsageError

CHECKS: Final[tuple[Check, ...]] = (
    no_workers.CHECK,
    worker_unreadable.CHECK,
    env_missing.CHECK,
    env_wrong_value.CHECK,
    env_forbidden.CHECK,
    env_unknown.CHECK,
    set_too_late.CHECK,
    set_late_unproven.CHECK,
    peers_differ_critical.CHECK,
    peers_differ.CHECK,
    peers_differ_default.CHECK,
    lost_on_the_way.CHECK,
    changed_on_the_way.CHECK,
    framework_wrote.CHECK,
    duplicate_variable.CHECK,
    orphan_worker.CHECK,
    workers_missing.CHECK,
    worker_vanished.CHECK,
    unstable_tree.CHECK,
    exec_view_inferred.CHECK,
    block_wiped.CHECK,
)
"""A new check is added at the end: ids never change their meaning."""


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """What all checks found.

    `findings` count, the worst first; `ignored` are those that [ignore] keeps apart, each with the
    reason given there. "Could not tell" is never ignored: only --allow-unknown accepts it.
    """

    findings: tuple[Finding, ...]
    ignored: tuple[tuple[Finding, str], ...] = ()


def find(id_or_slug: str) -> Check:
    """Return the check with this id (in any case) or slug; UsageError with a suggestion."""
    for check in CHECKS:
        if id_or_slug.lower() in (check.id.lower(), check.slug):
            return check
    known = [check.slug for check in CHECKS]
    if id_or_slug[:2].lower() == "ep" and id_or_slug[2:].isdecimal():
        known = [check.id for check in CHECKS]
        id_or_slug = id_or_slug.upper()
    raise UsageError(f"there is no check {id_or_slug!r}", did_you_mean(id_or_slug, known))


def slug_of(id_or_slug: str) -> str:
    """Return the slug of the check with this id or slug; UsageError with a suggestion."""
    return find(id_or_slug).slug


def run_all(context: Context) -> Result:
    """Return the findings of all checks, those of [ignore] kept apart."""
    found = [finding for check in CHECKS for finding in check.run(context)]
    ignore = context.config.ignore
    kept = [one for one in found if one.undetermined or one.check not in ignore]
    ignored = [one for one in found if not one.undetermined and one.check in ignore]
    # The sort is stable: findings of one severity stay in the order of CHECKS.
    kept.sort(key=lambda one: -one.severity.rank)
    return Result(tuple(kept), tuple((one, ignore[one.check]) for one in ignored))
