"""Reading a file that the user names: regular, and no longer than it may be."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

from envprobe.errors import UsageError


def read(
    path: str,
    most: int,
    *,
    remedy: str,
    trusted: Callable[[os.stat_result], None] = lambda status: None,
) -> bytes:
    """Return the bytes of a regular file of at most `most` bytes; a FIFO is never waited for.

    `trusted` is given the status of the file that was opened and may raise. Raises UsageError with
    `remedy`, and FileNotFoundError where there is no such file.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        reason = os.strerror(getattr(error, "errno", None) or errno.EINVAL)
        raise UsageError(f"{path} cannot be read: {reason}", remedy) from None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{path} is no regular file", remedy)
        trusted(status)
        return _bounded(path, handle, most, remedy)
    finally:
        os.close(handle)


def _bounded(path: str, handle: int, most: int, remedy: str) -> bytes:
    parts = bytearray()
    while len(parts) <= most:
        try:
            part = os.read(handle, min(most + 1 - len(parts), 1 << 24))
        except OSError as error:
            reason = os.strerror(error.errno or errno.EIO)
            raise UsageError(f"{path} cannot be read: {reason}", remedy) from None
        if not part:
            return bytes(parts)
        parts += part
    raise UsageError(f"{path} is longer than {most} bytes", remedy)
