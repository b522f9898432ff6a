"""A control group that bounds the number of tasks: what binds root too, as RLIMIT_NPROC does not.

Both hierarchies are known (Documentation/admin-guide/cgroup-v1/pids.rst and cgroup-v2.rst, "PID").
Only who may make a group gets one; elsewhere the tasks are counted.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Final

_REMOVE_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.01


class TaskGroup:
    """A control group of its own, which is empty at first."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    @classmethod
    def make(cls, tasks: int) -> TaskGroup | None:
        """Return a new group of at most `tasks` processes and threads, None if none can be made."""
        for parent in _parents():
            directory = os.path.join(parent, f"envprobe-{os.getpid()}-{time.monotonic_ns()}")
            try:
                os.mkdir(directory)
            except OSError:
                continue
            try:
                _write(os.path.join(directory, "pids.max"), str(tasks))
            except OSError:
                os.rmdir(directory)
                continue
            return cls(directory)
        return None

    def enter(self) -> None:
        """Put this process, and all that it starts from now on, into the group; OSError."""
        _write(os.path.join(self.directory, "cgroup.procs"), "0")

    def was_full(self) -> bool:
        """Return whether the bound has refused a task."""
        with (
            contextlib.suppress(OSError, ValueError),
            open(os.path.join(self.directory, "pids.events"), encoding="ascii") as file,
        ):
            return any(int(line.split()[1]) > 0 for line in file if line.startswith("max "))
        return False

    def remove(self) -> None:
        """Remove the group; who was in it must have been ended, and may take a moment to go."""
        deadline = time.monotonic() + _REMOVE_SECONDS
        while True:
            try:
                os.rmdir(self.directory)
            except OSError:
                if time.monotonic() > deadline:
                    return
                time.sleep(_PAUSE_SECONDS)
            else:
                return


def _write(path: str, text: str) -> None:
    # Not created: where the kernel made no such file the controller is not there.
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _parents() -> Iterator[str]:
    """Yield the directories in which a group may be made: this process's, in v2 the one above too.

    In v2 a group hands the controller to groups below it only where it holds no process itself.
    """
    own = _own_groups()
    for kind, root, point in _mounts():
        if kind in own:
            inside = own[kind].removeprefix(root.rstrip("/")).lstrip("/")
            yield os.path.join(point, inside)
            if kind == "":
                yield os.path.dirname(os.path.join(point, inside))


def _own_groups() -> dict[str, str]:
    """Return the paths of this process's groups: "pids" in v1, "" in v2 (cgroups(7))."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError), open("/proc/self/cgroup", encoding="utf-8") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if "pids" in controllers.split(","):
                found["pids"] = path
            elif not controllers:
                found[""] = path
    return found


def _mounts() -> Iterator[tuple[str, str, str]]:
    """Yield kind, root and mount point of the hierarchies that bound tasks; mountinfo, proc(5)."""
    with contextlib.suppress(OSError), open("/proc/self/mountinfo", encoding="utf-8") as file:
        for line in file:
            own, _, rest = line.partition(" - ")
            fields, kind, options = own.split(), rest.split()[0], rest.split()[-1]
            if kind == "cgroup" and "pids" in options.split(","):
                yield "pids", fields[3], fields[4]
            elif kind == "cgroup2":
                yield "", fields[3], fields[4]
