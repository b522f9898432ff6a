"""The check `unstable-tree`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Context, Finding, Severity, Undetermined
from envprobe.model import Sentence


def _run(context: Context) -> Iterator[Finding]:
    snapshot = context.routing.snapshot
    if snapshot.stable:
        return
    yield Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(
            f"The tree still changed after {snapshot.scans} scans: processes that started or ended"
            " meanwhile may be missing from this report."
        ),
        pids=snapshot.roots,
        remedy=Sentence.of(
            "Scan again once the server has started; --wait N waits for N workers that have their"
            " titles."
        ),
        undetermined=True,
    )


CHECK = Check(
    id="EP019",
    slug="unstable-tree",
    severity=Severity.WARNING,
    summary="The set of processes kept changing during the scan.",
    why="While a server starts, processes come and go faster than they can be read. A worker that"
    " appeared after the last look is not in the report.",
    mend="Scan again once the server has started, or use --wait N.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
