"""Whether the files that a process has loaded its code from are still what it has loaded.

Files are those of the process's own root directory (`rootfs`), so that containers are right.
"""

from __future__ import annotations

import errno
import os
from typing import Final

from envprobe.process import rootfs
from envprobe.process.handle import AccessRefused, ProcessGone, ProcessHandle, Unsupported
from envprobe.pythonfacts import DiskState, FileFact

_MISSING: Final = (errno.ENOENT, errno.ENOTDIR)
_SLACK_TICKS: Final = 2
"""A start is known to a clock tick, and the kernel stamps files with a clock that lags by one."""


class CodeFiles:
    """Looks at files of code as the process would find them now; each look may block."""

    def __init__(self, handle: ProcessHandle, start: float, cwd: str | None) -> None:
        self._handle = handle
        self._cwd = cwd
        self._limit = start + _SLACK_TICKS / os.sysconf("SC_CLK_TCK")

    def look(self, path: str) -> FileFact:
        """Return what became of a file since the process started."""
        if "\0" in path:
            return FileFact(path, DiskState.UNREADABLE, reason="no valid path")
        relative = not path.startswith("/")
        if relative and self._cwd is None:
            return FileFact(path, DiskState.UNREADABLE, reason="its working directory is not known")
        place = os.path.join(self._cwd or "/", path)
        try:
            changed = self._ctime(place)
        except (AccessRefused, Unsupported, ProcessGone, ValueError) as failure:
            if not isinstance(failure, AccessRefused) or failure.errno not in _MISSING:
                return FileFact(path, DiskState.UNREADABLE, reason=_words(failure))
            if relative:  # it may have changed its directory since
                reason = f"it is not below the present working directory, {self._cwd}"
                return FileFact(path, DiskState.UNREADABLE, reason=reason)
            return FileFact(path, DiskState.MISSING)
        newer = changed > self._limit
        return FileFact(path, DiskState.CHANGED if newer else DiskState.UNCHANGED, changed)

    def _ctime(self, place: str) -> float:
        """Return the ctime of a file, or of the archive that it is in."""
        try:
            descriptor = rootfs.open_regular(self._handle, place)
        except AccessRefused as refused:
            parent = os.path.dirname(place)
            if refused.errno != errno.ENOTDIR or parent == place:
                raise
            return self._ctime(parent)
        try:
            return os.fstat(descriptor).st_ctime
        finally:
            os.close(descriptor)


def _words(failure: Exception) -> str:
    if isinstance(failure, AccessRefused):
        return os.strerror(failure.errno)
    return str(failure)
