"""What the renderers of `unit` get."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from typing import Final

from envprobe import redact
from envprobe.checks.finding import Severity
from envprobe.checks.registry import Result
from envprobe.checks.unit.about import UnitContext
from envprobe.checks.verdict import Verdict
from envprobe.launch.steps import Mode, Python

_QUOTED: Final = frozenset(" \t\n'\"")


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """Everything that one run found; with `exit_zero` the process ends with 0 in any case."""

    context: UnitContext
    result: Result
    verdict: Verdict
    allow_unknown: frozenset[str] = frozenset()
    fail_on: Severity = Severity.ERROR
    exit_zero: bool = False


def command(argv: Sequence[str], limit: int) -> str:
    """Return a command line whose words can be told apart, its credentials masked."""
    words = (
        one if one and not _QUOTED & set(one) else shlex.quote(one)
        for one in redact.mask_words(argv)
    )
    return redact.show_text(" ".join(words), limit)


def program(python: Python) -> str:
    """Return what an interpreter is told to run, in words."""
    if python.mode is Mode.COMMAND:
        return "the text of -c"
    return (
        "what its input says"
        if python.mode is Mode.STDIN
        else f"{python.mode.value} {python.target}"
    )
