"""Causes of a difference between what a unit declares and what its main process was started with.

systemd.exec(5) fixes the order in which the sources count: the manager's own, PassEnvironment=,
Environment=, EnvironmentFile=, PAM; then UnsetEnvironment= takes out. ExecStart='s wrappers follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.model import Process, Reading, Sentence, Shown
from envprobe.routes.case import Case, Rule, Verdict, cause
from envprobe.routes.hops import HopKind
from envprobe.routes.types import CauseId, Change
from envprobe.routes.words import lost_or, taken
from envprobe.unitfacts import Entry, UnitFacts

_PASSED: Final = "PassEnvironment="
_FILE: Final = "EnvironmentFile="

_OF_SYSTEMD: Final = frozenset(
    {
        *("PATH", "LANG", "USER", "LOGNAME", "HOME", "SHELL", "XDG_RUNTIME_DIR", "TERM"),
        *("INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "MANAGERPID", "MAINPID"),
        *("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LOG_NAMESPACE"),
        *("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "REMOTE_ADDR", "REMOTE_PORT"),
        *("RUNTIME_DIRECTORY", "STATE_DIRECTORY", "CACHE_DIRECTORY", "LOGS_DIRECTORY"),
        *("CONFIGURATION_DIRECTORY", "CREDENTIALS_DIRECTORY", "FDSTORE"),
        *("MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE"),
    }
)
"""What the manager sets by itself for a service (systemd.exec(5), "Environment Variables Set or
Propagated by the Service Manager")."""


def is_main(case: Case, process: Process) -> bool:
    """Return whether a process is the main process of the unit that is known."""
    return case.family.unit is not None and case.family.unit.main_pid == process.pid


def definition_changed(case: Case) -> Iterator[Verdict]:
    """Judge whether the unit's files were changed after the process was started by them."""
    for unit, process in _built(case):
        newer = unit.replaced(unit.files)
        sentence = (
            f"{unit.name} was edited after {process.named} had been started: an earlier definition"
            f" {_set_or_left(case)} {case.name}."
        )
        against = []
        if not newer and not unit.stale:
            sentence = (
                f"What {unit.name} says now was loaded only after {process.named} had been started:"
                f" an earlier definition {_set_or_left(case)} {case.name}."
            )
            against = [Sentence.of(f"None of its files was written after {process.named} started.")]
        told = [Sentence.of(f"{path} was written after the start.") for path in newer]
        told += [Sentence.of(f"{path} is not loaded as it is.") for path in unit.unloaded]
        if unit.need_reload:
            told.append(Sentence.of("The manager itself says that it needs a daemon-reload."))
        told += _loaded(case, unit)
        reload = f"Run `{unit.systemctl} daemon-reload` and r" if unit.stale else "R"
        yield _weighed(
            case,
            unit,
            CauseId.DEFINITION_CHANGED,
            sentence,
            tuple(told),
            tuple(against),
            f"{reload}estart {unit.name}.",
        )


def environment_file(case: Case) -> Iterator[Verdict]:
    """Judge whether an environment file said something else at the start."""
    for unit, process in _built(case):
        entry = unit.entry(case.name)
        if not unit.env_files:
            continue
        sentence = (
            f"An environment file of {unit.name} said something else of {case.name} when"
            f" {process.named} was started."
        )
        newer = unit.replaced(unit.env_files)
        unread = [] if not unit.open or unit.pam else [Sentence.of(f"{unit.open}.")]
        if not newer and not unread:
            why = "None of them was written after the start."
            yield _excluded(CauseId.ENVIRONMENT_FILE, sentence, why)
            continue
        told = [Sentence.of(f"{path} was written after the start.") for path in newer]
        against = []
        if entry is not None and entry.source == _FILE and entry.file not in newer and not unread:
            against = [Sentence.of(f"{entry.file}, which sets it, was not changed.")]
        yield _weighed(
            case,
            unit,
            CauseId.ENVIRONMENT_FILE,
            sentence,
            (*told, *unread),
            tuple(against),
            f"Restart {unit.name}: an environment file is read at each start.",
        )


def exec_start_wrapper(case: Case) -> Iterator[Verdict]:
    """Judge whether a program of ExecStart= in front of the server changed it."""
    for unit, process in _built(case):
        if not unit.hops and not unit.opaque:
            continue
        named = ", ".join(one.program for one in unit.hops) or "its first program"
        sentence = (
            f"A program of ExecStart= ({named}) {taken(case)} {case.name} before {process.named}"
            " was exec'd."
        )
        if unit.opaque:
            opaque = Sentence.of(f"Could not tell at {unit.opaque}.")
            yield _weighed(case, unit, CauseId.EXEC_START_WRAPPER, sentence, (opaque,), (), _LOOK)
            continue
        behind = unit.behind_wrappers(case.name)
        edited = unit.replaced(unit.scripts)
        if _alike(unit.entry(case.name), behind) and not edited:
            why = f"{named}: handed on as declared, by what {unit.name} and its scripts say."
            yield _excluded(CauseId.EXEC_START_WRAPPER, sentence, why)
            continue
        sure = behind is None or behind.known
        told = (
            *(Sentence.of(f"{path} was written after the start.") for path in edited),
            _by(case, behind),
            *(() if sure else _steps(unit)),
        )
        against = tuple(_otherwise(case, behind))
        yield _weighed(case, unit, CauseId.EXEC_START_WRAPPER, sentence, told, against, _LOOK)


_LOOK: Final = "Set it behind the wrapper, or let ExecStart= start the server itself."


def manager_changed(case: Case) -> Iterator[Verdict]:
    """Judge whether the environment of the manager itself was another one at the start."""
    for unit, process in _built(case):
        entry = unit.entry(case.name)
        sentence = (
            f"The manager's own environment was another one when {process.named} was started:"
            f" `{unit.systemctl} set-environment`, unset-environment or import-environment since."
        )
        passed = entry is not None and (entry.given or entry.source == _PASSED)
        unsaid = entry is None and case.change is Change.APPEARED
        if passed or unsaid:
            told = Sentence.of(
                f"{unit.name} passes on what the manager has."
                if entry is not None and entry.source == _PASSED
                else f"{unit.name} does not set {case.name} itself."
            )
            remedy = f"Set {case.name} in {unit.name}, and restart it."
            yield _weighed(case, unit, CauseId.MANAGER_CHANGED, sentence, (told,), (), remedy)
        elif entry is not None:
            why = f"{entry.source} counts more than what the manager has."
            yield _excluded(CauseId.MANAGER_CHANGED, sentence, why)


def pam(case: Case) -> Iterator[Verdict]:
    """Judge whether a PAM module changed it: those count more than all that a unit says."""
    for unit, process in _built(case):
        if unit.pam:
            yield _weighed(
                case,
                unit,
                CauseId.PAM,
                f"A PAM module {taken(case)} {case.name} when {process.named} was started.",
                (Sentence.of(f"{unit.name} has PAMName= (systemd.exec(5))."),),
                remedy="Look in pam_env's files and in /etc/environment.",
            )


def set_by_systemd(case: Case) -> Iterator[Verdict]:
    """Judge whether systemd sets it for each service by itself."""
    for unit, process in _built(case):
        if _by_itself(case, unit):
            yield Verdict(
                cause(
                    CauseId.SET_BY_MANAGER,
                    f"systemd itself sets {case.name} for {process.named}.",
                    (Sentence.of("It does so for each service (systemd.exec(5))."),),
                )
            )


def exec_again(case: Case) -> Iterator[Verdict]:
    """Judge whether something that ExecStart= does not tell ran in the process, and exec'd it."""
    for unit, process in _built(case):
        sentence = (
            f"{process.named} exec'd itself once more, or was exec'd by a program that ExecStart="
            f" does not tell, which {taken(case)} {case.name}."
        )
        yield _weighed(
            case,
            unit,
            CauseId.EXEC_AGAIN,
            sentence,
            (),
            remedy=f"Look in the code of {process.named} for os.exec calls.",
        )


RULES: Final[tuple[tuple[CauseId, Rule], ...]] = (
    (CauseId.DEFINITION_CHANGED, definition_changed),
    (CauseId.ENVIRONMENT_FILE, environment_file),
    (CauseId.EXEC_START_WRAPPER, exec_start_wrapper),
    (CauseId.MANAGER_CHANGED, manager_changed),
    (CauseId.PAM, pam),
    (CauseId.SET_BY_MANAGER, set_by_systemd),
    (CauseId.EXEC_AGAIN, exec_again),
)
"""The rules of the hop from a declaration to the main process, the likeliest first."""


# --- what tells ----------------------------------------------------------------------------------


def _built(case: Case) -> Iterator[tuple[UnitFacts, Process]]:
    unit = case.family.unit
    if unit is not None:
        yield from ((unit, hop.process) for hop in case.of(HopKind.BUILD))


def _given(case: Case) -> Reading | None:
    """Return what the main process was started with, None if it was not read."""
    hop = next(case.of(HopKind.BUILD))
    reading = case.stops[hop.last].reading
    return reading if reading.known else None


def _settled(case: Case, unit: UnitFacts) -> CauseId | None:
    """Return the cause that alone gives exactly what the process was started with, if any."""
    given = _given(case)
    if given is None:
        return None
    entry, behind = unit.entry(case.name), unit.behind_wrappers(case.name)
    if _by_itself(case, unit):
        return CauseId.SET_BY_MANAGER
    edited = unit.stale or unit.replaced((*unit.files, *unit.env_files, *unit.scripts))
    said = behind is not None and behind.known and not unit.opaque
    if said and behind is not None and behind.final == given.value:
        return None if edited or _alike(entry, behind) else CauseId.EXEC_START_WRAPPER
    if unit.stale and case.name in {*unit.loaded, *unit.on_disk}:
        same = unit.loaded.get(case.name) == given.value
        other = unit.on_disk.get(case.name) != given.value
        return CauseId.DEFINITION_CHANGED if same and other else None
    return None


def _by_itself(case: Case, unit: UnitFacts) -> bool:
    unsaid = unit.entry(case.name) is None and unit.behind_wrappers(case.name) is None
    return unsaid and case.change is Change.APPEARED and case.name in _OF_SYSTEMD


def _weighed(
    case: Case,
    unit: UnitFacts,
    identity: CauseId,
    sentence: str,
    told: tuple[Sentence, ...],
    against: tuple[Sentence, ...] = (),
    remedy: str = "",
) -> Verdict:
    """Return a verdict: it does not fit where another cause alone gives just this value."""
    settled = _settled(case, unit)
    if settled in (None, identity):
        return Verdict(cause(identity, sentence, told, against, remedy))
    why = {
        CauseId.EXEC_START_WRAPPER: "What ExecStart= goes through gives exactly this.",
        CauseId.DEFINITION_CHANGED: "The definition that is loaded gives exactly this.",
    }.get(settled, "systemd itself gives it.")
    return _excluded(identity, sentence, why)


def _excluded(identity: CauseId, sentence: str, why: str) -> Verdict:
    return Verdict(cause(identity, sentence, (), (Sentence.of(why),)), fits=False)


def _alike(entry: Entry | None, behind: Entry | None) -> bool:
    """Return whether the wrappers certainly leave what is declared as it is."""
    if behind is None or entry is None:
        return behind is None and entry is None
    return behind.final == entry.final and behind.doubt == entry.doubt


def _loaded(case: Case, unit: UnitFacts) -> Iterator[Sentence]:
    if not unit.stale or case.name not in {*unit.loaded, *unit.on_disk}:
        return
    value = unit.loaded.get(case.name)
    said: tuple[str | Shown, ...] = (
        (f"{case.name}=", Shown(case.name, value)) if value is not None else (f"no {case.name}",)
    )
    yield Sentence.of("What is loaded says ", *said, " in Environment=.")


def _by(case: Case, behind: Entry | None) -> Sentence:
    """Return what the wrappers hand on, and which line of them does it."""
    if behind is None:
        return Sentence.of(f"They hand on no {case.name}.")
    if behind.removed:
        return Sentence.of(f"{behind.removed}: {case.name} is taken out.")
    if behind.doubt or behind.value is None:
        return Sentence.of(f"{behind.place or 'ExecStart='}: {behind.doubt}.")
    place = behind.place or "ExecStart="
    return Sentence.of(f"{place}: {case.name} is set to ", Shown(case.name, behind.value), ".")


def _otherwise(case: Case, behind: Entry | None) -> Iterator[Sentence]:
    given = _given(case)
    if behind is None or not behind.known or given is None:
        return
    if behind.final != given.value:
        yield Sentence.of("They hand on something else than the process was given.")


def _steps(unit: UnitFacts) -> Iterator[Sentence]:
    for one in unit.hops:
        if one.told:
            yield Sentence.of(f"{one.place}: {one.program} {one.told}.")


def _set_or_left(case: Case) -> str:
    return {Change.CHANGED: "gave another", Change.APPEARED: "set"}.get(
        case.change, lost_or(case, "did not set")
    )
