"""What was read inside a Python process in the words that the text and the JSON report share."""

from __future__ import annotations

import os
from collections.abc import Iterator

from envprobe.pythonfacts import DiskState, FileFact, PythonFact
from envprobe.report.labels import clock


def resolved(python: PythonFact, cwd: str | None) -> Iterator[tuple[str, str | None]]:
    """Yield each entry of sys.path, and where it leads; None if that is not known."""
    for entry in python.path:
        if entry.startswith("/"):
            yield entry, entry
        else:
            yield entry, None if cwd is None else os.path.normpath(os.path.join(cwd, entry))


def sentence(fact: FileFact, started: float) -> str:
    """Return what there is to say of a file of code; "" where nothing has changed."""
    if fact.state is DiskState.UNCHANGED:
        return ""
    runs = f"the process runs what was there at {clock(started)}, when it started"
    if fact.state is DiskState.MISSING:
        return f"{fact.path} is not there any more: {runs}, or later when it imported it"
    if fact.state is DiskState.UNREADABLE:
        return f"whether {fact.path} has changed is not known: {fact.reason}"
    at = clock(fact.changed or 0.0)
    return (
        f"{fact.path} was changed at {at}: {runs}, the disk has another (unless it was imported "
        "after the change)"
    )
