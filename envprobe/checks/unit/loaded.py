"""What the loaded unit, its files and its process have in common, and in what they differ."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from envprobe.model import Environment, EnvironmentStatus, Reading
from envprobe.redact import DEFAULT_WANTED, is_wanted
from envprobe.unitfacts import Entry, UnitFacts

_KNOWN: Final = (EnvironmentStatus.COMPLETE, EnvironmentStatus.PARTIAL)
_FILE: Final = "EnvironmentFile="


def differing(unit: UnitFacts) -> tuple[str, ...]:
    """Return the names of Environment= that are loaded otherwise than the files say now.

    Names whose value cannot be told from the files are not among them.
    """
    names = [*unit.on_disk, *(name for name in unit.loaded if name not in unit.on_disk)]
    unknown = {name for name, value in unit.on_disk.items() if value is None}
    return tuple(
        name
        for name in names
        if name not in unknown and unit.on_disk.get(name) != unit.loaded.get(name)
    )


def not_handed_of_loaded(unit: UnitFacts, handed: Environment | None) -> tuple[str, ...] | None:
    """Return what the loaded Environment= says and the process was not given; None: not known.

    `handed` is what the process was started with. What an environment file sets as well is left
    out.
    """
    if handed is None or handed.status not in _KNOWN:
        return None
    found = []
    for name, wanted in unit.loaded.items():
        entry = unit.entry(name)
        if entry is not None and entry.source == _FILE:
            continue
        reading = handed.reading(name)
        if reading.known and reading.value != wanted and not _wrapped(unit, name, reading):
            found.append(name)
    return tuple(found)


def not_handed(
    unit: UnitFacts, handed: Environment | None, entries: Iterable[Entry]
) -> tuple[str, ...] | None:
    """Return which of these entries the running process was not started with; None: not known."""
    if handed is None or handed.status not in _KNOWN:
        return None
    found = []
    for entry in entries:
        reading = handed.reading(entry.name)
        if not entry.known or not reading.known:
            continue
        if reading.value != entry.final and not _wrapped(unit, entry.name, reading):
            found.append(entry.name)
    return tuple(found)


def _wrapped(unit: UnitFacts, name: str, handed: Reading) -> bool:
    """Return whether a wrapper of the command line gives this, or may give anything.

    The process's block is that of its last image: what `env A=1` adds is in it.
    """
    if unit.opaque:
        return True
    entry = unit.behind_wrappers(name)
    if entry is None:
        return bool(unit.open)
    return not entry.known or entry.final == handed.value


def still_handed(unit: UnitFacts, handed: Environment | None) -> tuple[str, ...]:
    """Return what the running process was given and its unit does not set any more.

    Only names that matter by themselves: the manager adds others of its own to each start.
    """
    if handed is None or handed.status not in _KNOWN or unit.open or unit.opaque:
        return ()
    set_now = {one.name for one in (*unit.declared, *unit.handed) if not one.removed}
    return tuple(
        name for name in handed.entries if name not in set_now and is_wanted(name, DEFAULT_WANTED)
    )
