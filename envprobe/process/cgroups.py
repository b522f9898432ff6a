"""Which processes a control group or a container holds, by /proc/PID/cgroup (cgroups(7))."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

_CONTAINER: Final = re.compile(r"(?:^|[-_:])([0-9a-f]{64})(?:\.scope)?$")
_SERVICE: Final = re.compile(r"[^/]+\.service")
_UNIT: Final = re.compile(r"[^/]+\.(?:service|scope)")
_USER_MANAGER: Final = re.compile(r"user@(\d+)\.service")
_SYSTEMD: Final = ("", "name=systemd")
_MONITOR: Final = re.compile(r"(?:^|-)conmon-")
_OCTAL: Final = re.compile(rb"\\([0-7]{3})")


def parse(text: str) -> dict[str, str]:
    """Return the groups by hierarchy: "" is version 2, else the controllers, such as "memory"."""
    groups: dict[str, str] = {}
    for line in text.splitlines():
        number, colon, rest = line.partition(":")
        controllers, second, path = rest.partition(":")
        if colon and second and number.isdigit():
            groups[controllers] = path
    return groups


def groups_of(pid: int) -> dict[str, str]:
    """Return the groups of a process, {} if it is gone; every user may read them."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            return parse(file.read())
    except OSError:
        return {}


def main_group(groups: dict[str, str]) -> str:
    """Return the group that says most: version 2's, or the deepest of version 1."""
    own = groups.get("", "")
    if own not in ("", "/"):
        return own
    return max(groups.values(), key=lambda path: path.count("/") if path != "/" else 0, default="")


def mounts(path: str = "/proc/self/mountinfo") -> dict[str, str]:
    """Return the mount points of the hierarchies, each with its name as `parse` gives it.

    A version 1 mount names its controllers among its options, proc_pid_mountinfo(5).
    """
    found: dict[str, str] = {}
    try:
        with open(path, "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return {}
    for line in lines:
        front, _, back = line.partition(b" - ")
        kind, _, options = back.partition(b" ")
        if kind not in (b"cgroup", b"cgroup2"):
            continue
        point = _OCTAL.sub(lambda match: bytes([int(match[1], 8)]), front.split()[4])
        found[os.fsdecode(point)] = (
            "" if kind == b"cgroup2" else options.rpartition(b" ")[2].decode()
        )
    return found


def locate(path: str, points: dict[str, str]) -> tuple[str, str | None]:
    """Return a group's path inside its hierarchy, and that hierarchy's mount options if named.

    `path` is a directory below a mount point, such as /sys/fs/cgroup/system.slice, or the path as
    /proc/PID/cgroup shows it, with or without its leading slash.
    """
    clean = os.path.normpath("/" + path.strip().lstrip("/"))
    for point in sorted(points, key=len, reverse=True):
        if clean == point or clean.startswith(point.rstrip("/") + "/"):
            return clean[len(point.rstrip("/")) :] or "/", points[point]
    return clean, None


def members(path: str, pids: Iterable[int], hierarchy: str | None = None) -> list[int]:
    """Return those of `pids` that are in the group at `path` or below it.

    `hierarchy` holds the mount options of version 1, or is "" for version 2; None looks in all.
    """
    found = []
    for pid in pids:
        for controllers, group in groups_of(pid).items():
            if hierarchy is not None and not _of_hierarchy(controllers, hierarchy):
                continue
            if group == path or group.startswith(path.rstrip("/") + "/"):
                found.append(pid)
                break
    return found


def _of_hierarchy(controllers: str, options: str) -> bool:
    if not controllers or not options:
        return controllers == options
    return set(controllers.split(",")) <= set(options.split(","))


def container_of(groups: dict[str, str]) -> str:
    """Return the full id of the container that a process is in, "" if in none.

    The innermost one counts. Runtimes name the group by the id: /docker/ID, docker-ID.scope,
    libpod-ID.scope, cri-containerd-ID.scope, crio-ID.scope, kubepods/.../ID.
    """
    for path in groups.values():
        for part in reversed(path.split("/")):
            match = _CONTAINER.search(part)
            if match and not _MONITOR.search(part):
                return match[1]
    return ""


def service_of(groups: dict[str, str]) -> tuple[str, int | None] | None:
    """Return the service whose control group this is, and the uid of the user whose manager it is.

    None if the innermost unit is no service, or none. systemd names the groups of units by them:
    /system.slice/X.service, /user.slice/user-1000.slice/user@1000.service/app.slice/X.service.
    """
    own = [groups[key] for key in _SYSTEMD if key in groups]
    for path in (*own, *groups.values()):
        parts = path.split("/")
        named = [number for number, part in enumerate(parts) if _UNIT.fullmatch(part)]
        if not named:
            continue
        last = named[-1]
        if not _SERVICE.fullmatch(parts[last]):
            return None
        above = (_USER_MANAGER.fullmatch(part) for part in parts[:last])
        users = [int(found[1]) for found in above if found]
        return parts[last], users[-1] if users else None
    return None
