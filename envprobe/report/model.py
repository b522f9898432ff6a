"""What a renderer gets: the judged scans and how they are to be shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from envprobe.checks.finding import Context, Severity
from envprobe.checks.registry import Result
from envprobe.checks.verdict import Verdict
from envprobe.config import Config
from envprobe.errors import Exit, decide
from envprobe.model import Snapshot
from envprobe.routes.types import Routing


@dataclasses.dataclass(frozen=True, slots=True)
class Scan:
    """One snapshot, judged."""

    context: Context
    result: Result
    verdict: Verdict

    @property
    def routing(self) -> Routing:
        """The routes of the snapshot."""
        return self.context.routing

    @property
    def snapshot(self) -> Snapshot:
        """The facts."""
        return self.context.routing.snapshot


@dataclasses.dataclass(frozen=True, slots=True)
class Presentation:
    """How a report is shown: what is revealed, which rows, how wide, in colour or not.

    `patterns` are those of `--var`; `width` is in terminal cells.
    """

    unmask: bool = False
    show_all: bool = False
    patterns: tuple[str, ...] = ()
    width: int = 80
    color: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """Everything that one run found, for every renderer alike.

    With `exit_zero` the process ends with 0 whatever `exit` says.
    """

    scans: tuple[Scan, ...]
    config: Config
    fail_on: Severity = Severity.ERROR
    exit_zero: bool = False

    @property
    def exit(self) -> Exit:
        """The exit code of all scans together."""
        return decide(scan.verdict.exit for scan in self.scans)

    @property
    def counts(self) -> dict[str, int]:
        """The number of findings of each kind, of all scans together."""
        return added(scan.verdict.counts for scan in self.scans)


def added(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    """Return counts of the same kinds, added up."""
    total: dict[str, int] = {}
    for one in counts:
        for kind, number in one.items():
            total[kind] = total.get(kind, 0) + number
    return total
