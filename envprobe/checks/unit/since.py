"""What changed since a unit was loaded or its process was started: the rules of two commands.

`unit` and `workers` judge the same facts: each has checks of its own that tell what is found here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Severity
from envprobe.checks.unit.loaded import (
    differing,
    not_handed,
    not_handed_of_loaded,
    still_handed,
)
from envprobe.checks.who import moment
from envprobe.model import Environment, Sentence
from envprobe.unitfacts import UnitFacts

_OWN: Final = ("PassEnvironment=", "Environment=")
_FILE: Final = "EnvironmentFile="
_SAME: Final = 0.01
"""Seconds within which two changes of a unit's state are one: each is converted to a time."""


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """One thing that has changed: `names` are the variables it concerns, None: not known.

    `attempt` says whether a restart was tried since, where that is the question. `shown` is false
    where nothing but the difference itself speaks for a change: no file was written since.
    """

    message: str
    severity: Severity
    names: tuple[str, ...] | None
    evidence: tuple[Sentence, ...] = ()
    remedy: str = ""
    attempt: str = ""
    shown: bool = True


def not_reloaded(unit: UnitFacts) -> Told | None:
    """Judge whether the files of a unit were changed after the manager loaded them."""
    if not unit.stale:
        return None
    names = differing(unit)
    said = f"differ in {', '.join(names)}" if names else "agree in Environment="
    evidence = [Sentence.of(f"What is loaded and what the files say {said}.")]
    for path in unit.unloaded:
        gone = path in unit.drop_ins
        evidence.append(Sentence.of(f"{path} is {'gone since' if gone else 'not loaded'}."))
    if not unit.need_reload:
        evidence.append(Sentence.of("systemd itself says NeedDaemonReload=no."))
    return Told(
        f"{unit.name} was edited and not loaded again: a restart uses the old definition.",
        Severity.ERROR,
        names,
        tuple(evidence),
        f"Run `{unit.systemctl} daemon-reload`, then restart the unit.",
    )


def not_restarted(unit: UnitFacts, handed: Environment | None) -> Told | None:
    """Judge whether the main process was started before its unit was changed.

    `handed` is what it was started with.
    """
    if unit.started is None:
        return None
    newer = () if unit.stale else unit.newer(unit.files)
    names = not_handed_of_loaded(unit, handed) if unit.stale else _differ(unit, handed)
    if not newer and not names:
        return None
    return Told(
        _message(unit.main_pid, newer, names),
        Severity.WARNING if names == () else Severity.ERROR,
        names,
        (
            Sentence.of(f"The process was started at {moment(unit.started)}."),
            *(
                Sentence.of(f"{path} was changed at {moment(unit.modified[path])}.")
                for path in newer
            ),
        ),
        attempt=_attempt(unit),
        shown=unit.stale or bool(unit.replaced(unit.files)),
    )


def _differ(unit: UnitFacts, handed: Environment | None) -> tuple[str, ...] | None:
    """Return in what the process was started otherwise than its unit itself says."""
    own = [one for one in unit.declared if one.source in _OWN or one.removed]
    names = not_handed(unit, handed, own)
    if names is None:
        return None
    return (*names, *(name for name in still_handed(unit, handed) if name not in names))


def _message(pid: int, newer: tuple[str, ...], names: tuple[str, ...] | None) -> str:
    if names:
        return (
            f"Process {pid} was started with another definition: it was not given what the unit"
            f" says now for {', '.join(names)}."
        )
    told = "was started before the unit was changed"
    if names is None:
        return f"Process {pid} {told}; with which variables it was started cannot be read."
    return f"Process {pid} {told}; the variables that it was given are those that it says now."


def _attempt(unit: UnitFacts) -> str:
    """Return what the manager says of a restart since the process was started.

    A restart that is refused before it stops anything leaves the state as it was: where the unit
    itself is in order, only the journal tells it from one that nobody asked for.
    """
    state = f"{unit.active} ({unit.sub})"
    if unit.load_state not in ("", "loaded"):
        why = f": {unit.load_error.rstrip('.')}" if unit.load_error else ""
        return (
            f"A restart fails and leaves the old process: the manager refuses the unit as it is now"
            f" ({unit.load_state}{why})."
        )
    if unit.job or unit.active in ("deactivating", "activating"):
        return f"A restart or stop has begun and has not ended: the unit is {state}."
    if unit.result not in ("", "success"):
        return f"The last attempt to start or stop it failed ({unit.result}); the unit is {state}."
    since, changed = unit.active_since, unit.state_changed
    if since is not None and changed is not None and changed > since + _SAME:
        return (
            f"It has been active since {moment(since)}, and its state changed at {moment(changed)}:"
            " it was reloaded (`systemctl reload`), which starts no new process, or a restart"
            " failed."
        )
    return (
        f"No restart has been done: it has been active since {moment(since)}. One that was"
        f" refused before it began is told by `journalctl{' --user' if unit.user_manager else ''}"
        f" -u {unit.name}` alone."
    )


def env_files(unit: UnitFacts, handed: Environment | None) -> Iterator[Told]:
    """Judge which environment files were changed after the main process was started."""
    if unit.started is None:
        return
    for path in unit.env_files:
        lines = [one for one in unit.declared if one.source == _FILE and one.file == path]
        names = not_handed(unit, handed, lines)
        if not unit.newer((path,)) and not names:
            continue
        said = "does not hold what it was started with"
        if names:
            said = f"says something else now for {', '.join(names)}"
        elif names == ():
            said = "was changed since, but says the same"
        yield Told(
            f"{path} is read at each start, and for process {unit.main_pid} {said}.",
            Severity.WARNING if names == () else Severity.ERROR,
            names,
            (
                Sentence.of(f"The process was started at {moment(unit.started)}."),
                Sentence.of(f"{path} was changed at {moment(unit.modified.get(path))}."),
            ),
            shown=bool(unit.replaced((path,))),
        )
