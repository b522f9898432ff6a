"""All checks of a log of NCCL, in their order."""

from __future__ import annotations

from typing import Final

from envprobe.checks.finding import Check
from envprobe.checks.nccl import (
    conf_file,
    environment_not_logged,
    failure,
    ll128_forced,
    log_damaged,
    no_communicator,
    no_effect,
    not_completed,
    not_shown,
    ranks_differ,
    ranks_differ_critical,
    ranks_differ_default,
    ranks_missing,
    set_elsewhere,
    unexpected_value,
    unread_name,
    value_misread,
    value_odd,
    value_refused,
    versions_differ,
)

CHECKS: Final[tuple[Check, ...]] = (
    no_communicator.CHECK,
    ranks_missing.CHECK,
    environment_not_logged.CHECK,
    ranks_differ_critical.CHECK,
    ranks_differ.CHECK,
    ranks_differ_default.CHECK,
    value_refused.CHECK,
    value_misread.CHECK,
    unexpected_value.CHECK,
    not_shown.CHECK,
    unread_name.CHECK,
    value_odd.CHECK,
    ll128_forced.CHECK,
    conf_file.CHECK,
    set_elsewhere.CHECK,
    not_completed.CHECK,
    failure.CHECK,
    versions_differ.CHECK,
    log_damaged.CHECK,
    no_effect.CHECK,
)
"""A new check is added at the end: ids never change their meaning."""
