"""The host name that a process sees: that of its own UTS namespace, uts_namespaces(7)."""

from __future__ import annotations

import os
from typing import Final

from envprobe.process.handle import AccessRefused, ProcessHandle

_NEW_UTS: Final = 0x04000000  # CLONE_NEWUTS of <linux/sched.h>


def host_name(handle: ProcessHandle) -> str | None:
    """Return what gethostname(2) gives the process; None if this reader may not know.

    In another namespace it is asked for by joining that (setns(2), for root): call this only in a
    child of one thread. Raises ProcessGone.
    """
    theirs = handle.namespace("uts")
    if theirs is None:
        return None
    if theirs == os.stat("/proc/self/ns/uts").st_ino:
        return os.uname().nodename
    try:
        from envprobe.process.syscalls import setns
    except ImportError:  # some interpreters have no ctypes
        return None
    try:
        place = handle.open_file("ns/uts")
    except AccessRefused:
        return None
    home = os.open("/proc/self/ns/uts", os.O_RDONLY | os.O_CLOEXEC)
    try:
        setns(place, _NEW_UTS)
        name = os.uname().nodename
        setns(home, _NEW_UTS)
    except PermissionError:
        return None
    finally:
        os.close(place)
        os.close(home)
    return name
