"""The checks of `rehearse` in their order."""

from __future__ import annotations

from typing import Final

from envprobe.checks.finding import Check
from envprobe.checks.rehearse import (
    forkserver_early,
    hook_initialised_cuda,
    hook_not_run,
    hook_raised,
    hook_started,
    not_reproduced,
    passive_disagrees,
    patch_not_applied,
    process_failed,
    rehearsal_storm,
    scans,
    target_not_importable,
    variable_changed,
    variable_lost,
    variable_overridden,
    version_assumed,
)

CHECKS: Final[tuple[Check, ...]] = (
    rehearsal_storm.CHECK,
    process_failed.CHECK,
    hook_not_run.CHECK,
    hook_raised.CHECK,
    variable_lost.CHECK,
    variable_changed.CHECK,
    variable_overridden.CHECK,
    target_not_importable.CHECK,
    patch_not_applied.CHECK,
    hook_initialised_cuda.CHECK,
    hook_started.CHECK,
    forkserver_early.CHECK,
    not_reproduced.CHECK,
    passive_disagrees.CHECK,
    version_assumed.CHECK,
)
"""A new check is added at the end: ids never change their meaning."""

KNOWN: Final = (*CHECKS, *scans.SHARED)
"""All checks whose findings a rehearsal may have."""


def running() -> tuple[Check, ...]:
    """Return all checks, each running on a RehearseContext."""
    return (*CHECKS, *scans.adapted())
