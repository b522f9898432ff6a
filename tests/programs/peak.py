"""The peak of a command's memory, whatever the tests' own process has taken before."""

from __future__ import annotations

import sys
from collections.abc import Sequence

# The kernel counts what a process had mapped before its exec: a small one must start the command.
_PROGRAM = (
    "import os, sys\n"
    "pid = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)\n"
    "_, status, usage = os.wait4(pid, 0)\n"
    "os.write(int(sys.argv[1]), b'%d' % usage.ru_maxrss)\n"
    "os._exit(os.waitstatus_to_exitcode(status) % 256)\n"
)


def telling_peak(command: Sequence[str], descriptor: int) -> list[str]:
    """Return a command that runs `command` and writes the KiB of its peak to `descriptor`.

    The peak is that of any of its processes (wait4 counts those that were waited for).
    """
    return [sys.executable, "-I", "-S", "-c", _PROGRAM, str(descriptor), *command]
