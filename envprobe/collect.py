"""From pids to a Snapshot: facts only, read in children that can be killed, with no verdicts."""

from __future__ import annotations

import dataclasses
import fnmatch
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from envprobe import __version__
from envprobe.assembly import Assembly, named_role
from envprobe.errors import TargetGoneError, UndeterminedError
from envprobe.model import Process, Role, Snapshot, Vanished
from envprobe.process.access import yama_scope
from envprobe.process.facts import Facts, Look
from envprobe.process.handle import boot_id
from envprobe.process.libraries import with_versions
from envprobe.process.roles import Roles
from envprobe.process.selection import as_it_was, select
from envprobe.process.targets import hidden, is_hidden
from envprobe.process.tree import Member, boot_offset, listing, outline
from envprobe.runner.forked import run_each

MAX_SCANS: Final = 3
_ALWAYS_READ: Final = ("SGLANG_RUN_ID", "RANK", "HOME")
_MAX_FOREIGN_IMAGES: Final = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """What to collect.

    `roots` are pids of this pid namespace; `wanted` fnmatch patterns (case sensitive) of the names
    whose values are kept; `match` fnmatch patterns on titles and command lines of processes outside
    the tree. `deadline` is in seconds for each process. `orphans` adds workers whose launcher died.
    With `python` the interpreters of the workers, of their launchers and of all processes of
    `python_roles` or among `python_pids` are read too; all but the launchers are asked the
    well-formed `queries` (`cpython.query`). `libraries` are patterns (fnmatch) of shared objects to
    look for.
    """

    roots: tuple[int, ...]
    wanted: tuple[str, ...]
    match: tuple[str, ...] = ()
    deadline: float = 2.0
    orphans: bool = True
    python: bool = True
    python_roles: tuple[str, ...] = ()
    python_pids: tuple[int, ...] = ()
    queries: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()


def collect(request: Request) -> Snapshot:
    """Read the tree below the roots, and what else the request adds.

    Reads again, at most `MAX_SCANS` times, while processes come and go. Raises TargetGoneError when
    no root is (any longer) there, UndeterminedError when /proc hides the roots, or when nothing but
    patterns was given and none matches.
    """
    started = time.time()
    look = Look(
        _predicate(request.wanted),
        boot_offset(),
        request.deadline,
        patterns=request.libraries,
    )
    seen: dict[tuple[int, int], Vanished] = {}
    before: dict[tuple[int, int], Member] = {}
    scans, stable = 0, False
    while not stable and scans < MAX_SCANS:
        scans += 1
        scan = _Scan(request, look, before)
        before.update(scan.chosen())
        seen.update(scan.seen())
        stable = scan.still_holds()
    final = {(one.identity.pid, one.identity.start_ticks) for one in scan.processes}
    processes = scan.with_inside() if request.python else scan.processes
    return Snapshot(
        host=os.uname().nodename,
        boot_id=boot_id(),
        started=started,
        ended=time.time(),
        roots=request.roots,
        processes=with_versions(processes, request.deadline),
        wanted=request.wanted,
        vanished=tuple(gone for key, gone in sorted(seen.items()) if key not in final),
        stable=stable,
        scans=scans,
        yama_scope=yama_scope(),
        reader_uid=os.geteuid(),
        notes=scan.notes(),
        tool_version=__version__,
    )


def _predicate(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Compile the patterns, and the names that are always read, into one test."""
    parts = [fnmatch.translate(pattern) for pattern in (*patterns, *_ALWAYS_READ)]
    matches = re.compile("|".join(parts)).match
    return lambda name: matches(name) is not None


class _Scan:
    """One look at everything: listed, read, then put together."""

    def __init__(
        self, request: Request, look: Look, before: Mapping[tuple[int, int], Member]
    ) -> None:
        self._request = request
        self._look = look
        self._listing = as_it_was(listing(request.deadline), before)
        self._selection = select(
            self._listing, request.roots, request.match, orphans=request.orphans
        )
        if request.roots and not self._selection.tree:
            raise _gone(request.roots)
        if not (self._selection.tree or self._selection.matched):
            raise UndeterminedError(
                "no-workers: no process that this user can see matches " + ", ".join(request.match),
                "Check the pattern against `ps -eo pid,args`: it must match a whole title or "
                "command line, so that most patterns end in `*`.",
            )
        self._facts = self._read()
        self.processes = self._assemble()

    # --- reading

    def _read(self) -> dict[int, Facts]:
        """Read in a child; what hangs there once more without memory, in another."""
        members = [self._listing[pid] for pid in self._selection.pids]
        late: list[Member] = []

        def on_timeout(member: Member) -> None:
            late.append(member)

        found = dict(self._each(members, self._look, on_timeout))
        calm = dataclasses.replace(self._look, memory=False)
        found.update(self._each(late, calm, calm.silent))
        facts = {one.pid: found[one] for one in members}
        read = {pid: one for pid, one in facts.items() if one is not None}
        roots = self._request.roots
        if roots and not any(pid in read and not read[pid].dead for pid in roots):
            raise _gone(roots)
        return read

    def _each(
        self, members: list[Member], look: Look, on_timeout: Callable[[Member], Facts | None]
    ) -> Iterator[tuple[Member, Facts | None]]:
        return run_each(
            members,
            look.read,
            deadline=look.deadline,
            on_timeout=on_timeout,
            on_crash=look.crashed,
        )

    def _images_above(self) -> list[Member]:
        """Return what owns the images of fork children whose parents are outside the scan."""
        outside: dict[Member, None] = {}
        for facts in self._facts.values():
            member: Member | None = facts.member
            while member is not None and member.forked is not False:
                member = self._listing.parent(member.pid)
                if member is not None and member.pid not in self._facts:
                    outside[member] = None
        bare = dataclasses.replace(self._look, wanted=lambda name: False)
        found = self._each(list(outside)[:_MAX_FOREIGN_IMAGES], bare, lambda _: None)
        return [facts.member for _, facts in found if facts is not None]

    # --- putting together

    def _assemble(self) -> tuple[Process, ...]:
        members = [facts.member for facts in self._facts.values()]
        known = self._listing.updated((*self._images_above(), *members))
        request = self._request
        made = Assembly(
            self._listing, known, self._facts, self._selection, request.roots, request.match
        )
        self._roles = made.roles
        return made.processes()

    # --- afterwards

    def with_inside(self) -> tuple[Process, ...]:
        """Return the processes, those that count with what their interpreters say."""
        # Slow to import: --no-python spares that too.
        from envprobe import inside

        request, look = self._request, self._look
        silent = [pid for pid, facts in self._facts.items() if not facts.answered]
        asked = inside.asked_of(
            self.processes,
            self._roles.launch_of,
            request.python_roles,
            request.queries,
            request.python_pids,
        )
        return inside.with_inside(self.processes, asked, silent, look.wanted, look.deadline)

    def seen(self) -> dict[tuple[int, int], Vanished]:
        """Return every process that was chosen, by number and start, in case it is gone later."""
        # Who was dead already, and is collected then, is lost as the worker that it was.
        made = {
            one.pid: dataclasses.replace(one.role, worker=True) if one.was_worker else one.role
            for one in self.processes
        }
        roles = Roles(self._listing, self._request.roots)
        chosen = [self._listing[pid] for pid in self._selection.pids]
        return {
            (one.pid, one.start_ticks): Vanished(
                one.pid, made.get(one.pid) or self._role(one, roles), one.title
            )
            for one in chosen
        }

    def _role(self, member: Member, roles: Roles) -> Role:
        return named_role(member, roles, self._request.roots, self._request.match)

    def chosen(self) -> dict[tuple[int, int], Member]:
        """Return the processes of this scan, by number and start, as they were seen last."""
        members = (
            self._facts[pid].member if pid in self._facts else self._listing[pid]
            for pid in self._selection.pids
        )
        return {(one.pid, one.start_ticks): one for one in members}

    def still_holds(self) -> bool:
        """Return whether the same processes are there now as were read."""
        now = outline()
        tree = now.descendants(self._request.roots, without=os.getpid())
        others = (*self._selection.matched, *self._selection.orphans)
        there = {(pid, now[pid].start_ticks) for pid in (*tree, *others) if pid in now}
        members = (facts.member for facts in self._facts.values())
        return there == {(member.pid, member.start_ticks) for member in members}

    def notes(self) -> tuple[str, ...]:
        """Return what the reader could not see at all."""
        if not self._listing.hidden:
            return ()
        return (
            f"{self._listing.hidden} processes are hidden from this user (hidepid): run envprobe "
            "as root to see whether they belong to the tree",
        )


def _gone(roots: tuple[int, ...]) -> TargetGoneError | UndeterminedError:
    """Return the error for roots of which none can be found."""
    unseen = next((pid for pid in roots if is_hidden(pid)), None)
    if unseen is not None:
        return hidden(unseen)
    named = ", ".join(str(pid) for pid in roots)
    return TargetGoneError(
        f"the target (PID {named}) is gone",
        "Look in the server's log for the reason of its end and start the server again.",
    )
