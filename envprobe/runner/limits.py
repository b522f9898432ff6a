"""Limits of this machine that envprobe itself runs into: no fault of its own and no verdict."""

from __future__ import annotations

import errno
import resource

from envprobe.errors import UndeterminedError


def exhausted(error: OSError) -> UndeterminedError | None:
    """Return the error that says which limit was reached, or None if it was none.

    open(2) and pipe(2) give EMFILE and ENFILE, fork(2) EAGAIN, all of them ENOMEM.
    """
    if error.errno == errno.EMFILE:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return UndeterminedError(
            f"envprobe may open no more than {limit} files at a time, and needs more",
            "Raise the limit with `ulimit -n 1024` in the shell that starts envprobe.",
        )
    if error.errno == errno.ENFILE:
        return UndeterminedError(
            "the limit of this machine on open files has been reached",
            "Raise it with `sysctl fs.file-max`, or end what holds so many files open.",
        )
    if error.errno == errno.EAGAIN:
        return UndeterminedError(
            "no further process can be started: the limit of this user or machine was reached",
            "Raise it (`ulimit -u`, or pids.max of the control group), or end other processes.",
        )
    if error.errno == errno.ENOMEM:
        return UndeterminedError(
            "there is not enough memory to read the processes",
            "Free some memory, or raise memory.max of the control group envprobe runs in.",
        )
    return None
