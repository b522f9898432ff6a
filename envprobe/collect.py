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
from envprobe.errors import TargetGoneError, UndeterminedError
from envprobe.model import (
    Death,
    EdgeKind,
    Environment,
    EnvironmentStatus,
    Process,
    Role,
    Snapshot,
    Vanished,
    View,
)
from envprobe.process.access import yama_scope
from envprobe.process.edges import Edges
from envprobe.process.facts import Facts, Look
from envprobe.process.handle import boot_id
from envprobe.process.libraries import with_versions
from envprobe.process.roles import Roles
from envprobe.process.roletable import OTHER, PYTHON
from envprobe.process.selection import as_it_was, is_named, select
from envprobe.process.targets import hidden, is_hidden
from envprobe.process.tracker import tracker_view
from envprobe.process.trackerpipe import holders
from envprobe.process.tree import Member, boot_offset, listing, outline
from envprobe.runner.forked import run_each

MAX_SCANS: Final = 3
_ALWAYS_READ: Final = ("SGLANG_RUN_ID", "RANK", "HOME")
_MAX_RANK_DIGITS: Final = 6
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
        roles = self._roles = Roles(known, self._request.roots)
        given = holders(known, roles, self._facts)
        edges = Edges(known, roles, frozenset(self._facts), given)
        made = {pid: self._process(facts, roles, edges) for pid, facts in self._facts.items()}
        return tuple(_with_tracker(one, made, roles) for one in made.values())

    def _process(self, facts: Facts, roles: Roles, edges: Edges) -> Process:
        member, pid = facts.member, facts.member.pid
        role, was_worker = self._role(facts, roles), self._was_worker(facts, roles)
        if facts.dead:
            role = _of_the_dead(role, was_worker, member)
        owner = edges.image_owner(pid)
        exec_view = facts.exec_view if owner == pid else _not_its_own(facts.exec_view, owner)
        return Process(
            pid=pid,
            identity=facts.identity,
            ppid=member.ppid,
            state=member.state,
            start_time=facts.start_time,
            uid=facts.uid,
            comm=member.comm,
            title=member.title,
            exe=member.exe.removesuffix(" (deleted)") if member.exe else None,
            role=role,
            edge=edges.edge(pid),
            image_owner=owner,
            inner_pid=facts.inner_pid,
            exe_deleted=facts.exe_deleted,
            cwd=facts.cwd,
            secure=facts.secure,
            interpreter=facts.interpreter,
            run_id=member.run_id,
            cgroup=facts.cgroup,
            same_user_namespace=facts.same_user_namespace,
            same_mount_namespace=facts.same_mount_namespace,
            matched=pid in self._selection.matched,
            orphan=not facts.dead and roles.row(pid).worker and self._is_orphan(pid, roles),
            ended=facts.ended,
            death=self._death(facts),
            was_worker=was_worker,
            libraries=facts.libraries,
            environments={View.EXEC: exec_view, View.LIBC: facts.libc_view},
            notes=facts.notes,
        )

    def _role(self, facts: Facts, roles: Roles) -> Role:
        """Return the role, for the rank of a launcher with its number, which RANK holds."""
        role = self._named_role(facts.member, roles)
        return dataclasses.replace(role, ranks=_rank(facts)) if role.name == "rank" else role

    def _was_worker(self, facts: Facts, roles: Roles) -> bool | None:
        """Return whether a dead process held ranks, None if nothing tells; False for the living."""
        if not facts.dead:
            return False
        named = bool(facts.member.title) and self._named_role(facts.member, roles).worker
        return named or roles.was_worker(facts.member.pid)

    def _death(self, facts: Facts) -> Death | None:
        if not facts.dead:
            return None
        listed = self._listing[facts.member.pid]
        # What still had a title when it was listed, or in an earlier scan, was alive then.
        early = listed.state in "ZX" and not listed.title
        return Death.BEFORE if early else Death.DURING

    def _named_role(self, member: Member, roles: Roles) -> Role:
        """Return the role by the tree, or by a pattern of the user."""
        role, row = roles[member.pid], roles.row(member.pid)
        unknown = row in (OTHER, PYTHON) or row.spawned
        named = member.pid not in self._request.roots and is_named(member, self._request.match)
        if named and unknown and role.final and not role.worker:
            return Role("matched", worker=True, evidence="a pattern of --match names it")
        return role

    def _is_orphan(self, pid: int, roles: Roles) -> bool:
        """Return whether a titled worker belongs to no living launch.

        Its launcher is gone if another process has adopted it, or if no process above it, up to
        what would be its launcher, has its SGLANG_RUN_ID: SGLang sets that in the launcher before
        it starts anything (0.5.23 srt/entrypoints/engine.py).
        """
        if roles.adopted(pid):
            return True
        run_id, launch = self._facts[pid].member.run_id, roles.launch_of(pid)
        if not run_id:
            return False
        for above in self._listing.ancestors(pid):
            facts = self._facts.get(above)
            if facts is None or facts.libc_view.status is not EnvironmentStatus.COMPLETE:
                return False
            if facts.member.run_id == run_id:
                return False
            if above == launch:
                return True
        return False

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
                one.pid, made.get(one.pid) or self._named_role(one, roles), one.title
            )
            for one in chosen
        }

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


def _of_the_dead(role: Role, was_worker: bool | None, member: Member) -> Role:
    """Return the role of a dead process: never a worker's, and none that nothing shows."""
    if was_worker is None and not member.title:
        return Role("dead child", evidence="nothing that is left tells what it was")
    return dataclasses.replace(role, worker=False, final=True)


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


def _not_its_own(view: Environment, owner: int) -> Environment:
    whose = f"PID {owner}" if owner else "a process that is gone"
    return Environment(
        View.EXEC,
        EnvironmentStatus.NOT_APPLICABLE,
        block=view.block,
        source=view.source,
        at=view.at,
        reason=f"it was forked and has not exec'd: its block is that of {whose}",
    )


def _with_tracker(process: Process, made: dict[int, Process], roles: Roles) -> Process:
    """Let the resource tracker stand in for a spawn child's exec view where that has gaps."""
    own = process.environment(View.EXEC)
    gaps = own.status not in (EnvironmentStatus.COMPLETE, EnvironmentStatus.NOT_APPLICABLE)
    found = roles.tracker_of(process.pid)
    tracker = made.get(found.pid) if found else None
    if not gaps or tracker is None or process.edge.kind is not EdgeKind.SPAWN:
        return process
    view = tracker_view(
        own,
        tracker.environment(View.EXEC),
        tracker_pid=tracker.pid,
        tracker_start=tracker.start_time,
        worker_start=process.start_time,
    )
    return dataclasses.replace(process, environments={**process.environments, View.EXEC: view})


def _rank(facts: Facts) -> dict[str, int]:
    """Return the number that a launcher gave a rank in RANK, if any."""
    for view in (facts.libc_view, facts.exec_view):
        value = view.entries.get("RANK")
        text = value.reveal() if value is not None else b""
        if text.isdigit() and len(text) <= _MAX_RANK_DIGITS:
            return {"rank": int(text)}
    return {}
