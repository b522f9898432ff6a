"""The checks of `kernel` in their order."""

from __future__ import annotations

from typing import Final

from envprobe.checks.finding import Check
from envprobe.checks.kernel import (
    class_not_run,
    image_by_driver,
    image_missing,
    image_partly_missing,
    images_unknown,
    installed,
    launch_failed,
    no_image,
    not_compiled,
    not_driven,
    not_run,
    not_taken,
    not_timed,
    out_of_resources,
    over_limits,
    shapes_left_out,
    slower,
    wrong_result,
)

CHECKS: Final[tuple[Check, ...]] = (
    not_run.CHECK,
    no_image.CHECK,
    out_of_resources.CHECK,
    launch_failed.CHECK,
    wrong_result.CHECK,
    slower.CHECK,
    not_timed.CHECK,
    class_not_run.CHECK,
    not_taken.CHECK,
    not_compiled.CHECK,
    over_limits.CHECK,
    installed.CHECK,
    not_driven.CHECK,
    image_missing.CHECK,
    image_partly_missing.CHECK,
    image_by_driver.CHECK,
    images_unknown.CHECK,
    shapes_left_out.CHECK,
)
"""A new check is added at the end: ids never change their meaning."""
