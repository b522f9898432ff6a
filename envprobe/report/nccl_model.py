"""What the renderers of a log get."""

from __future__ import annotations

import dataclasses

from envprobe.checks.finding import Severity
from envprobe.checks.nccl.context import Context
from envprobe.checks.registry import Result
from envprobe.checks.verdict import Verdict


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """A log, judged; with `exit_zero` the process ends with 0 whatever the verdict says."""

    context: Context
    result: Result
    verdict: Verdict
    fail_on: Severity = Severity.ERROR
    exit_zero: bool = False
