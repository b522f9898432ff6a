"""From what `workers` is pointed at to the processes to scan, and the unit in front of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from envprobe import cli_definition
from envprobe.errors import NotYetError, TargetGoneError, UsageError
from envprobe.process import cgroups, targets

if TYPE_CHECKING:
    from envprobe.collect import Request
    from envprobe.launch.definition import Definition
    from envprobe.launch.live import Live
    from envprobe.model import Snapshot
    from envprobe.unitscan import Behind


@dataclasses.dataclass(frozen=True)
class Pointer:
    """What the user points at: a process, a group, a container, patterns, or a service by name.

    `user`: the service is one of the calling user's manager. `waiting`: what is not there yet may
    come.
    """

    pid: int | None = None
    cgroup: str | None = None
    container: str | None = None
    match: tuple[str, ...] = ()
    unit: str | None = None
    user: bool = False
    waiting: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """The roots of a scan, and the definition of the unit whose main process the first one is.

    `asked`: the user named the unit. `note` says why a unit's declaration is not known.
    """

    roots: tuple[int, ...]
    definition: Definition | None = None
    asked: bool = False
    note: str = ""

    def wanted(self, patterns: tuple[str, ...]) -> tuple[str, ...]:
        """Return the patterns of the names to read: what the unit speaks of is among them."""
        if self.definition is None:
            return patterns
        from envprobe import unitscan

        return unitscan.wanted_with(self.definition, patterns)

    def attached(self, snapshot: Snapshot) -> Snapshot:
        """Return a scan of these roots with what is known of the unit."""
        if self.note:
            snapshot = dataclasses.replace(snapshot, notes=(*snapshot.notes, self.note))
        if self.definition is None:
            return snapshot
        from envprobe import unitscan

        return unitscan.attached(snapshot, self.definition, asked=self.asked)


class Finder:
    """Finds the target again for each scan; a manager is asked once for each process."""

    def __init__(self, pointer: Pointer) -> None:
        self._pointer = pointer
        self._behind: dict[int, Behind | None] = {}

    def find(self) -> Found:
        """Return what to scan now.

        Raises what `targets.resolve` raises; for a unit UsageError if there is none of that name,
        UndeterminedError if its manager cannot be asked, NotYetError while one that is waited for
        is being started, and TargetGoneError if it has no main process.
        """
        pointer = self._pointer
        if pointer.unit is not None:
            return self._of_unit(pointer.unit)
        roots = targets.resolve(pointer.pid, pointer.cgroup, pointer.container, pointer.match).roots
        behind = self._unit_behind(roots[0]) if len(roots) == 1 else None
        if behind is None:
            return Found(roots)
        return Found(roots, behind.definition, note=behind.note)

    def lost(self, error: TargetGoneError) -> TargetGoneError | NotYetError:
        """Return what it means that a root has gone: the next one of a unit may be waited for."""
        if self._pointer.unit is None or not self._pointer.waiting:
            return error
        return NotYetError(error.message, error.remedy)

    def _of_unit(self, name: str) -> Found:
        from envprobe import unitscan
        from envprobe.launch import definition

        found = definition.of_name(name, cli_definition.context_of(user=self._pointer.user))
        live = found.live
        assert live is not None
        passing = self._pointer.waiting and live.active == "deactivating"
        if not live.running or passing:
            raise _not_running(live, user=self._pointer.user, waiting=self._pointer.waiting)
        try:
            return Found(unitscan.roots_of(live), found, asked=True)
        except TargetGoneError as error:
            raise self.lost(error) from None

    def _unit_behind(self, pid: int) -> Behind | None:
        if pid not in self._behind:
            service = cgroups.service_of(cgroups.groups_of(pid))
            self._behind[pid] = None if service is None else _asked(pid, service)
        return self._behind[pid]


def scanner(pointer: Pointer, request: Request) -> Callable[[], Snapshot]:
    """Return what scans the target, found anew each time; the roots of `request` are left out.

    It raises what `Finder.find` and `collect.collect` raise.
    """
    from envprobe import collect

    finder = Finder(pointer)

    def scan() -> Snapshot:
        target = finder.find()
        asked = dataclasses.replace(
            request, roots=target.roots, wanted=target.wanted(request.wanted)
        )
        try:
            return target.attached(collect.collect(asked))
        except TargetGoneError as error:
            raise finder.lost(error) from None

    return scan


def check(pointer: Pointer) -> None:
    """Raise UsageError for a unit that is pointed at together with something else, or as a file."""
    others = [
        name
        for name, given in (
            ("--pid", pointer.pid is not None),
            ("--cgroup", pointer.cgroup is not None),
            ("--container", pointer.container is not None),
        )
        if given
    ]
    if pointer.unit is None:
        if pointer.user:
            raise UsageError(
                "--user says which manager --unit is of, and there is no --unit",
                "Add --unit NAME, or leave --user out.",
            )
        return
    if others:
        raise UsageError(
            f"--unit and {others[0]} exclude each other: the processes of a unit are those of its"
            " control group",
            "Leave one of the two out.",
        )
    if "/" in pointer.unit:
        raise UsageError(
            f"--unit {pointer.unit} is a file: only a unit of a running manager has processes",
            "Give the unit's name; `envprobe unit FILE` reads a file.",
        )
    from envprobe.launch.live import unit_name

    unit_name(pointer.unit)


def _asked(pid: int, service: tuple[str, int | None]) -> Behind:
    from envprobe import unitscan

    return unitscan.behind_pid(pid, service, lambda user: cli_definition.context_of(user=user))


def _not_running(live: Live, *, user: bool, waiting: bool) -> TargetGoneError | NotYetError:
    """Return the error for a unit without a main process: its state, and how it ended."""
    coming = live.job or live.active in ("activating", "deactivating", "reloading")
    state = f"{live.active} ({live.sub})"
    if waiting and coming:
        return NotYetError(
            f"{live.name} has no new main process yet: it is {state}",
            "Wait longer with --timeout, or look at what its start is waiting for.",
        )
    return TargetGoneError(
        f"{live.name} has no main process (MainPID=0): it is {state}{_ended(live)}",
        f"Look at `journalctl{' --user' if user else ''} -u {live.name}` for why,"
        f" and start it with `systemctl{' --user' if user else ''} start {live.name}`;"
        " --wait waits for one that is being started.",
    )


def _ended(live: Live) -> str:
    from envprobe.checks.unit.unit_failed import result

    if live.failed:
        return f": {result(live)}"
    if live.load_error:
        return f": the manager refuses it: {live.load_error}"
    if live.code:
        return f"; its last main process ended with {live.code}"
    return "; it has not been started, or was stopped"
