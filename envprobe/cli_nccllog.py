"""Logs of NCCL for the command line: read with a bar, and joined to a scan."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from envprobe.model import Process, Snapshot
    from envprobe.nccl.facts import Log

_PROGRESS_FROM: Final = 50 << 20
"""Bytes of all files together from which on a progress bar is shown."""


def read(names: tuple[str, ...]) -> Log:
    """Read the logs; on a terminal a bar shows how far large ones have come."""
    from envprobe.nccl import log, streams

    paths = streams.expand(names)
    size = sum(os.path.getsize(path) for path in paths if os.path.isfile(path))
    if size < _PROGRESS_FROM or not sys.stderr.isatty():
        return log.read(paths)
    with _bar(size) as tell:
        return log.read(paths, tell)


@contextlib.contextmanager
def _bar(size: int) -> Iterator[Callable[[str, int], None]]:
    """Show a bar on stderr, and yield what tells it how many bytes of a file were read."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=size)
        done: dict[str, int] = {}

        def tell(name: str, bytes_read: int) -> None:
            done[name] = bytes_read
            progress.update(task, completed=sum(done.values()))

        yield tell


def with_logs(snapshot: Snapshot, names: tuple[str, ...], deadline: float) -> Snapshot:
    """Return a scan with what NCCL's logs say of its workers.

    `names` are the logs that the user named; without any each worker's own is looked for. Raises
    UsageError where a named one cannot be read.
    """
    if not names and not any(one.role.worker and _has_nccl(one) for one in snapshot.processes):
        # Slow to import: a server without NCCL is spared that.
        return snapshot
    from envprobe.nccl import livelogs
    from envprobe.nccl.join import Source

    named = None
    if names:
        found = read(names)
        files = [one.name for one in found.files if os.path.isfile(one.name)]
        written = {name: os.stat(name).st_mtime for name in files}
        named = Source(found, written, asked=True)
    joined = livelogs.with_logs(snapshot.processes, named, deadline)
    return dataclasses.replace(snapshot, processes=joined)


def _has_nccl(process: Process) -> bool:
    """Return whether a process has NCCL loaded, or names a log for one that is linked in."""
    from envprobe.model import View

    loaded = process.libraries is not None and bool(process.libraries.nccl)
    return loaded or "NCCL_DEBUG_FILE" in process.environment(View.LIBC).entries
