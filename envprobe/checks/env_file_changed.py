"""The check `env-file-changed`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import behind
from envprobe.checks.finding import Check, Context, Finding, Severity


def _run(context: Context) -> Iterator[Finding]:
    _, _, files = context.once(behind.changes)
    for told in files:
        yield behind.finding(CHECK, context, told)


CHECK = Check(
    id="EP042",
    slug="env-file-changed",
    severity=Severity.ERROR,
    summary="An environment file of the unit was changed after the server was started.",
    why="EnvironmentFile= is read when the service is started, and never again while it runs. No"
    " daemon-reload is needed, and none helps: the workers have what the file said then.",
    mend="Restart the unit.",
    run=_run,
)
