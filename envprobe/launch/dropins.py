"""Where units and their drop-ins are looked for (systemd.unit(5), "UNIT FILE LOAD PATH")."""

from __future__ import annotations

import dataclasses
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from envprobe.launch.types import Kind, Place, Remark

_SYSTEM: Final = (
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/run/systemd/generator.early",
    "/etc/systemd/system",
    "/etc/systemd/system.attached",
    "/run/systemd/system",
    "/run/systemd/system.attached",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator.late",
)
_SUFFIX: Final = ".conf"


def search_path(*, user: bool, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the directories of units, the one that counts most first.

    `variables` are those of the user's manager (HOME, XDG_CONFIG_HOME, XDG_RUNTIME_DIR, ...).
    """
    if not user:
        return _SYSTEM
    home = variables.get("HOME", "")
    config = variables.get("XDG_CONFIG_HOME") or (home and f"{home}/.config")
    data = variables.get("XDG_DATA_HOME") or (home and f"{home}/.local/share")
    runtime = variables.get("XDG_RUNTIME_DIR", "")
    configs = variables.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    shares = variables.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share"
    found = [
        config and f"{config}/systemd/user.control",
        runtime and f"{runtime}/systemd/user.control",
        runtime and f"{runtime}/systemd/transient",
        runtime and f"{runtime}/systemd/generator.early",
        config and f"{config}/systemd/user",
        *(f"{one}/systemd/user" for one in configs.split(":") if one),
        "/etc/systemd/user",
        runtime and f"{runtime}/systemd/user",
        "/run/systemd/user",
        runtime and f"{runtime}/systemd/generator",
        data and f"{data}/systemd/user",
        *(f"{one}/systemd/user" for one in shares.split(":") if one),
        "/usr/local/lib/systemd/user",
        "/usr/lib/systemd/user",
        "/lib/systemd/user",
        runtime and f"{runtime}/systemd/generator.late",
    ]
    return tuple(dict.fromkeys(filter(None, found)))


@dataclasses.dataclass(frozen=True, slots=True)
class DropIns:
    """The drop-ins that count, in the order in which they are read, and remarks on others."""

    paths: tuple[str, ...]
    remarks: tuple[Remark, ...]


def find(units: Sequence[str], directories: tuple[str, ...]) -> DropIns:
    """Return the drop-ins of a unit: sorted by name, of one name the first directory's only.

    `units` are its names, the one that it is known by first.
    """
    chosen: dict[str, str] = {}
    remarks = []
    seen: set[str] = set()
    for folder in _folders(units, directories):
        real = os.path.realpath(folder)
        if real in seen:
            continue
        seen.add(real)
        for name in sorted(_listed(folder)):
            path = posixpath.join(folder, name)
            if not name.endswith(_SUFFIX):
                about = f"the file is not read: only names that end with {_SUFFIX} are"
                remarks.append(Remark(Kind.DROP_IN_IGNORED, Place(path), about))
            elif name in chosen:
                about = f"the drop-in is not read: {chosen[name]} has the same name and counts more"
                remarks.append(Remark(Kind.DROP_IN_IGNORED, Place(path), about))
            else:
                chosen[name] = path
    return DropIns(tuple(chosen[name] for name in sorted(chosen)), tuple(remarks))


def names(unit: str) -> Iterator[str]:
    """Yield the names by which drop-ins of a unit are found, the most special one first.

    For a-b@c.service: itself, a-b@.service, then a-@c.service, a-@.service and a-.service.
    """
    stem, dot, kind = unit.rpartition(".")
    prefix, at, instance = stem.partition("@")
    while True:
        yield f"{prefix}{at}{instance}{dot}{kind}"
        if at and instance:
            yield f"{prefix}{at}{dot}{kind}"
        shorter = prefix.rstrip("-").rpartition("-")
        if at and prefix.endswith("-"):
            yield f"{prefix}{dot}{kind}"
        if not shorter[1] or not shorter[0]:
            return
        prefix = f"{shorter[0]}-"


def _folders(units: Sequence[str], directories: tuple[str, ...]) -> Iterator[str]:
    for unit in units:
        for directory in directories:
            for name in names(unit):
                yield posixpath.join(directory, f"{name}.d")
    for directory in directories:
        yield posixpath.join(directory, f"{units[0].rpartition('.')[2]}.d")


def _listed(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as found:
            return [one.name for one in found if not one.name.startswith(".") and not one.is_dir()]
    except OSError:
        return []


def is_mask(path: str) -> bool:
    """Return whether a drop-in is a link to /dev/null: it only hides others of its name."""
    return os.path.realpath(path) == os.devnull
