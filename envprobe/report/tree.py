"""The tree of processes as lines: who came from whom, and what could be read of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from envprobe.model import (
    BlockState,
    EdgeKind,
    EnvironmentStatus,
    Process,
    Role,
    Snapshot,
    View,
)
from envprobe.report import labels

_MAX_INDENT: Final = 30
_MANY_WORKERS: Final = 16
_MANY_HELPERS: Final = 3

_STATUS: Final = {
    EnvironmentStatus.COMPLETE: "read",
    EnvironmentStatus.PARTIAL: "in part",
    EnvironmentStatus.UNREADABLE: "?",
    EnvironmentStatus.CHANGING: "~",
    EnvironmentStatus.NOT_APPLICABLE: "/",
    EnvironmentStatus.NOT_ASKED: ".",
}
_BLOCK: Final = {
    BlockState.INTACT: "intact",
    BlockState.WIPED: "overwritten",
    BlockState.PARTLY_WIPED: "in part",
    BlockState.SPILLED: "overwritten",
    BlockState.UNREADABLE: "?",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """One line of the tree; `pids` are the processes it stands for."""

    pids: tuple[int, ...]
    branch: str
    label: str
    edge: str
    exec_view: str
    libc_view: str
    remarks: tuple[str, ...] = ()


def build(snapshot: Snapshot) -> tuple[Line, ...]:
    """Return the lines in the order of the tree, siblings by start time.

    Siblings without children that are alike are folded into one line: helpers from three on,
    workers from seventeen on.
    """
    tree = _Tree(snapshot)
    return tuple(tree.lines())


class _Tree:
    def __init__(self, snapshot: Snapshot) -> None:
        self.known = {process.pid: process for process in snapshot.processes}
        self.children: dict[int, list[Process]] = {}
        self.tops: list[Process] = []
        placed: dict[int, int] = {}
        for process in sorted(snapshot.processes, key=lambda one: (one.start_time, one.pid)):
            above = self.above(process)
            if above is None or _top_of(above, placed) == process.pid:
                self.tops.append(process)
            else:
                placed[process.pid] = above
                self.children.setdefault(above, []).append(process)

    def above(self, process: Process) -> int | None:
        """Return the pid under which a process is shown, or None for a top."""
        if process.edge.kind is EdgeKind.ROOT:
            return None
        ways = (process.edge.parent, process.ppid)
        return next((pid for pid in ways if pid in self.known), None)

    def fold(self, siblings: list[Process]) -> list[list[Process]]:
        alike: dict[tuple[object, ...], list[Process]] = {}
        for process in siblings:
            lone = process.pid in self.children or not process.role.name or _remarks(process)
            key = (process.pid,) if lone else (process.role.name, _cells(process))
            alike.setdefault(key, []).append(process)
        groups: list[list[Process]] = []
        for group in alike.values():
            many = _MANY_WORKERS + 1 if group[0].role.worker else _MANY_HELPERS
            groups += [group] if len(group) >= many else [[one] for one in group]
        return sorted(groups, key=lambda group: (group[0].start_time, group[0].pid))

    def lines(self) -> Iterator[Line]:
        """Return the lines from the top down; a stack, since a chain can be thousands deep."""
        stack = [(group, "", "") for group in reversed(self.fold(self.tops))]
        while stack:
            group, branch, below = stack.pop()
            edge, exec_view, libc_view = _cells(group[0])
            pids = tuple(process.pid for process in group)
            remarks = _remarks(group[0])
            yield Line(pids, branch, _label(group), edge, exec_view, libc_view, remarks)
            inner = self.fold(self.children.get(group[0].pid, []))
            deeper = below if len(below) >= _MAX_INDENT else below + "   "
            ongoing = below if len(below) >= _MAX_INDENT else below + "|  "
            if inner:
                stack.append((inner[-1], below + "`- ", deeper))
            stack += [(one, below + "|- ", ongoing) for one in reversed(inner[:-1])]


def _top_of(pid: int, placed: dict[int, int]) -> int:
    while pid in placed:
        pid = placed[pid]
    return pid


def _label(group: list[Process]) -> str:
    if len(group) == 1:
        return labels.process_label(group[0])
    roles: list[Role] = [process.role for process in group]
    ranks = [labels.rank_label(role) for role in roles if role.ranks]
    which = f" {labels.together(ranks)}" if ranks else ""
    return f"{len(group)} x {roles[0].name}{which}"


def _cells(process: Process) -> tuple[str, str, str]:
    edge = "root" if process.edge.kind is EdgeKind.ROOT else process.edge.kind.value
    exec_view = process.environment(View.EXEC)
    if process.image_owner != process.pid:
        block = f"of {process.image_owner}"
    elif exec_view.block is not None:
        block = _BLOCK[exec_view.block]
    else:
        block = _STATUS[exec_view.status]
    return edge, block, _STATUS[process.environment(View.LIBC).status]


def _remarks(process: Process) -> tuple[str, ...]:
    remarks = []
    if process.orphan:
        remarks.append("left behind by an earlier launch: not counted")
    if process.ended:
        dead = process.death or process.state in "ZX"
        remarks.append("dead (zombie)" if dead else "ended during the scan")
    elif process.state == "Z":
        remarks.append("its main thread has ended, others run")
    if process.matched:
        remarks.append(f"added by --match, child of pid {process.ppid}")
    if process.inner_pid not in (None, process.pid):
        remarks.append(f"pid {process.inner_pid} in its own namespace")
    if not process.role.final:
        remarks.append("has no title yet: may still become something else")
    return (*remarks, *process.notes)
