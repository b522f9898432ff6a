"""What the loaded unit, its files and its process have in common, and in what they differ."""

from __future__ import annotations

from collections.abc import Iterable

from envprobe.launch.definition import Definition
from envprobe.launch.types import Entry, Source
from envprobe.model import EnvironmentStatus
from envprobe.values import Value

_KNOWN = (EnvironmentStatus.COMPLETE, EnvironmentStatus.PARTIAL)


TOLERANCE = 0.05
"""Seconds by which a file has to be newer than a process: start times are in clock ticks."""


def differing(definition: Definition) -> tuple[str, ...]:
    """Return the names of Environment= that are loaded otherwise than the files say now.

    Names whose value cannot be told from the files are not among them.
    """
    live = definition.live
    if live is None:
        return ()
    on_disk: dict[str, Value | None] = {}
    for entry in definition.declared.entries:
        for setting in (*entry.overridden, entry.setting):
            if setting.source is Source.ENVIRONMENT:
                on_disk[setting.name] = setting.value
    loaded = {
        name: Value(text.encode("utf-8", "surrogateescape")) for name, text in live.loaded.items()
    }
    names = [*on_disk, *(name for name in loaded if name not in on_disk)]
    unknown = {name for name, value in on_disk.items() if value is None}
    return tuple(
        name for name in names if name not in unknown and on_disk.get(name) != loaded.get(name)
    )


def unloaded(definition: Definition) -> tuple[str, ...]:
    """Return the drop-ins that are there now and were not loaded, and those that are gone.

    NeedDaemonReload= does not see a drop-in whose directory is new (measured with systemd 252).
    """
    live = definition.live
    if live is None:
        return ()
    now = set(definition.files[1:])
    return tuple(sorted(now.symmetric_difference(live.drop_ins)))


def is_stale(definition: Definition) -> bool:
    """Return whether the manager would start the unit by an older definition."""
    live = definition.live
    return live is not None and (live.need_reload or bool(unloaded(definition)))


def not_handed_of_loaded(definition: Definition) -> tuple[str, ...] | None:
    """Return what the loaded Environment= says and the process was not given; None: not known.

    What an environment file sets as well is left out.
    """
    live = definition.live
    if live is None or live.handed is None or live.handed.status not in _KNOWN:
        return None
    found = []
    for name, text in live.loaded.items():
        entry = definition.declared.entry(name)
        if entry is not None and entry.setting.source is Source.FILE:
            continue
        reading = live.handed.reading(name)
        if reading.known and reading.value != Value(text.encode("utf-8", "surrogateescape")):
            found.append(name)
    return tuple(found)


def not_handed(definition: Definition, entries: Iterable[Entry]) -> tuple[str, ...] | None:
    """Return which of these entries the running process was not started with; None: not known."""
    live = definition.live
    if live is None or live.handed is None or live.handed.status not in _KNOWN:
        return None
    found = []
    for entry in entries:
        reading = live.handed.reading(entry.setting.name)
        if not entry.known or not reading.known:
            continue
        wanted = None if entry.removed is not None else entry.setting.value
        if reading.value != wanted:
            found.append(entry.setting.name)
    return tuple(found)
