"""The check `hook-ends-interpreter`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.trace.about import TraceContext, found
from envprobe.startup.result import Outcome

_ENCODING: Final = (
    "Save the file as UTF-8: up to CPython 3.12 one other byte in a .pth file ends every start."
)


def _run(context: TraceContext) -> Iterator[Finding]:
    for answer in context.traced.answers:
        for hook in answer.startup.hooks:
            if hook.outcome in (Outcome.ENDED, Outcome.STOPPED):
                at = hook.raised
                where = f" ({at.file}:{at.line})" if at is not None and at.file else ""
                yield found(
                    CHECK,
                    context,
                    answer,
                    f"{hook.path or hook.name} does not let the interpreter start:"
                    f" {hook.reason}{where}",
                    remedy=_ENCODING if "UnicodeDecodeError" in hook.reason else "",
                )


CHECK = Check(
    id="EP105",
    slug="hook-ends-interpreter",
    severity=Severity.ERROR,
    summary="A hook ends or blocks the interpreter.",
    why="Every Python program with this environment ends or hangs before its first line: the "
    "server, its workers, pip, and every script that inherits PYTHONPATH.",
    mend="Remove what ends or blocks it (sys.exit, os._exit, a wait for a lock or the network) "
    "from the hook. A hook must never be able to stop the interpreter.",
    run=_run,
)
