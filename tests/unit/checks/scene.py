"""Scenes for checks: snapshots written down process by process, and run through real routes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from envprobe.checks.finding import Context, Finding
from envprobe.checks.registry import Result, run_all
from envprobe.config import Config, Expectation
from envprobe.expectations import parse
from envprobe.model import (
    BlockState,
    Carries,
    Edge,
    EdgeKind,
    Environment,
    EnvironmentStatus,
    Identity,
    Interpreter,
    Process,
    Role,
    Sentence,
    Shown,
    Snapshot,
    Vanished,
    View,
)
from envprobe.redact import DEFAULT_WANTED
from envprobe.routes.build import build
from envprobe.routes.types import Routing
from envprobe.values import Value

Variables = Mapping[str, str | bytes | None]

ROOT = 100
SERVER = ("python3", "-m", "sglang.launch_server", "--model", "m")
BASE = {"PATH": "/usr/bin", "LANG": "C.UTF-8"}


def values(variables: Variables) -> dict[str, Value | None]:
    """Return entries of a view; None stands for a value that was not read."""
    return {
        name: None if text is None else Value(text.encode() if isinstance(text, str) else text)
        for name, text in variables.items()
    }


def exec_view(variables: Variables, **fields: Any) -> Environment:
    """Return an intact exec view."""
    fields = {"block": BlockState.INTACT, "source": "/proc/PID/environ", **fields}
    return Environment(View.EXEC, EnvironmentStatus.COMPLETE, values(variables), **fields)


def libc_view(variables: Variables, **fields: Any) -> Environment:
    """Return a whole libc view."""
    status = fields.pop("status", EnvironmentStatus.COMPLETE)
    return Environment(View.LIBC, status, values(variables), source="C environ", **fields)


def refused(view: View, reason: str = "not permitted", remedy: str = "Run as root.") -> Environment:
    """Return a view that could not be read."""
    return Environment(view, EnvironmentStatus.UNREADABLE, reason=reason, remedy=remedy)


def wiped(**fields: Any) -> Environment:
    """Return the exec view of a process that was retitled with setproctitle."""
    return Environment(
        View.EXEC,
        EnvironmentStatus.UNREADABLE,
        block=BlockState.WIPED,
        reason="the exec block is overwritten",
        remedy="Set SPT_NOENV=1 at the next start.",
        **fields,
    )


@dataclasses.dataclass
class Scene:
    """A snapshot in the making; pids are given, start times follow the order of `add`."""

    processes: dict[int, Process] = dataclasses.field(default_factory=dict)
    fields: dict[str, Any] = dataclasses.field(default_factory=dict)
    clock: float = 1000.0

    def add(
        self,
        pid: int,
        parent: int | None = None,
        *,
        role: Role | None = None,
        exec: Environment | Variables | None = None,
        libc: Environment | Variables | None = None,
        kind: EdgeKind | None = None,
        **fields: Any,
    ) -> Scene:
        """Add one process; without `libc` it still has what it was handed over."""
        self.clock += 1.0
        given = BASE if exec is None else exec
        at_exec = given if isinstance(given, Environment) else exec_view({**BASE, **given})
        now = libc if libc is not None else (BASE if isinstance(given, Environment) else given)
        live = now if isinstance(now, Environment) else libc_view({**BASE, **now})
        kind = kind or (EdgeKind.ROOT if parent is None else EdgeKind.SPAWN)
        carries = {
            EdgeKind.ROOT: Carries.UNKNOWN,
            EdgeKind.FORK: Carries.MEMORY,
            EdgeKind.FORKSERVER: Carries.MEMORY,
        }.get(kind, Carries.C_ENVIRON)
        defaults: dict[str, Any] = {
            "edge": Edge(kind, parent, carries, ("seen",)),
            "identity": Identity(pid, int(self.clock * 100), random=f"{pid:032x}"),
            "ppid": parent or 1,
            "state": "S",
            "start_time": self.clock,
            "uid": 1000,
            "comm": "python3",
            "title": ("python3",),
            "exe": "/usr/bin/python3",
            "role": role or Role("server", "sglang", evidence="title"),
            "image_owner": pid,
            "cwd": "/srv",
            "interpreter": Interpreter("cpython", "3.11"),
            "environments": {View.EXEC: at_exec, View.LIBC: live},
        }
        self.processes[pid] = Process(pid=pid, **{**defaults, **fields})
        return self

    def change(self, pid: int, **fields: Any) -> Scene:
        """Replace fields of one process."""
        self.processes[pid] = dataclasses.replace(self.processes[pid], **fields)
        return self

    def snapshot(self) -> Snapshot:
        """Return the snapshot."""
        return Snapshot(
            **{
                "host": "h",
                "boot_id": "b",
                "started": self.clock + 5000,
                "ended": self.clock + 5001,
                "roots": (ROOT,),
                "processes": tuple(self.processes.values()),
                "wanted": DEFAULT_WANTED,
                **self.fields,
            }
        )

    def routing(self, config: Config) -> Routing:
        """Return the real routes of the snapshot."""
        names = {one.name for one in (*config.expectations, *config.nccl)}
        roles = {one.role for one in config.expectations if one.role}
        return build(self.snapshot(), names, roles)

    def context(self, *expect: str | Expectation, **config: Any) -> Context:
        """Return what checks look at, with expectations as on the command line."""
        stated = tuple(parse(one) if isinstance(one, str) else one for one in expect)
        made = Config(expectations=stated, **config)
        return Context(self.routing(made), made)

    def run(self, *expect: str | Expectation, **config: Any) -> Result:
        """Return what all checks find."""
        return run_all(self.context(*expect, **config))


def scheduler(tp: int, **ranks: int) -> Role:
    """Return the role of an SGLang scheduler."""
    return Role("scheduler", "sglang", {**ranks, "tp": tp}, worker=True, evidence="title")


def sglang(
    size: int = 2,
    *,
    server: Variables | None = None,
    server_exec: Variables | None = None,
    wipe: bool = False,
    title: tuple[str, ...] = SERVER,
) -> Scene:
    """Return a healthy server: pid 100, its tracker 101, schedulers from 110 on."""
    given = dict(server or {})
    scene = Scene().add(ROOT, exec=given if server_exec is None else server_exec, libc=given)
    scene.change(ROOT, title=title, role=Role("server", "sglang", evidence="title"))
    scene.add(101, ROOT, role=Role("resource tracker"), exec=given)
    for rank in range(size):
        block = wiped() if wipe else exec_view({**BASE, **given})
        scene.add(110 + rank, ROOT, role=scheduler(rank), exec=block, libc=given)
        scene.change(110 + rank, title=(f"sglang::scheduler_TP{rank}",))
    return scene


def worker(scene: Scene, pid: int, libc: Variables, exec: Variables | None = None) -> Scene:
    """Give one worker other views; without `exec` its exec view stays as it is."""
    environments = dict(scene.processes[pid].environments)
    environments[View.LIBC] = libc_view({**BASE, **libc})
    if exec is not None:
        environments[View.EXEC] = exec_view({**BASE, **exec})
    return scene.change(pid, environments=environments)


def view_of(scene: Scene, pid: int, *views: Environment) -> Scene:
    """Replace whole views of one process."""
    environments = {**scene.processes[pid].environments, **{one.view: one for one in views}}
    return scene.change(pid, environments=environments)


def of(result: Result, slug: str) -> list[Finding]:
    """Return the findings of one check."""
    return [one for one in result.findings if one.check == slug]


def one(result: Result, slug: str) -> Finding:
    """Return the only finding of one check."""
    found = of(result, slug)
    assert len(found) == 1, [finding.check for finding in result.findings]
    return found[0]


def slugs(result: Result, *leave_out: str) -> set[str]:
    """Return the checks that found something."""
    return {finding.check for finding in result.findings} - set(leave_out)


def text(sentence: Sentence) -> str:
    """Return a sentence with its values in the open, for assertions."""
    return "".join(
        part.value.reveal().decode("utf-8", "replace") if isinstance(part, Shown) else part
        for part in sentence.parts
    )


def evidence(finding: Finding) -> str:
    """Return all evidence as one text."""
    return "\n".join(text(sentence) for sentence in finding.evidence)


def vanished(pid: int, role: Role) -> Vanished:
    """Return a process that was gone before it could be read."""
    return Vanished(pid, role)
