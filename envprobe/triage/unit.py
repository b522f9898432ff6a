"""A unit's last start: what its manager says, and the logs that it wrote."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from envprobe import inputfile
from envprobe.errors import EnvprobeError, UndeterminedError, UsageError
from envprobe.launch import live, specifiers, unitfile
from envprobe.launch.live import Live
from envprobe.launch.manager import Manager
from envprobe.launch.specifiers import Scope
from envprobe.launch.unitfile import Assignment
from envprobe.triage import journal, reading, table
from envprobe.triage.facts import Log, Problem, Triage, Unit

_PROPERTIES: Final = ("ExecMainStartTimestampMonotonic", "InvocationID")
_TO_FILE: Final = ("append:", "file:", "truncate:")
_STATUS: Final = "exit status "
_MISSING: Final = frozenset(("not-found", ""))


def look(manager: Manager, name: str) -> Triage:
    """Return what is known of a unit's last start: its manager's word, journal and log files.

    What of it cannot be read is among the problems. Raises UsageError if there is no such unit,
    UndeterminedError if the manager cannot be asked or the unit cannot be loaded.
    """
    try:
        told = live.ask(manager, name)
    except UndeterminedError as error:
        option = "--user-unit" if manager.user else "--unit"
        raise UndeterminedError(
            error.message, f"Give its log: `journalctl {option}={name} | envprobe triage -`."
        ) from None
    if told.load_state in _MISSING:
        user = "" if manager.user else ", or --user for the manager of your user"
        raise UsageError(
            f"there is no unit {told.name}",
            f"`systemctl{' --user' if manager.user else ''} list-units --all` lists them{user}.",
        )
    if told.load_state != "loaded":
        raise UndeterminedError(
            f"{told.name} is not loaded ({told.load_state}): nothing of it can have been started",
            f"`envprobe unit {told.name}` says what is wrong with its file.",
        )
    unit = _unit(manager, told)
    logs: list[Log] = []
    problems: list[Problem] = []
    for path in unit.files:
        try:
            logs.append(reading.read(path))
        except EnvprobeError as error:
            problems.append(Problem(error.message, error.remedy))
    try:
        logs.append(journal.read(manager, unit.live.name, unit.invocation, unit.began))
    except UndeterminedError as error:
        problems.append(Problem(error.message, error.remedy))
    return Triage(tuple(logs), unit, tuple(problems))


def _unit(manager: Manager, told: Live) -> Unit:
    more = manager.properties(told.name, _PROPERTIES)
    began, invocation = ((more.get(name) or [""])[0] for name in _PROPERTIES)
    status = told.code.removeprefix(_STATUS)
    return Unit(
        live=told,
        user=manager.user,
        invocation=invocation,
        began=int(began) if began.isdecimal() else 0,
        states=tuple(table.states(told.result, int(status) if status.isdecimal() else None)),
        files=tuple(_files(manager, told)),
    )


def _files(manager: Manager, told: Live) -> Iterator[str]:
    """Yield the files that a unit writes its output to, that of its errors first.

    systemctl tells `append` without the path (measured, systemd 252): it is read from the unit's
    files as they are now. systemd.exec(5): StandardError= is `inherit` unless it is given.
    """
    given = {"StandardOutput": "", "StandardError": "inherit"}
    scope = Scope(
        unit=told.name,
        path=told.fragment,
        user_manager=manager.user,
        uid=os.geteuid(),
        variables=manager.environment,
        version=manager.version,
    )
    for path in filter(None, (told.fragment, *told.drop_ins)):
        for one in _assignments(path):
            if one.section == "Service" and one.key in given:
                given[one.key] = _expanded(one.value, scope)
    if given["StandardError"] == "inherit":
        given["StandardError"] = given["StandardOutput"]
    outputs = (given["StandardError"], given["StandardOutput"])
    found = (one.partition(":")[2] for one in outputs if one.startswith(_TO_FILE))
    yield from dict.fromkeys(one for one in found if one.startswith("/"))


def _assignments(path: str) -> tuple[Assignment, ...]:
    try:
        return unitfile.parse(path, inputfile.read(path, unitfile.MAX_BYTES, remedy="")).assignments
    except (FileNotFoundError, UsageError):
        return ()


def _expanded(value: str, scope: Scope) -> str:
    try:
        return specifiers.expand(value, scope)
    except (specifiers.UnknownError, specifiers.RefusedError):
        return ""
