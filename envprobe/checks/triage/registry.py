"""The checks of `triage` in their order."""

from __future__ import annotations

from typing import Final

from envprobe.checks.finding import Check
from envprobe.checks.triage import (
    start_argument_refused,
    start_cause_unknown,
    start_gpu_missing,
    start_hook_failed,
    start_limit_hit,
    start_model_missing,
    start_module_missing,
    start_nccl_failed,
    start_no_kernel_image,
    start_no_space,
    start_out_of_memory,
    start_permission_denied,
    start_port_in_use,
    start_program_not_run,
    start_reimports_main,
    start_stopped,
    start_timed_out,
    start_worker_died,
)

CHECKS: Final[tuple[Check, ...]] = (
    start_reimports_main.CHECK,
    start_hook_failed.CHECK,
    start_argument_refused.CHECK,
    start_module_missing.CHECK,
    start_no_kernel_image.CHECK,
    start_out_of_memory.CHECK,
    start_nccl_failed.CHECK,
    start_port_in_use.CHECK,
    start_permission_denied.CHECK,
    start_limit_hit.CHECK,
    start_timed_out.CHECK,
    start_worker_died.CHECK,
    start_program_not_run.CHECK,
    start_cause_unknown.CHECK,
    start_stopped.CHECK,
    start_gpu_missing.CHECK,
    start_model_missing.CHECK,
    start_no_space.CHECK,
)
"""A new check is added at the end: ids never change their meaning."""
