"""A unit as its manager has loaded it, and the process that it has started."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from typing import Final

from envprobe.errors import UsageError
from envprobe.launch.manager import Manager, listed
from envprobe.model import Environment
from envprobe.process import cgroups
from envprobe.process.environ_exec import read_exec
from envprobe.process.handle import AccessRefused, ProcessGone, ProcessHandle
from envprobe.process.tree import boot_offset, start_time

_PROPERTIES: Final = (
    "ActiveState",
    "ControlGroup",
    "DropInPaths",
    "Environment",
    "ExecMainCode",
    "ExecMainStatus",
    "FragmentPath",
    "Id",
    "LoadError",
    "LoadState",
    "MainPID",
    "NRestarts",
    "Names",
    "NeedDaemonReload",
    "Result",
    "SubState",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Live:
    """What the manager says of a unit; `started` is the main process's start in Unix seconds.

    `loaded` is Environment= as it is loaded, specifiers replaced, files not among it. `handed` is
    what the main process was started with, None if there is none. `code` is the signal name or exit
    status with which the last main process ended, "" if none has.
    """

    name: str
    names: tuple[str, ...]
    load_state: str
    load_error: str
    active: str
    sub: str
    result: str
    need_reload: bool
    fragment: str
    drop_ins: tuple[str, ...]
    loaded: dict[str, str]
    main_pid: int = 0
    cgroup: str = ""
    restarts: int = 0
    code: str = ""
    started: float | None = None
    handed: Environment | None = None

    @property
    def failed(self) -> bool:
        """Whether the unit is in the state `failed`."""
        return self.active == "failed"

    @property
    def running(self) -> bool:
        """Whether there is a main process."""
        return self.main_pid > 0

    def members(self, pids: Iterable[int]) -> list[int]:
        """Return those of `pids` that belong to the unit: its main process and its group's."""
        inside = cgroups.members(self.cgroup, pids) if self.cgroup.strip("/") else []
        return sorted({*inside, *([self.main_pid] if self.main_pid else [])})


def unit_name(name: str) -> str:
    """Return a unit's full name: `.service` is added where no type is named."""
    last = name.rpartition(".")[2]
    if last in ("service", "socket", "scope", "slice", "target", "timer", "mount", "path"):
        if last != "service":
            raise UsageError(f"{name} is no service", "Name a service, or its file.")
        return name
    return f"{name}.service"


def ask(manager: Manager, name: str) -> Live:
    """Return what the manager says of a unit, loaded or not; UndeterminedError if it does not."""
    told = manager.properties(unit_name(name), _PROPERTIES)

    def one(key: str) -> str:
        return told.get(key, [""])[0]

    main_pid = _number(one("MainPID"))
    started, handed = _process(main_pid)
    return Live(
        name=one("Id") or unit_name(name),
        names=tuple(one("Names").split()),
        load_state=one("LoadState"),
        load_error=one("LoadError").partition(" ")[2].strip('"'),
        active=one("ActiveState"),
        sub=one("SubState"),
        result=one("Result"),
        need_reload=one("NeedDaemonReload") == "yes",
        fragment=one("FragmentPath"),
        drop_ins=tuple(listed(one("DropInPaths"))),
        loaded=_assignments(one("Environment")),
        main_pid=main_pid,
        cgroup=one("ControlGroup"),
        restarts=_number(one("NRestarts")),
        code=_ended(one("ExecMainCode"), one("ExecMainStatus")),
        started=started,
        handed=handed,
    )


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _assignments(text: str) -> dict[str, str]:
    return dict(word.partition("=")[::2] for word in listed(text))


def _ended(code: str, status: str) -> str:
    """Return how a main process ended; `code` is a CLD_ number of waitid(2)."""
    if code == "1":
        return f"exit status {status}"
    if code in ("2", "3"):
        return f"signal {status}"
    return ""


def _process(pid: int) -> tuple[float | None, Environment | None]:
    """Return when a process was started and what it was started with, as far as can be read."""
    if not pid:
        return None, None
    try:
        with ProcessHandle.open(pid) as handle:
            started = start_time(handle.start_ticks, boot_offset())
            return started, read_exec(handle, at=started)
    except (ProcessGone, AccessRefused):
        return None, None


def modified(path: str) -> float | None:
    """Return when a file was last changed in Unix seconds, None if that cannot be told."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None
