"""A unit as its manager has loaded it, and the process that it has started."""

from __future__ import annotations

import dataclasses
import os
import re
import time
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
    "ActiveEnterTimestampMonotonic",
    "ActiveState",
    "ControlGroup",
    "DropInPaths",
    "Environment",
    "ExecMainCode",
    "ExecMainStatus",
    "FragmentPath",
    "Id",
    "InactiveEnterTimestampMonotonic",
    "Job",
    "LoadError",
    "LoadState",
    "MainPID",
    "NRestarts",
    "Names",
    "NeedDaemonReload",
    "Result",
    "StartLimitBurst",
    "StartLimitIntervalUSec",
    "StateChangeTimestampMonotonic",
    "SubState",
)

_TYPES: Final = ("service", "socket", "scope", "slice", "target", "timer", "mount", "path")
_PATTERN: Final = frozenset("*?[")
_UNIT_NAME: Final = re.compile(r"[A-Za-z0-9:_.\\-]+(?:@[A-Za-z0-9:_.\\@-]*)?", re.ASCII)
_MAX_NAME: Final = 255
"""systemd.unit(5), "DESCRIPTION": what a name may hold, and how long it may be."""

_START_LIMIT: Final = "start-limit-hit"
_SPAN: Final = re.compile(r"([\d.]+)([a-z]+)")
_SPANS: Final = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 7 * 86400.0,
    "month": 30.44 * 86400,
    "y": 365.25 * 86400,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Live:
    """What the manager says of a unit; `started` is the main process's start in Unix seconds.

    `loaded` is Environment= as it is loaded, specifiers replaced, files not among it. `handed` is
    what the main process was started with, None if there is none. `code` is the signal name or exit
    status with which the last main process ended, "" if none has. `job` is true while a start, stop
    or restart of it waits or runs. `active_since` is when it became active, `state_changed` when
    its state last changed, by a reload for one. `refused_until` is up to when systemd may refuse
    another start because there were too many, None if it does not.
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
    job: bool = False
    active_since: float | None = None
    state_changed: float | None = None
    refused_until: float | None = None

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
    """Return a service's full name: `.service` is added where no type is named.

    Raises UsageError for what names no single service: systemctl(1) would answer a pattern with all
    units that it fits, of which the first one is any.
    """
    if set(name) & _PATTERN:
        raise UsageError(
            f"{name} is a pattern, and one unit is looked at",
            "Give the unit's whole name; `systemctl list-units` lists them.",
        )
    stem, dot, last = name.rpartition(".")
    if not dot or last not in _TYPES:
        stem, last = name, "service"
    if last != "service":
        raise UsageError(f"{name} is no service", "Name a service, or its file.")
    full = f"{stem}.{last}"
    if not _UNIT_NAME.fullmatch(full) or len(full) > _MAX_NAME:
        raise UsageError(
            f"{name} is no name of a unit",
            "A name has letters, digits and :-_.\\@ only; systemd-escape(1) makes one.",
        )
    if stem.endswith("@"):
        raise UsageError(
            f"{full} is a template, of which nothing is started",
            f"Name an instance, such as {stem}1, or give the template's file.",
        )
    return full


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
        job=bool(one("Job")),
        active_since=_moment(one("ActiveEnterTimestampMonotonic")),
        state_changed=_moment(one("StateChangeTimestampMonotonic")),
        refused_until=_refused_until(
            one("Result"),
            _number(one("NRestarts")),
            _number(one("StartLimitBurst")),
            _moment(one("InactiveEnterTimestampMonotonic")),
            _seconds(one("StartLimitIntervalUSec")),
        )
        if one("ActiveState") == "failed"
        else None,
    )


def _refused_until(
    result: str, restarts: int, burst: int, ended: float | None, interval: float
) -> float | None:
    """Return up to when a failed unit may be refused another start; None if it is not.

    `Result` keeps the failure before the one start too many (measured with systemd 252): that
    systemd has given up restarting is seen from the number of restarts.
    """
    if result != _START_LIMIT and not 0 < burst <= restarts:
        return None
    until = None if ended is None else ended + interval
    return until if until is not None and until > time.time() else None


def _seconds(text: str) -> float:
    """Return a time span of systemd.time(7), as systemctl prints it, in seconds."""
    if text == "infinity":
        return float("inf")
    return sum(float(number) * _SPANS.get(unit, 0.0) for number, unit in _SPAN.findall(text))


def _moment(text: str) -> float | None:
    """Return a time in Unix seconds, given in microseconds of CLOCK_MONOTONIC; 0 is none."""
    since = _number(text) / 1e6
    return time.time() - time.monotonic() + since if since else None


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


def touched(path: str) -> float | None:
    """Return when a file was last written or replaced in Unix seconds, None if that is not known.

    That is st_ctime, which also moves with its owner or mode, and which no copy can set back.
    """
    try:
        return os.stat(path).st_ctime
    except OSError:
        return None


def modified(path: str) -> float | None:
    """Return when a file was last changed in Unix seconds, None if that cannot be told."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None
