"""What the renderers of `unit` get."""

from __future__ import annotations

import dataclasses

from envprobe.checks.finding import Severity
from envprobe.checks.registry import Result
from envprobe.checks.unit.about import UnitContext
from envprobe.checks.verdict import Verdict


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """Everything that one run found; with `exit_zero` the process ends with 0 in any case."""

    context: UnitContext
    result: Result
    verdict: Verdict
    allow_unknown: frozenset[str] = frozenset()
    fail_on: Severity = Severity.ERROR
    exit_zero: bool = False
