"""The checks of `gate` in their order."""

from __future__ import annotations

from typing import Final

from envprobe.checks.finding import Check
from envprobe.checks.gate import (
    hook_not_as_expected,
    hook_ruled_out,
    kernel_not_installed,
    kernel_not_judged,
    kernel_other_gpu,
    nothing_decided,
    rehearsal_not_judged,
    startup_not_judged,
)

CHECKS: Final[tuple[Check, ...]] = (
    nothing_decided.CHECK,
    startup_not_judged.CHECK,
    rehearsal_not_judged.CHECK,
    kernel_not_judged.CHECK,
    hook_ruled_out.CHECK,
    hook_not_as_expected.CHECK,
    kernel_other_gpu.CHECK,
    kernel_not_installed.CHECK,
)
"""A new check is added at the end: ids never change their meaning."""
