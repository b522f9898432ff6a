"""From a unit, or a process of one, to the roots of a scan and the declared view in front."""

from __future__ import annotations

import dataclasses
import fnmatch
import os
import re
from collections.abc import Callable, Iterable
from typing import Final

from envprobe import redact
from envprobe.errors import EnvprobeError
from envprobe.launch import behind
from envprobe.launch.definition import Context, Definition, of_name
from envprobe.launch.live import Live
from envprobe.model import Carries, Confidence, Edge, EdgeKind, Process, Snapshot, View
from envprobe.process import targets
from envprobe.process.tree import listing

_LAUNCHER: Final = "systemd"


@dataclasses.dataclass(frozen=True, slots=True)
class Behind:
    """What was found of the unit behind a process: its definition, or why there is none."""

    definition: Definition | None = None
    note: str = ""


def behind_pid(
    pid: int, service: tuple[str, int | None], context_of: Callable[[bool], Context]
) -> Behind:
    """Return the definition of the service whose main process this is, else why it is not known.

    `service` is what `cgroups.service_of` says; `context_of` gives the context of the manager of
    the user (True) or of the system. Never raises for a manager that cannot be asked.
    """
    name, uid = service
    if uid is not None and uid != os.geteuid():
        return Behind(note=_unasked(pid, name, f"it is of the user manager of uid {uid}"))
    reasons = []
    for user in (True,) if uid is not None else (False, True):
        try:
            found = of_name(name, context_of(user))
        except EnvprobeError as error:
            reasons.append(error.message)
            continue
        live = found.live
        if live is not None and live.main_pid == pid:
            return Behind(found)
        if live is not None and live.members([pid]) == sorted({pid, live.main_pid} - {0}):
            other = f"its main process is {live.main_pid or 'none'}"
            return Behind(note=_unasked(pid, name, other))
        reasons.append(f"the {'user' if user else 'system'} manager has another unit of that name")
    return Behind(note=_unasked(pid, name, "; ".join(reasons)))


def _unasked(pid: int, name: str, why: str) -> str:
    return f"PID {pid} is in the control group of {name}, whose declaration is not shown: {why}"


def roots_of(live: Live) -> tuple[int, ...]:
    """Return the main process of a unit, then what is in its control group outside that tree.

    Raises TargetGoneError if the main process is gone, UndeterminedError if /proc hides it. This
    process, and what started it, are never among them: a unit may run envprobe itself.
    """
    (main,) = targets.resolve(live.main_pid).roots
    known = listing()
    barred = {os.getpid(), *known.ancestors(os.getpid())}
    living = [
        pid
        for pid in live.members(known)
        if pid in known and known[pid].state not in "ZX" and pid not in barred
    ]
    tops = known.tops([*living, main])
    return (main, *(pid for pid in tops if pid != main))


def wanted_with(definition: Definition, patterns: Iterable[str]) -> tuple[str, ...]:
    """Return patterns that name what the definition speaks of as well."""
    named = map(redact.pattern_of, behind.names_of(definition))
    return tuple(dict.fromkeys((*patterns, *named)))


def attached(snapshot: Snapshot, definition: Definition, *, asked: bool) -> Snapshot:
    """Return a snapshot with the unit, and the declared view in front of its main process.

    It is as it was if that process is not in it, or is another one by now.
    """
    live = definition.live
    main = snapshot.process(live.main_pid) if live is not None else None
    if live is None or main is None or not _is_it(main, live):
        return snapshot
    matches = re.compile("|".join(map(fnmatch.translate, snapshot.wanted))).match

    def wanted(name: str) -> bool:
        return matches(name) is not None

    facts = behind.facts_of(definition, wanted, asked=asked)
    started = dataclasses.replace(
        main,
        environments={View.DECLARED: behind.view_of(definition, wanted), **main.environments},
        edge=_edge(main, definition),
    )
    processes = tuple(started if one is main else one for one in snapshot.processes)
    return dataclasses.replace(snapshot, processes=processes, unit=facts)


def _is_it(main: Process, live: Live) -> bool:
    """Return whether a process is the one of which the manager spoke: numbers are used again."""
    return live.started is None or abs(main.start_time - live.started) < 1


def _edge(main: Process, definition: Definition) -> Edge:
    manager = "user's" if definition.user_manager else "system's"
    evidence = f"the {manager} service manager names it the main process of {definition.subject}"
    return Edge(EdgeKind.ROOT, None, Carries.BUILT_BLOCK, (evidence,), _LAUNCHER, Confidence.PROVED)
