"""Files as a process sees them, below its own root directory and never outside it.

A symbolic link below /proc/PID/root would be followed to this host's files; openat2(2) resolves it
inside the target's root instead. Only regular files are opened for reading: a first descriptor
(O_PATH) opens nothing, so that FIFOs and devices are recognised before they are touched.
"""

from __future__ import annotations

import errno
import os
import stat

from envprobe.process.handle import (
    AccessRefused,
    ProcessHandle,
    Unsupported,
)


def open_regular(handle: ProcessHandle, path: str) -> int:
    """Return a descriptor of the regular file `path` in the process's root; the caller closes it.

    Raises ProcessGone, AccessRefused (ENOSYS: no openat2, as before Linux 5.6), and Unsupported
    for anything but a regular file.
    """
    try:
        from envprobe.process.syscalls import RESOLVE_IN_ROOT, RESOLVE_NO_MAGICLINKS, openat2
    except ImportError:  # some interpreters have no ctypes
        raise AccessRefused(errno.ENOSYS, path) from None
    root = handle.open_file("root", os.O_PATH | os.O_DIRECTORY)
    try:
        resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS
        place = openat2(root, os.fsencode(path), os.O_PATH, resolve)
    except OSError as error:
        raise AccessRefused(error.errno or 0, path) from error
    finally:
        os.close(root)
    try:
        return reopen_regular(place, path)
    finally:
        os.close(place)


def reopen_regular(place: int, what: str) -> int:
    """Return a readable descriptor of what an O_PATH descriptor refers to.

    Raises AccessRefused, and Unsupported for anything but a regular file.
    """
    if not stat.S_ISREG(os.fstat(place).st_mode):
        raise Unsupported(f"{what} is not a regular file")
    try:
        return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        raise AccessRefused(error.errno or 0, what) from error
