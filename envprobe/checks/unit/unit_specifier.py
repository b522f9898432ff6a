"""The check `unit-specifier`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.unit.about import UnitContext, of_remark
from envprobe.launch.types import Kind

_OWN_PERCENT = "NCCL_DEBUG_FILE"
"""NCCL replaces %h and %p in it itself: by host and pid."""


def _run(context: UnitContext) -> Iterator[Finding]:
    for definition, remark in context.remarks((Kind.SPECIFIER,)):
        severity = Severity.ERROR if remark.name == _OWN_PERCENT else Severity.INFO
        yield of_remark(CHECK, definition, remark, severity)


CHECK = Check(
    id="EP304",
    slug="unit-specifier",
    severity=Severity.ERROR,
    summary="systemd replaces a percent sign and the letter behind it in a value.",
    why="%h is the home directory of the manager's user and %p the unit's name, not NCCL's host and"
    " pid: NCCL_DEBUG_FILE=/var/log/nccl.%h.%p.log in a unit is one file for all ranks, in a"
    " directory that may not exist.",
    mend="Write %% for each percent sign that the program is to see.",
    run=_run,
)
