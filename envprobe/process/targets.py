"""What the user pointed at: a pid, a control group, a container, or whatever runs here."""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Final

from envprobe.errors import TargetGoneError, UndeterminedError, UsageError
from envprobe.process import cgroups
from envprobe.process.access import diagnose
from envprobe.process.handle import AccessRefused, ProcessGone, ProcessHandle, Status
from envprobe.process.obstacles import Obstacle
from envprobe.process.roles import Roles
from envprobe.process.tree import Listing, boot_offset, listing, start_time
from envprobe.redact import show_command

_MAX_PID: Final = 1 << 22
"""The kernel's own limit for kernel.pid_max, proc_sys_kernel(5)."""

_SHORTEST_ID: Final = 12
_MAX_NAMED: Final = 8
_TITLE_LIMIT: Final = 60
_ID: Final = re.compile(r"[0-9a-f]{12,64}")


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """The processes to scan from, and how they were found.

    `roots` is empty when only `--match` was given: the scan then holds what the patterns find.
    """

    roots: tuple[int, ...]
    how: str
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class LaunchSeen:
    """One launch found on the machine; `workers` counts those recognised by title or parent."""

    pid: int
    framework: str
    workers: int
    title: tuple[str, ...]
    started: float


def resolve(
    pid: int | None = None,
    cgroup: str | None = None,
    container: str | None = None,
    match: tuple[str, ...] = (),
) -> Target:
    """Return the roots that the options name; at most one of the first three may be given.

    Raises UsageError, TargetGoneError, and UndeterminedError when nothing was named and no launch
    was found.
    """
    given = [one for one in (pid, cgroup, container) if one is not None]
    if len(given) > 1:
        raise UsageError(
            "--pid, --cgroup and --container exclude each other", "Give one of the three."
        )
    if pid is not None:
        return Target((_existing(pid),), f"--pid {pid}")
    if cgroup is not None:
        return _of_cgroup(cgroup)
    if container is not None:
        return _of_container(container)
    if match:
        return Target((), "--match")
    return _only_launch()


def _existing(pid: int) -> int:
    """Return `pid` if it is a living process of this pid namespace."""
    if pid == 0:
        raise TargetGoneError(
            "PID 0 is no process: a systemd unit shows MainPID=0 when it is not running",
            "Start the unit, or look at `systemctl status UNIT` for why it ended.",
        )
    if not 0 < pid <= _MAX_PID:
        raise UsageError(
            f"{pid} is no process number", f"Give a number between 1 and {_MAX_PID} to --pid."
        )
    try:
        with ProcessHandle.open(pid) as handle:
            status, state, task = handle.status(), handle.stat().state, handle.living_task()
    except ProcessGone:
        raise _gone(pid) from None
    except AccessRefused:
        raise hidden(pid) from None
    if status.tgid not in (None, pid):
        raise TargetGoneError(
            f"{pid} is a thread of process {status.tgid}, no process of its own",
            f"Use --pid {status.tgid}.",
        )
    if state in "ZX" and task is None:
        raise TargetGoneError(
            f"process {pid} has ended and waits for its parent to collect it (zombie)",
            "Look in the server's log for the reason of its end and start the server again.",
        )
    return pid


def _gone(pid: int) -> TargetGoneError | UndeterminedError:
    """Explain a number that is no process here."""
    if is_hidden(pid):
        return hidden(pid)
    outer = _with_inner_number(pid)
    if not outer:
        return TargetGoneError(
            f"there is no process {pid}",
            "Look up the server's number again (pgrep -af launch_server); `envprobe workers` "
            "without --pid lists the launches found here.",
        )
    named = ", ".join(str(one) for one in outer[:_MAX_NAMED])
    return TargetGoneError(
        f"there is no process {pid} in this pid namespace; inside a container that number belongs "
        f"to what is process {named} here",
        f"Use --pid {outer[0]}.",
    )


def is_hidden(pid: int) -> bool:
    """Return whether a process exists of which this /proc shows nothing (hidepid)."""
    try:
        ProcessHandle.open(pid).close()
    except AccessRefused:
        return True
    except ProcessGone as gone:
        return diagnose(pid, gone) is Obstacle.HIDDEN
    return False


def hidden(pid: int) -> UndeterminedError:
    """Return the error that says so."""
    return UndeterminedError(
        f"process {pid} exists, but this /proc hides it (mount option hidepid)",
        "Run envprobe as root, or as a member of the group that the gid= option of the /proc "
        "mount names.",
    )


def _with_inner_number(pid: int) -> list[int]:
    """Return the processes whose number in their own pid namespace is `pid` (NSpid)."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/status", "rb") as file:
                inner = Status.parse(file.read()).inner_pid
        except OSError:
            continue
        if inner == pid and int(name) != pid:
            found.append(int(name))
    return sorted(found)


def _of_cgroup(path: str) -> Target:
    points = cgroups.mounts()
    group, hierarchy = cgroups.locate(path, points)
    if group == "/":
        raise UsageError(
            "the root control group holds every process of the machine",
            "Give the group of the server; /proc/PID/cgroup shows it.",
        )
    known = listing()
    pids = cgroups.members(group, known, hierarchy)
    if not pids:
        raise TargetGoneError(
            f"no process is in the control group {group}",
            "Look up the server's group with `cat /proc/PID/cgroup` or `systemctl status UNIT`; "
            "inside a container only the container's own groups are visible.",
        )
    return Target(_tops(known, pids), f"--cgroup {path}")


def _of_container(text: str) -> Target:
    wanted = text.rpartition("://")[2].strip().lower()
    if not _ID.fullmatch(wanted):
        raise UsageError(
            "--container takes an id of 12 to 64 hexadecimal digits; only a daemon knows names",
            "Use `docker ps --no-trunc`, `podman ps --no-trunc` or `crictl ps --no-trunc` to find "
            "the id.",
        )
    known = listing()
    found: dict[str, list[int]] = {}
    for pid in known:
        full = cgroups.container_of(cgroups.groups_of(pid))
        if full.startswith(wanted):
            found.setdefault(full, []).append(pid)
    if len(found) > 1:
        raise UsageError(
            f"{len(found)} containers have an id that begins with {wanted}",
            "Give more digits: " + ", ".join(sorted(found)[:_MAX_NAMED]) + ".",
        )
    if not found:
        raise TargetGoneError(
            f"no process is in a control group that is named after container {wanted}",
            "Check that it runs (docker ps), run envprobe on the host, and if its runtime names "
            "groups otherwise, use --cgroup with the group that /proc/PID/cgroup shows.",
        )
    ((full, pids),) = found.items()
    return Target(_tops(known, pids), f"--container {full[:_SHORTEST_ID]}")


def _tops(known: Listing, pids: list[int]) -> tuple[int, ...]:
    own = os.getpid()
    living = [pid for pid in pids if known[pid].state not in "ZX" and pid != own]
    return known.tops(living)


def launches(known: Listing | None = None) -> list[LaunchSeen]:
    """Return the launches of known frameworks on this machine, the oldest first.

    A launch is a server or launcher of the table of roles, or a Python program whose descendants
    hold ranks of a known framework.
    """
    known = listing() if known is None else known
    roles = Roles(known)
    workers: dict[int, int] = {}
    frameworks: dict[int, str] = {}
    for pid, member in known.items():
        if member.state in "ZX":
            continue
        role, row = roles[pid], roles.row(pid)
        if row.launch and role.name == row.role:
            workers.setdefault(pid, 0)
            frameworks[pid] = row.framework
        launch = roles.launch_of(pid) if role.worker and role.framework else None
        if launch is not None:
            workers[launch] = workers.get(launch, 0) + 1
            frameworks.setdefault(launch, role.framework)
    boot = boot_offset()
    found = []
    for pid, count in workers.items():
        member = known[pid]
        if count or roles[pid].name == "server":
            started = start_time(member.start_ticks, boot)
            found.append(LaunchSeen(pid, frameworks[pid], count, member.title, started))
    return sorted(found, key=lambda one: (one.started, one.pid))


def _only_launch() -> Target:
    found = launches()
    if len(found) == 1:
        only = found[0]
        return Target((only.pid,), f"the only launch found here, PID {only.pid}")
    if found:
        lines = [f"  --pid {one.pid}  {_described(one)}" for one in found[:_MAX_NAMED]]
        more = len(found) - len(lines)
        if more > 0:
            lines.append(f"  and {more} more")
        raise UsageError(
            f"{len(found)} launches were found here:\n" + "\n".join(lines),
            "Say which one with --pid.",
        )
    raise UndeterminedError(
        "no-workers: no server of a known framework was found among the processes that this user "
        "can see",
        "Name the launcher with --pid, its workers with --match PATTERN (a title or command line), "
        "or run envprobe where the server runs: on the host, or inside its container.",
    )


def _described(launch: LaunchSeen) -> str:
    workers = "1 worker" if launch.workers == 1 else f"{launch.workers} workers"
    return f"{launch.framework}, {workers}: {show_command(launch.title, _TITLE_LIMIT)}"
