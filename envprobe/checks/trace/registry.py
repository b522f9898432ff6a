"""The checks of `trace-sitecustomize` in their order."""

from __future__ import annotations

from typing import Final

from envprobe.checks.finding import Check
from envprobe.checks.trace import (
    bytecode_suspect,
    hook_changes_interpreter,
    hook_disabled,
    hook_ends_interpreter,
    hook_newer_than_process,
    hook_not_in_children,
    hook_raised,
    hook_shadowed,
    hook_silent,
    hook_slow,
    hook_starts_processes,
    hook_unreadable,
    hook_uses_gpu,
    hook_without_code,
    memory_disagrees,
    next_child_differs,
    own_interpreter,
    patch_not_installed,
    path_entry_odd,
    sandbox_not_reproduced,
    start_inferred,
    start_not_traced,
    startup_file_failed,
    trace_and_walk_disagree,
    winner_unexpected,
)

CHECKS: Final[tuple[Check, ...]] = (
    start_not_traced.CHECK,
    winner_unexpected.CHECK,
    hook_raised.CHECK,
    hook_silent.CHECK,
    hook_ends_interpreter.CHECK,
    hook_shadowed.CHECK,
    hook_disabled.CHECK,
    hook_without_code.CHECK,
    startup_file_failed.CHECK,
    bytecode_suspect.CHECK,
    path_entry_odd.CHECK,
    hook_unreadable.CHECK,
    hook_not_in_children.CHECK,
    patch_not_installed.CHECK,
    hook_slow.CHECK,
    hook_uses_gpu.CHECK,
    hook_starts_processes.CHECK,
    hook_changes_interpreter.CHECK,
    trace_and_walk_disagree.CHECK,
    own_interpreter.CHECK,
    start_inferred.CHECK,
    hook_newer_than_process.CHECK,
    memory_disagrees.CHECK,
    next_child_differs.CHECK,
    sandbox_not_reproduced.CHECK,
)
"""A new check is added at the end: ids never change their meaning."""
