"""From what was read of single processes to the processes of a scan: roles, edges, the dead."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from envprobe.model import Death, EdgeKind, Environment, EnvironmentStatus, Process, Role, View
from envprobe.process.edges import Edges
from envprobe.process.facts import Facts
from envprobe.process.roles import Roles
from envprobe.process.roletable import OTHER, PYTHON
from envprobe.process.selection import Selection, is_named
from envprobe.process.tracker import tracker_view
from envprobe.process.trackerpipe import holders
from envprobe.process.tree import Listing, Member

_MAX_RANK_DIGITS: Final = 6


class Assembly:
    """The processes of one scan.

    `listing` is what was there, `known` the same with what was read of each process, and of those
    above that own an image. `roots` are the pids that were asked for, `match` the patterns.
    """

    def __init__(
        self,
        listing: Listing,
        known: Listing,
        facts: Mapping[int, Facts],
        selection: Selection,
        roots: tuple[int, ...],
        match: tuple[str, ...],
    ) -> None:
        self._listing = listing
        self._facts = facts
        self._matched = selection.matched
        self._roots = roots
        self._match = match
        self.roles = Roles(known, roots)
        given = holders(known, self.roles, facts)
        self._edges = Edges(known, self.roles, frozenset(facts), given)

    def processes(self) -> tuple[Process, ...]:
        """Return them in the order in which they were read."""
        made = {pid: self._process(facts) for pid, facts in self._facts.items()}
        return tuple(_with_tracker(one, made, self.roles) for one in made.values())

    def _process(self, facts: Facts) -> Process:
        member, pid = facts.member, facts.member.pid
        role, was_worker = self._role(facts), self._was_worker(facts)
        if facts.dead:
            role = _of_the_dead(role, was_worker, member)
        owner = self._edges.image_owner(pid)
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
            edge=self._edges.edge(pid),
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
            matched=pid in self._matched,
            orphan=not facts.dead and self.roles.row(pid).worker and self._is_orphan(pid),
            ended=facts.ended,
            death=self._death(facts),
            was_worker=was_worker,
            libraries=facts.libraries,
            environments={View.EXEC: exec_view, View.LIBC: facts.libc_view},
            notes=facts.notes,
        )

    def _role(self, facts: Facts) -> Role:
        """Return the role, for the rank of a launcher with its number, which RANK holds."""
        role = self._named(facts.member)
        return dataclasses.replace(role, ranks=_rank(facts)) if role.name == "rank" else role

    def _was_worker(self, facts: Facts) -> bool | None:
        """Return whether a dead process held ranks, None if nothing tells; False for the living."""
        if not facts.dead:
            return False
        named = bool(facts.member.title) and self._named(facts.member).worker
        return named or self.roles.was_worker(facts.member.pid)

    def _death(self, facts: Facts) -> Death | None:
        if not facts.dead:
            return None
        listed = self._listing[facts.member.pid]
        # What still had a title when it was listed, or in an earlier scan, was alive then.
        early = listed.state in "ZX" and not listed.title
        return Death.BEFORE if early else Death.DURING

    def _is_orphan(self, pid: int) -> bool:
        """Return whether a titled worker belongs to no living launch.

        Its launcher is gone if another process has adopted it, or if no process above it, up to
        what would be its launcher, has its SGLANG_RUN_ID: SGLang sets that in the launcher before
        it starts anything (0.5.23 srt/entrypoints/engine.py).
        """
        if self.roles.adopted(pid):
            return True
        run_id, launch = self._facts[pid].member.run_id, self.roles.launch_of(pid)
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

    def _named(self, member: Member) -> Role:
        return named_role(member, self.roles, self._roots, self._match)


def named_role(
    member: Member, roles: Roles, roots: tuple[int, ...], match: tuple[str, ...]
) -> Role:
    """Return the role of a process by the tree, or by a pattern of the user."""
    role, row = roles[member.pid], roles.row(member.pid)
    unknown = row in (OTHER, PYTHON) or row.spawned
    named = member.pid not in roots and is_named(member, match)
    if named and unknown and role.final and not role.worker:
        return Role("matched", worker=True, evidence="a pattern of --match names it")
    return role


def _of_the_dead(role: Role, was_worker: bool | None, member: Member) -> Role:
    """Return the role of a dead process: never a worker's, and none that nothing shows."""
    if was_worker is None and not member.title:
        return Role("dead child", evidence="nothing that is left tells what it was")
    return dataclasses.replace(role, worker=False, final=True)


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
