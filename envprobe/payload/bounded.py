"""Limits itself, then becomes the command: python bounded.py PROCESSES SECONDS COMMAND...

No core file, at most PROCESSES more tasks than the user has now (RLIMIT_NPROC counts tasks of the
real user and is not applied to root, setrlimit(2)), at most SECONDS of CPU time for each process.
Standard library only, Python 3.9 to 3.15.
"""

from __future__ import annotations

import os
import resource
import sys


def tasks_of(uid: int) -> int:
    """Return how many threads the user has."""
    count = 0
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        try:
            if os.stat("/proc/" + entry).st_uid == uid:
                count += len(os.listdir("/proc/" + entry + "/task"))
        except OSError:
            continue
    return count


def limit(kind: int, wanted: int) -> None:
    """Lower one limit, soft and hard, to what is wanted or to what it already was."""
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    resource.setrlimit(kind, (wanted, wanted))


def main(processes: str, seconds: str, *command: str) -> None:
    """Set the limits and run the command in this process."""
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_CPU, int(seconds))
    limit(resource.RLIMIT_NPROC, tasks_of(os.getuid()) + int(processes))
    os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
