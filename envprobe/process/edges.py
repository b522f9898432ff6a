"""How one process came from another, and what the step handed over.

The kernel's ppid is one witness only: a process whose parent died hangs under another one, and
between a parent and the program that it started others may have exec'd in place unseen.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from envprobe import tables
from envprobe.model import Carries, Confidence, Edge, EdgeKind
from envprobe.process.roles import Roles
from envprobe.process.roletable import program
from envprobe.process.tree import Listing, Member, image_is_proved, same_image

_HANDED_OVER: Final = {
    "inherits": Carries.C_ENVIRON,
    "builds": Carries.BUILT_BLOCK,
    "in_place": Carries.UNKNOWN,
    "unknown": Carries.UNKNOWN,
}


class Launcher(NamedTuple):
    """A row of the table of launchers: what a program hands over to those it starts."""

    name: str
    program: re.Pattern[str]
    carries: Carries


@functools.cache
def launchers() -> tuple[Launcher, ...]:
    """Return the table `data/launchers.json`."""
    return tuple(
        Launcher(raw["name"], re.compile(raw["program"]), _HANDED_OVER[raw["hands_over"]])
        for raw in tables.load("launchers")["rows"]
    )


def launcher_of(member: Member) -> Launcher | None:
    """Return the row for a process, by its executable, else by its title, else by its comm."""
    exe = (member.exe or "").removesuffix(" (deleted)").rpartition("/")[2]
    names = [exe] if exe else [program(member.title), member.comm]
    for name in names:
        for row in launchers():
            if name and row.program.fullmatch(name):
                return row
    return None


class Edges:
    """The edges into the processes of a scan.

    `inside` are the processes of the scan; an edge from outside it has no parent on the route, and
    is UNKNOWN if whatever started the process is gone, else ROOT. `holders` says who was given the
    pipe of a resource tracker (`trackerpipe.holders`).
    """

    def __init__(
        self,
        listing: Listing,
        roles: Roles,
        inside: frozenset[int],
        holders: Mapping[int, bool] | None = None,
    ) -> None:
        self._listing = listing
        self._roles = roles
        self._inside = inside
        self._holders = holders or {}

    def edge(self, pid: int) -> Edge:
        """Return how a process came to be; KeyError if it is not listed."""
        member, parent = self._listing[pid], self._listing.parent(pid)
        if parent is None:
            outside = "its parent lies outside the pid namespace of this reader"
            return Edge(EdgeKind.ROOT, None, evidence=(outside,))
        row = launcher_of(parent)
        name = row.name if row else ""
        kind, confidence, evidence = self._kind(member, parent)
        if parent.pid not in self._inside:
            first = f"the scan begins here; it is a child of {self._named(parent)}"
            carries = self._carries(kind, parent)
            begin = kind if kind is EdgeKind.UNKNOWN else EdgeKind.ROOT
            return Edge(begin, None, carries, (first, *evidence), name, confidence)
        carries = self._carries(kind, parent)
        return Edge(kind, parent.pid, carries, evidence, name, confidence)

    def image_owner(self, pid: int) -> int:
        """Return the nearest ancestor or self that was exec'd into this process's image.

        0 if that process is gone and only forks of it are left.
        """
        member = self._listing[pid]
        while (parent := self._listing.parent(member.pid)) and same_image(member, parent):
            member = parent
        if not member.forked:
            return member.pid
        relatives = [
            one.pid
            for one in self._listing.values()
            if member.random and one.random == member.random and one.forked is False
        ]
        return min(relatives, default=0)

    def _kind(self, member: Member, parent: Member) -> tuple[EdgeKind, Confidence, tuple[str, ...]]:
        if self._roles.adopted(member.pid):
            return EdgeKind.UNKNOWN, Confidence.PROVED, (self._adopted(member, parent),)
        shared = same_image(member, parent)
        if shared:
            return self._forked(member, parent)
        if member.forked:
            evidence = (
                f"it has not exec'd since it was forked, but does not run the image of "
                f"{self._named(parent)}: its parent has gone or has exec'd since"
            )
            return EdgeKind.UNKNOWN, Confidence.PROVED, (evidence,)
        return self._started(member, parent, shared)

    def _forked(
        self, member: Member, parent: Member
    ) -> tuple[EdgeKind, Confidence, tuple[str, ...]]:
        evidence = [f"it runs the image of {self._named(parent)}"]
        if member.random and parent.random:
            evidence[0] += ": their AT_RANDOM bytes are equal"
        if member.forked:
            evidence.append("the kernel says that it has not exec'd since it was forked")
        proved = image_is_proved(member, parent)
        confidence = Confidence.PROVED if proved else Confidence.INFERRED
        if self._roles.row(parent.pid).forkserver:
            evidence.append("that is a forkserver of Python's multiprocessing")
            return EdgeKind.FORKSERVER, confidence, tuple(evidence)
        return EdgeKind.FORK, confidence, tuple(evidence)

    def _started(
        self, member: Member, parent: Member, shared: bool | None
    ) -> tuple[EdgeKind, Confidence, tuple[str, ...]]:
        """Tell a spawn child from any other program that the parent started."""
        row = self._roles.row(member.pid)
        if row.spawned and self._roles.python(parent.pid):
            evidence = "its command line is that of a multiprocessing spawn child"
            return EdgeKind.SPAWN, Confidence.PROVED, (evidence,)
        exec_evidence, confidence = self._exec_evidence(member, shared)
        hints = self._spawn_hints(member, parent)
        if hints:
            proved = self._holders.get(member.pid, False) and shared is False
            certainty = Confidence.PROVED if proved else Confidence.INFERRED
            return EdgeKind.SPAWN, certainty, (exec_evidence, *hints)
        if shared is None and self._title_is_wiped(member):
            return EdgeKind.UNKNOWN, Confidence.INFERRED, (exec_evidence,)
        return EdgeKind.EXEC, confidence, (exec_evidence,)

    def _exec_evidence(self, member: Member, shared: bool | None) -> tuple[str, Confidence]:
        if member.forked is False:
            return "the kernel says that it has exec'd since it was forked", Confidence.PROVED
        if shared is False:
            return "its AT_RANDOM bytes or auxiliary vector are its own", Confidence.PROVED
        return "nothing tells a fork from an exec here", Confidence.INFERRED

    def _spawn_hints(self, member: Member, parent: Member) -> tuple[str, ...]:
        """Return what speaks for a spawn child whose title hides its command line."""
        if not (self._title_is_wiped(member) and self._roles.python(parent.pid)):
            return ()
        hints = ["its title hides its command line, and its parent is a Python program"]
        tracker, held = self._roles.tracker_above(member.pid), self._holders.get(member.pid)
        if tracker is not None and held:
            hints.append(
                f"it was given the pipe of resource tracker PID {tracker.pid}, as only children of "
                f"multiprocessing are"
            )
        elif tracker is not None and held is None:
            hints.append(
                f"PID {tracker.pid} is a resource tracker, which multiprocessing starts before the "
                f"first spawn child"
            )
        starts = self._roles.row(parent.pid).starts
        if starts == ("spawn",):
            hints.append("its framework starts its processes by spawn only")
        return tuple(hints) if len(hints) > 1 else ()

    def _title_is_wiped(self, member: Member) -> bool:
        row = self._roles.row(member.pid)
        python = self._roles.python(member.pid)
        return row.titled or (python and len(member.title) == 1)

    def _adopted(self, member: Member, parent: Member) -> str:
        return (
            f"{self._named(parent)} has adopted it: whatever started it, by Python's "
            f"multiprocessing or as a part of its framework, is gone"
        )

    def _carries(self, kind: EdgeKind, parent: Member) -> Carries:
        if kind in (EdgeKind.FORK, EdgeKind.FORKSERVER):
            return Carries.MEMORY
        if kind is EdgeKind.SPAWN:
            return Carries.C_ENVIRON
        row = launcher_of(parent)
        if kind is EdgeKind.UNKNOWN or row is None:
            return Carries.UNKNOWN
        return row.carries

    def _named(self, member: Member) -> str:
        """Name a process by its number and role: its own words are not to be trusted here."""
        return f"PID {member.pid} ({self._roles[member.pid].label})"
