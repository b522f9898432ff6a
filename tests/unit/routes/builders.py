"""Snapshots written down process by process, and verdicts of routes in short words."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from envprobe.model import (
    BlockState,
    Carries,
    Confidence,
    Edge,
    EdgeKind,
    Environment,
    EnvironmentStatus,
    Identity,
    Process,
    Role,
    Sentence,
    Shown,
    Snapshot,
    View,
)
from envprobe.routes.build import build
from envprobe.routes.types import Break, Cause, CauseId, Route, Routing
from envprobe.values import Value

Variables = Mapping[str, str]

PYTHON = "/usr/bin/python3.11"
SPAWNED = (
    "python3",
    "-c",
    "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)",
    "--multiprocessing-fork",
)
WORKER = Role("scheduler", "sglang", {"tp": 0}, worker=True)
SERVER = Role("server", "sglang")
TRACKER = Role("resource tracker")
FORKSERVER = Role("forkserver")

_CARRIES = {
    EdgeKind.ROOT: Carries.UNKNOWN,
    EdgeKind.SPAWN: Carries.C_ENVIRON,
    EdgeKind.EXEC: Carries.C_ENVIRON,
    EdgeKind.FORK: Carries.MEMORY,
    EdgeKind.FORKSERVER: Carries.MEMORY,
    EdgeKind.UNKNOWN: Carries.UNKNOWN,
}


def entries(variables: Variables) -> dict[str, Value | None]:
    return {
        name: Value(text.encode("utf-8", "surrogateescape")) for name, text in variables.items()
    }


def environment(view: View, variables: Variables, **fields: Any) -> Environment:
    fields.setdefault("source", f"{view.value} view")
    status = fields.pop("status", EnvironmentStatus.COMPLETE)
    return Environment(view, status, entries(variables), **fields)


def unreadable(view: View) -> Environment:
    status = EnvironmentStatus.UNREADABLE
    return Environment(view, status, reason="not permitted", remedy="Run as root.")


def wiped() -> Environment:
    """An exec block that setproctitle has overwritten as a whole."""
    return dataclasses.replace(unreadable(View.EXEC), block=BlockState.WIPED, reason="overwritten")


def survivors(variables: Variables) -> Environment:
    """An exec block of which only these entries are left."""
    status, block = EnvironmentStatus.PARTIAL, BlockState.PARTLY_WIPED
    return environment(View.EXEC, variables, status=status, block=block, reason="overwritten")


def stand_in(variables: Variables, own: Environment | None = None) -> Environment:
    """The resource tracker's block in place of one that is overwritten."""
    made = environment(
        View.EXEC, variables, confidence=Confidence.INFERRED, source="resource tracker"
    )
    return dataclasses.replace(made, own=own or wiped())


@dataclasses.dataclass
class Tree:
    """Processes in the order in which they start, one clock tick apart."""

    processes: dict[int, Process] = dataclasses.field(default_factory=dict)
    wanted: tuple[str, ...] = ("X", "NCCL_*", "LD_*", "PYTHON*")
    ticks: int = 1000

    def add(
        self,
        pid: int,
        parent: int | None = None,
        kind: EdgeKind | None = None,
        *,
        exec: Variables | Environment | None = None,
        libc: Variables | Environment | None = None,
        python: Variables | None = None,
        declared: Variables | None = None,
        role: Role = SERVER,
        edge: Mapping[str, Any] | None = None,
        ticks: int | None = None,
        **fields: Any,
    ) -> Tree:
        """Add one process; without `libc` it still has what it was given at exec."""
        self.ticks = self.ticks + 1 if ticks is None else ticks
        kind = kind or (EdgeKind.ROOT if parent is None else EdgeKind.SPAWN)
        given = exec if isinstance(exec, Environment) else environment(View.EXEC, exec or {})
        if libc is None:
            libc = {} if isinstance(exec, Environment) else (exec or {})
        views = {
            View.EXEC: given,
            View.LIBC: libc if isinstance(libc, Environment) else environment(View.LIBC, libc),
        }
        if python is not None:
            views[View.PYTHON] = environment(View.PYTHON, python)
        if declared is not None:
            views[View.DECLARED] = environment(View.DECLARED, declared)
        launcher = "" if parent is None else "python"
        made = {"kind": kind, "parent": parent, "carries": _CARRIES[kind], "launcher": launcher}
        defaults: dict[str, Any] = {
            "identity": Identity(pid, self.ticks, random=f"{pid:032x}"),
            "ppid": parent or 1,
            "state": "S",
            "start_time": self.ticks / 100,
            "uid": 1000,
            "comm": "python3",
            "title": SPAWNED if kind is EdgeKind.SPAWN else ("python3", "main.py"),
            "exe": PYTHON,
            "role": role,
            "edge": Edge(**{**made, "evidence": ("seen so",), **(edge or {})}),
            "image_owner": parent if kind in (EdgeKind.FORK, EdgeKind.FORKSERVER) else pid,
            "environments": views,
        }
        self.processes[pid] = Process(pid=pid, **{**defaults, **fields})
        return self

    def worker(self, pid: int, parent: int, kind: EdgeKind | None = None, **rest: Any) -> Tree:
        """Add one scheduler."""
        return self.add(pid, parent, kind, **{"role": WORKER, **rest})

    def snapshot(self) -> Snapshot:
        return Snapshot(
            host="host",
            boot_id="boot",
            started=1e6,
            ended=1e6 + 1,
            roots=(next(iter(self.processes), 0),),
            processes=tuple(self.processes.values()),
            wanted=self.wanted,
        )

    def routing(self, *expected: str, roles: tuple[str, ...] = ()) -> Routing:
        return build(self.snapshot(), expected, roles)

    def route(self, pid: int, name: str = "X") -> Route:
        process = self.processes[pid]
        return self.routing(name, roles=(process.role.name,)).routes[pid, name]


# --- verdicts in short words ---------------------------------------------------------------------


def said(route: Route) -> list[str]:
    """Return each break as `change from>to sureness: cause + cause`, the likeliest cause first."""
    return [_said(route, found) for found in route.breaks]


def _said(route: Route, found: Break) -> str:
    first, last = (route.stops[index] for index in (found.before, found.after))
    ids = " + ".join(cause.id.value for cause in found.causes)
    where = f"{first.view.value}({first.pid})>{last.view.value}({last.pid})"
    return f"{found.change.value} {where} {found.confidence.value}: {ids}"


def excluded(route: Route) -> set[str]:
    return {cause.id.value for found in route.breaks for cause in found.excluded}


def the_cause(route: Route, identity: CauseId) -> Cause:
    causes = [cause for found in route.breaks for cause in (*found.causes, *found.excluded)]
    (found,) = [cause for cause in causes if cause.id is identity]
    return found


def text(*sentences: Sentence) -> str:
    """Return sentences as a renderer would show them without masking."""
    parts = [part for sentence in sentences for part in sentence.parts]
    return "".join(
        part.value.reveal().decode() if isinstance(part, Shown) else part for part in parts
    )
