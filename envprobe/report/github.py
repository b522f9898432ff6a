"""The report as annotations of GitHub Actions: one workflow command a line.

Escapes are those of actions/toolkit packages/core/src/command.ts: `%`, CR and LF in the message,
`:` and `,` too in a property. What was passed is not told; the last line is the verdict.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe import redact
from envprobe.checks.finding import Severity
from envprobe.errors import Exit
from envprobe.report.outlet import Outcome, Outlet, Told

_LEVELS: Final = {Outcome.FAILS: "error", Outcome.UNKNOWN: "error"}
_MESSAGE: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY: Final = {**_MESSAGE, **str.maketrans({":": "%3A", ",": "%2C"})}
_MAX_MESSAGE: Final = 4000
"""Characters of one annotation: GitHub cuts it at 4 KiB, and a cut escape would be shown."""


def render(outlet: Outlet) -> str:
    """Return a line for each finding, then one for the verdict."""
    lines = [_finding(told) for subject in outlet.subjects for told in subject.told]
    level = "notice" if outlet.verdict.exit is Exit.HOLDS or outlet.exit_zero else "error"
    return "".join(f"{line}\n" for line in (*lines, _command(level, "envprobe", outlet.summary)))


def failure(message: str, remedy: str, code: Exit) -> str:
    """Return the annotation for a run that made no report."""
    told = f"{message}\n{remedy}".rstrip()
    return _command("error", f"envprobe (exit {int(code)})", told) + "\n"


def _finding(told: Told) -> str:
    level = _LEVELS.get(told.outcome)
    if level is None:
        accepted = told.outcome in (Outcome.ACCEPTED, Outcome.IGNORED)
        weak = accepted or told.severity is Severity.INFO
        level = "notice" if weak else "warning"
    sure = "could not tell" if told.outcome is Outcome.UNKNOWN else told.outcome.value
    title = f"{told.check.id} {told.check.slug} ({sure})"
    return _command(level, title, "\n".join(_whole(told.lines)))


def _whole(lines: tuple[str, ...]) -> Iterator[str]:
    """Yield as many lines as one annotation holds."""
    left = _MAX_MESSAGE
    for line in lines:
        left -= len(line) + 3
        if left < 0:
            yield f"{line[: _MAX_MESSAGE // 4]}..."
            return
        yield line


def _command(level: str, title: str, message: str) -> str:
    title, message = redact.without_commands(title), redact.without_commands(message)
    return f"::{level} title={title.translate(_PROPERTY)}::{message.translate(_MESSAGE)}"
