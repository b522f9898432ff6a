"""A real systemd-journald of a test's own, in a mount namespace in which nothing else has one.

Its sockets are at fixed paths below /run: there they are hidden from the rest of the machine.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.programs.requirement import missing

PROGRAM = "/lib/systemd/systemd-journald"
SECONDS = 30
# A directory for a persistent journal is never made: it would make the machine keep one.
_HIDE = (
    "mkdir -p /run/systemd/journal /run/log /run/user;"
    " for folder in /run/systemd/journal /run/log /run/user /var/log/journal; do"
    ' if [ -d "$folder" ]; then mount -t tmpfs tmpfs "$folder" || exit 1; fi; done;'
    ' mkdir -p /run/log/journal; exec "$0"'
)


class Journal:
    """A running journald; `within` is the command that starts another one where it is."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.within = ("nsenter", f"--mount=/proc/{pid}/ns/mnt", "--")

    def manager(self, folder: Path, *, known: bool = True) -> tuple[str, ...]:
        """Return the command that starts a user's manager, whose home is `folder`, where it is.

        With `known` its runtime directory is where journald looks for the ids of starts.
        """
        bind = 'mkdir -p "/run/user/$1"; mount --bind "$2" "/run/user/$1";' if known else ""
        command = f'{bind} shift 2; exec env SYSTEMD_LOG_TARGET=journal "$@"'
        return (*self.within, "sh", "-c", command, "sh", str(os.getuid()), str(folder / "run"))

    def sync(self) -> None:
        """Wait until all that was logged can be read."""
        subprocess.run(
            [*self.within, "journalctl", "--sync"], capture_output=True, timeout=SECONDS, check=True
        )


@contextlib.contextmanager
def journald(folder: Path) -> Iterator[Journal]:
    """Start a journald and end it; skips where none can be run."""
    if not os.access(PROGRAM, os.X_OK):
        missing("systemd", f"{PROGRAM} is not installed")
    if os.geteuid() != 0:
        missing("root", "only root may hide the sockets of journald in a namespace")
    told = folder / "ready"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
        ready.bind(str(told))
        ready.settimeout(SECONDS)
        process = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", _HIDE, PROGRAM],
            env={"PATH": os.environ.get("PATH", os.defpath), "NOTIFY_SOCKET": str(told)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_until_ready(ready)
            yield Journal(process.pid)
        finally:
            process.terminate()
            process.wait(SECONDS)


def _wait_until_ready(ready: socket.socket) -> None:
    try:
        while b"READY=1" not in ready.recv(4096):
            pass
    except TimeoutError:
        missing("systemd", "journald did not start in a mount namespace of its own")
