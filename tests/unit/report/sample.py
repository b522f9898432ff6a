"""Judged scans for the renderers: scenes of the checks' tests, run through the real layers."""

from __future__ import annotations

from typing import Any

from envprobe.checks.finding import Severity
from envprobe.checks.registry import run_all
from envprobe.checks.verdict import judge
from envprobe.config import Config
from envprobe.report.model import Report, Scan
from tests.unit.checks.scene import Scene


def report(scene: Scene, *expect: str, fail_on: Severity = Severity.ERROR, **config: Any) -> Report:
    """Return the report on one scene, with expectations as on the command line."""
    context = scene.context(*expect, **config)
    result = run_all(context)
    return Report(
        (Scan(context, result, judge(context, result, fail_on)),), context.config, fail_on
    )


def joined(*reports: Report) -> Report:
    """Return several one-scan reports as one."""
    return Report(tuple(scan for one in reports for scan in one.scans), Config())
