"""What each process is: the table of roles, and what its surroundings add to it.

A process's own title cannot tell a rank from the fork of one, nor a spawn child that has no title
yet from one that never gets one; its parent, its siblings and its children can.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Final

from envprobe.model import Role
from envprobe.process.roletable import (
    OTHER,
    PYTHON,
    Row,
    program,
    python_program,
    ranks_of,
    row_of,
    rows,
    runs_python,
)
from envprobe.process.tree import Listing, Member, same_image

_FORK_OF: Final = "fork of "
_CHILD_OF: Final = "child of "
_SPAWN_CHILD: Final = "spawn child"
_CONTAINER_RUNTIME: Final = "container runtime"
_TORCH_COMM: Final = "pt_main_thread"
"""The name that PyTorch 2.6 and later give the main thread of a process that imports it."""


class Roles:
    """The roles in a listing, each decided from its ancestors, siblings and children.

    `roots` are the processes that the user named: one that has Python children counts as what
    started them, whatever started it.
    """

    def __init__(self, listing: Listing, roots: Collection[int] = ()) -> None:
        self._listing = listing
        self._rows: dict[int, Row] = {}
        self._alone: dict[int, Role] = {}
        self._tops = frozenset(root for root in roots if root in listing and self._leads(root))
        self._rows.update(dict.fromkeys(self._tops, PYTHON))

    def _leads(self, root: int) -> bool:
        row = self.row(root)
        return (row is PYTHON or row.spawned) and any(
            self.python(child) for child in self._listing.children(root)
        )

    def __getitem__(self, pid: int) -> Role:
        """Return the role of a listed process; KeyError."""
        role, row = self._from_above(pid), self.row(pid)
        below = [self._from_above(child) for child in self._listing.children(pid)]
        if row.worker_unless_parent_of:
            return _unless_parent(role, row, below)
        workers = [child for child in below if child.worker]
        if row is PYTHON and role.name == "python" and workers:
            framework = workers[0].framework
            evidence = "its children are workers"
            return dataclasses.replace(
                role, name="launcher", framework=framework, evidence=evidence
            )
        return role

    def row(self, pid: int) -> Row:
        """Return the row that recognises a process by itself; KeyError."""
        if pid not in self._rows:
            member = self._listing[pid]
            plain = PYTHON if runs_python(member) else OTHER
            self._rows[pid] = row_of(member) or plain
        return self._rows[pid]

    def python(self, pid: int) -> bool:
        """Return whether a process runs Python, as its executable or its title tells."""
        row = self.row(pid)
        return row.python or row.titled or runs_python(self._listing[pid])

    def tracker_of(self, pid: int) -> Member | None:
        """Return the resource tracker that is a child of the same parent, or None."""
        siblings = self._listing.children(self._listing[pid].ppid)
        trackers = (self._listing[one] for one in siblings if self.row(one).tracker)
        return next(trackers, None)

    def tracker_above(self, pid: int) -> Member | None:
        """Return the tracker that a spawn child uses: its starter's, or that of whoever spawned it.

        A spawn child hands the tracker that it was given on to those that it spawns itself.
        """
        for one in (pid, *self._listing.ancestors(pid)):
            if not self.python(one):
                return None
            if (tracker := self.tracker_of(one)) is not None:
                return tracker
        return None

    def adopted(self, pid: int) -> bool:
        """Return whether a process's parent cannot be what started it.

        The children of Python's multiprocessing, and whatever a framework titles, were started by a
        Python process or by their own framework, at times through a shell or wrapper. A parent that
        is none of these has adopted them if it is one to which orphans fall, prctl(2), or if its
        session is another: a fork inherits the session, credentials(7). A parent outside the
        reader's pid namespace tells nothing.
        """
        row, parent = self.row(pid), self._listing.parent(pid)
        if parent is None or not (row.titled or row.tracker or row.forkserver or row.spawned):
            return False
        if self.row(parent.pid).adopts:
            return True
        if self.python(parent.pid) or self.row(parent.pid).framework:
            return False
        return self._is_first(parent) or _brought_its_session(self._listing[pid], parent)

    def _is_first(self, member: Member) -> bool:
        """Return whether a process is the first of the machine, or of a container."""
        above = self._listing.parent(member.pid)
        contained = above is not None and self.row(above.pid).role == _CONTAINER_RUNTIME
        return member.pid == 1 or contained

    def launch_of(self, pid: int) -> int | None:
        """Return the process that stands for the launch of `pid`, None for an orphan.

        That is its nearest ancestor or self that is a server or launcher of the table, else the
        nearest Python program above it that belongs to nothing known.
        """
        for one in (pid, *self._listing.ancestors(pid)):
            if self.row(one).launch:
                return one
            if not self.python(one) or self.adopted(one):
                return None
            self._from_above(one)
            if self._plain(one):
                return one
        return None

    def was_worker(self, pid: int) -> bool | None:
        """Return whether a dead process held ranks, None if what is left of it does not tell.

        A zombie keeps the name that the kernel shows, cut at 15 characters, the mark of a fork and
        its parent; its command line and executable are gone, unless they were listed before.
        """
        member, role = self._listing[pid], self[pid]
        told = bool(member.title) or self.row(pid) is not OTHER
        if told and (role.worker or role.final):
            return role.worker
        if not role.final or role.worker:
            return None
        return None if self._may_be_worker(member) else False

    def _may_be_worker(self, member: Member) -> bool:
        """Return whether a dead child that nothing names may have been one of the workers."""
        parent = self._listing.parent(member.pid)
        if parent is None or not self.python(parent.pid):
            return False
        self._from_above(parent.pid)
        starts, siblings = self._starts(parent.pid), self._listing.children(parent.pid)
        if member.forked:
            return "fork" in starts
        if starts.isdisjoint(("spawn", "ranks")):
            # A plain program that starts a whole server is not what starts the workers.
            launches = any(self.row(one).launch for one in siblings)
            if launches or not self._anonymous(parent.pid):
                return False
        names = {self._listing[one].comm for one in siblings if self._from_above(one).worker}
        names |= {parent.comm, _TORCH_COMM}
        return member.comm in names or python_program().fullmatch(member.comm) is not None

    def _from_above(self, pid: int) -> Role:
        """Return the role that the process itself and all above and beside it give it."""
        for one in (*reversed(self._listing.ancestors(pid)), pid):
            if one not in self._alone:
                self._alone[one] = self._decide(self._listing[one])
        return self._alone[pid]

    def _decide(self, member: Member) -> Role:
        row, parent = self.row(member.pid), self._listing.parent(member.pid)
        if parent is None or member.pid in self._tops:
            return _role(row, member)
        forked = same_image(member, parent)
        if member.title == parent.title and member.title and forked is not False:
            return self._fork(member, parent)
        if row.spawned:
            return self._spawned(parent)
        if row in (PYTHON, OTHER):
            return self._unknown(member, parent, bool(forked))
        return _role(row, member)

    def _starts(self, pid: int) -> frozenset[str]:
        """Return how a process's children become workers; see `Row.starts`.

        A Python program that nothing is known of starts what its titled children belong to.
        """
        row, role = self.row(pid), self._alone[pid]
        if role.name == _SPAWN_CHILD and not role.final:
            return frozenset({"spawn"})
        if row.starts or row is not PYTHON:
            return frozenset(row.starts)
        frameworks = self._frameworks_below(pid)
        return frozenset(way for row in rows() if row.framework in frameworks for way in row.starts)

    def _frameworks_below(self, pid: int) -> set[str]:
        children = self._listing.children(pid)
        found = {self.row(one).framework for one in children if self.row(one).titled}
        if any(self._listing[one].run_id for one in (pid, *children)):
            found.add("sglang")
        return found - {""}

    def _framework(self, pid: int) -> str:
        own = self._alone[pid].framework
        return own or next(iter(sorted(self._frameworks_below(pid))), "")

    def _owner(self, pid: int) -> Role | None:
        """Return the nearest role at or above a process that is not merely in between."""
        for one in (pid, *self._listing.ancestors(pid)):
            if not self.row(one).neutral or self._alone[one].worker:
                return self._alone[one]
        return None

    def _plain(self, pid: int) -> bool:
        """Return whether a process is a Python program that belongs to nothing known."""
        return self.row(pid) is PYTHON and self._alone[pid].name == "python"

    def _anonymous(self, pid: int) -> bool:
        """Return whether a plain Python program starts nothing of a known framework either."""
        return self._plain(pid) and not self._frameworks_below(pid)

    def _fork(self, member: Member, parent: Member) -> Role:
        above = self._alone[parent.pid]
        if self.row(parent.pid).forkserver:
            return self._served(parent)
        label = "launcher" if self._plain(parent.pid) else above.label
        name = above.name if above.name.startswith(_FORK_OF) else _FORK_OF + label
        evidence = "its title is its parent's"
        if "fork" in self._starts(parent.pid):
            framework = self._framework(parent.pid)
            return Role(name, framework, final=False, evidence=evidence)
        if self._anonymous(parent.pid):
            return _worker("forked by a Python program of no known framework")
        if above.worker or self._names_its_forks(parent.pid, above):
            return Role(name, above.framework, evidence=evidence)
        return above

    def _names_its_forks(self, pid: int, role: Role) -> bool:
        row = self.row(pid)
        return row.titled or row is PYTHON or role.name.startswith((_FORK_OF, _SPAWN_CHILD))

    def _served(self, server: Member) -> Role:
        starter = self._listing.parent(server.pid)
        evidence = "its parent is a forkserver"
        if starter is None or "forkserver" in self._starts(starter.pid):
            framework = self._framework(starter.pid) if starter else ""
            return Role("forkserver child", framework, final=False, evidence=evidence)
        if self._anonymous(starter.pid):
            return _worker("made by the forkserver of a Python program of no known framework")
        if self._plain(starter.pid):
            return Role("forkserver child", self._framework(starter.pid), evidence=evidence)
        return self._child_of(starter.pid)

    def _spawned(self, parent: Member) -> Role:
        evidence = "its command line is multiprocessing's spawn_main"
        starts = self._starts(parent.pid)
        if "ranks" in starts:
            return self._rank(parent.pid)
        if "spawn" in starts:
            return Role(_SPAWN_CHILD, self._framework(parent.pid), final=False, evidence=evidence)
        if self._anonymous(parent.pid):
            return _worker("spawned by a Python program of no known framework")
        if self._owner(parent.pid) is None:
            return Role(_SPAWN_CHILD, final=False, evidence=evidence)
        return self._child_of(parent.pid)

    def _unknown(self, member: Member, parent: Member, forked: bool) -> Role:
        row = self.row(member.pid)
        python = row is PYTHON or (forked and self.python(parent.pid))
        if not python:
            return _role(row, member)
        if forked and self.row(parent.pid).forkserver:
            return self._served(parent)
        if "ranks" in self._starts(parent.pid):
            return self._rank(parent.pid)
        if self._owner(parent.pid) is not None:
            return self._child_of(parent.pid)
        anonymous = self._anonymous(parent.pid)
        if anonymous and forked:
            return _worker("forked by a Python program, with a title of its own")
        if anonymous and _retitled(member) and self.tracker_of(member.pid):
            return _worker("a Python with a title of its own beside a resource tracker")
        return _role(row, member)

    def _rank(self, launcher: int) -> Role:
        framework = self._alone[launcher].framework
        return Role("rank", framework, worker=True, evidence="a Python child of the launcher")

    def _child_of(self, pid: int) -> Role:
        owner = self._owner(pid)
        if owner is None:
            return Role("other")
        label = owner.name if owner.name.startswith(_CHILD_OF) else _CHILD_OF + owner.label
        return Role(label, owner.framework, evidence="started below it")


def _role(row: Row, member: Member) -> Role:
    ranks, unknown = ranks_of(row, member.title)
    evidence = row.source
    if unknown:
        evidence += f"; not in the table: {', '.join(unknown)}"
    return Role(row.role, row.framework, ranks, row.worker, row.final, evidence)


def _worker(evidence: str) -> Role:
    return Role("worker", worker=True, evidence=evidence)


def _retitled(member: Member) -> bool:
    """Return whether a Python has put another text in place of its command line."""
    return len(member.title) == 1 and not python_program().fullmatch(program(member.title))


def _brought_its_session(member: Member, parent: Member) -> bool:
    """Return whether a process is in a session that neither it nor its parent began or joined."""
    if not (member.session and parent.session):
        return False
    return member.session not in (member.pid, parent.session)


def _unless_parent(role: Role, row: Row, below: list[Role]) -> Role:
    workers = [one for one in below if one.name == row.worker_unless_parent_of and one.worker]
    if any(one.framework == row.framework for one in workers):
        return dataclasses.replace(role, worker=False, evidence="its children hold the ranks")
    if any(not one.final for one in below):
        evidence = "its children have no title yet"
        return dataclasses.replace(role, worker=False, final=False, evidence=evidence)
    return role
