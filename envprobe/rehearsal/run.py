"""Running one rehearsal: the first process, its children, and the reading of all of them."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

from envprobe import collect
from envprobe.errors import EnvprobeError
from envprobe.launch.manager import Manager
from envprobe.launch.steps import Mode
from envprobe.model import Snapshot
from envprobe.rehearsal import frameworks, plan, reading, writers
from envprobe.rehearsal.answers import Answers
from envprobe.rehearsal.confined import Confined, NotConfinedError, Sandbox, confined
from envprobe.rehearsal.place import Place, placed
from envprobe.rehearsal.plan import Wanted
from envprobe.rehearsal.types import End, Node, Plan, Rehearsal, Stopped, Written
from envprobe.runner import supervised
from envprobe.runner.started import NO_GPUS, Bounds
from envprobe.runner.supervised import Command, Ended, Running
from envprobe.startup.declared import Start

MEMORY_BYTES: Final = 16 << 30
_OUTPUT_BYTES: Final = 64 << 20
_PROCESSES: Final = 48
"""So many processes more than the tree has may run: hooks may start a command or two in each."""

_GRACE_SECONDS: Final = 5.0
_OWN: Final = ("rehearse_tree.py", "from multiprocessing.")
_DEADLINE: Final = 10.0
_OF_CHILDREN: Final = 0.8
"""The part of the time after which a child counts as silent."""


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """What to rehearse: what of the plan is given, what to ask, and the time for all of it.

    `patches` are MODULE:Class.attr, `queries` the same as questions to the interpreters; `names`
    are fnmatch patterns of the variables whose values are read. `seconds` bounds the whole.
    `manager` is the one that is asked for the sandbox of a unit.
    """

    wanted: Wanted = dataclasses.field(default_factory=Wanted)
    patches: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    import_target: bool = False
    with_gpu: bool = False
    seconds: float = 60.0
    manager: Manager | None = None


def rehearse(start: Start, request: Request, tell: Callable[[], None]) -> Rehearsal:
    """Start the tree of one declared start, ask it, read it from outside, and end it.

    `tell` is called before foreign code is run. Raises UsageError for a plan that cannot be,
    UndeterminedError if the interpreter cannot be started at all.
    """
    first = plan.make(start, request.wanted)
    if start.launch.rights is not None:
        start.launch.rights.require()
    tell()
    others = start.launch.rights is not None or bool(start.sandbox)
    with placed(start.launch.python, shell=bool(first.shell), for_others=others) as place:
        if not start.sandbox:
            return _Run(start, request, first, place).made()
        try:
            if request.manager is None:
                raise NotConfinedError("no manager of a unit is asked for it")
            sandbox = Sandbox(start.sandbox, request.manager, place.folder)
            return _Run(start, request, first, place).made(sandbox)
        except NotConfinedError as error:
            found = _Run(start, request, first, place).made()
            return dataclasses.replace(found, sandbox=start.sandbox, unconfined=str(error))


class _Run:
    """One rehearsal while it runs; the plan is final once the framework's version is known."""

    def __init__(self, start: Start, request: Request, first: Plan, place: Place) -> None:
        python = start.declared.python
        assert python is not None
        self.start = start
        self.request = request
        self.plan = first
        self.place = place
        self.framework = frameworks.of(first.framework.value, python)
        hidden = {} if request.with_gpu else NO_GPUS
        environment = {**start.launch.environment, **hidden}
        self.hidden = tuple(
            name for name in hidden if start.launch.environment.get(name) != environment[name]
        )
        self.launch = dataclasses.replace(start.launch, environment=environment)
        self.answers = Answers(first, self.launch)
        self.written: tuple[Written, ...] = ()
        self.version = ""
        self.snapshot: Snapshot | None = None
        self.unread = ""

    def made(self, sandbox: Sandbox | None = None) -> Rehearsal:
        """Run it, inside a sandbox if there is one, and return what was found.

        Raises NotConfinedError if there is one that could not be reproduced.
        """
        launch = self.launch
        command = Command(
            path=launch.python,
            words=(launch.python, *launch.flags, "-B", self.place.tree, *self._words()),
            environment=launch.environment,
            cwd=launch.cwd,
            root=launch.root,
            rights=launch.rights,
            told=True,
        )
        processes = _PROCESSES + 4 * sum(1 for _ in self.plan.walk())
        bounds = Bounds(
            self.request.seconds, _OUTPUT_BYTES, processes, _GRACE_SECONDS, MEMORY_BYTES
        )
        self.began = time.monotonic()
        name = f"the interpreter {launch.python}"
        started: AbstractContextManager[Running | Confined]
        if sandbox is None:
            started = supervised.running(command, bounds, name=name)
        else:
            started = confined(sandbox, command, bounds)
        with started as tree:
            if self._start_tree(tree):
                self._read(tree.pid)
            elif self.answers.began:
                self.unread = "the first process never said that all are ready"
            ended = tree.end()
        return self._found(ended)

    def _words(self) -> tuple[str, ...]:
        python = self.start.declared.python
        assert python is not None
        return frameworks.words_of(python)

    # --- the tree

    def _start_tree(self, tree: Running | Confined) -> bool:
        """Have the first process start all others; return whether it says that they are ready."""
        first = _next(tree)
        if first is None or first["about"] != "first":
            return False
        self.answers.take(first)
        tree.tell(f"{self.framework.distribution}\n".encode())
        version = _next(tree)
        if version is None:
            return False
        self.version = str(version.get("version") or "")
        self.plan = plan.make(self.start, self.request.wanted, self.version)
        self.answers = Answers(self.plan, self.launch)
        self.answers.take(first)
        assumed = self.version or self.framework.newest
        environment = self.answers.environment
        # Ranks of one kind decide what is written: those below one engine, as options say them.
        ranks = self.framework.size("tp") or self.request.wanted.workers or 1
        self.written = writers.written(self.framework, assumed, environment, ranks)
        if not tree.tell(json.dumps(self._asked()).encode() + b"\n"):
            return False
        while not self.answers.ready and (told := _next(tree)) is not None:
            self.answers.take(told)
        if not self.plan.method.value:
            method = dataclasses.replace(self.plan.method, value=self.answers.method)
            self.plan = dataclasses.replace(self.plan, method=method)
        return self.answers.ready

    def _asked(self) -> dict[str, Any]:
        launch, request = self.launch, self.request
        of_first = [one for one in self.written if not one.in_workers]
        return {
            "path0": [] if launch.path0 is None else [launch.path0],
            "method": self.plan.method.value,
            "shell": self.place.shell,
            "patches": list(request.patches),
            "programs": self._modules(),
            "import_target": request.import_target,
            "until": self.began + request.seconds * _OF_CHILDREN,
            "nodes": [self._node(node) for node in self.plan.nodes],
            **_changes(of_first),
        }

    def _modules(self) -> list[str]:
        """Return the module that the definition runs, if it is one."""
        python = self.start.declared.python
        module = python is not None and python.mode is Mode.MODULE
        return [python.target] if python is not None and module else []

    def _node(self, node: Node) -> dict[str, Any]:
        of_worker = [one for one in self.written if one.in_workers and node.worker]
        return {
            "id": node.id,
            "title": node.title,
            "worker": node.worker,
            "children": [self._node(child) for child in node.children],
            **_changes(of_worker),
        }

    # --- the reading from outside

    def _read(self, root: int) -> None:
        members = self.answers.members(self.plan.method.value, self.began, "")
        request = collect.Request(
            roots=(root,),
            wanted=self.request.names,
            deadline=_DEADLINE,
            orphans=False,
            python_pids=tuple(one.pid for one in members),
            queries=self.request.patches,
        )
        try:
            found = collect.collect(request)
        except EnvprobeError as error:
            self.unread = error.message
            return
        self.snapshot = reading.completed(found, self.plan, self.start, members)

    # --- afterwards

    def _found(self, ended: Ended) -> Rehearsal:
        said = ended.stderr.decode("utf-8", "backslashreplace")
        failed = self.answers.failed(ended.code, said) if not ended.stopped else ()
        return Rehearsal(
            start=self.start,
            plan=self.plan,
            end=End(
                code=ended.code,
                stopped=Stopped(ended.stopped if ended.stopped != "interrupted" else ""),
                seconds=ended.seconds,
                seen=tuple(one for one in ended.seen if not any(own in one for own in _OWN)),
                said=said,
            ),
            members=self.answers.members(self.plan.method.value, self.began, said),
            failed=failed,
            helpers=self.answers.helpers,
            written=self.written,
            version=self.version,
            own_forkserver=self.answers.forkserver,
            snapshot=self.snapshot,
            unread="" if ended.stopped else self.unread,
            hidden=self.hidden,
            imported=self.request.import_target,
        )


def _next(tree: Running | Confined) -> Mapping[str, Any] | None:
    """Return the next answer, None if none comes; what a hook may write instead is none."""
    while (line := tree.read_line()) is not None:
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(told, dict) and isinstance(told.get("about"), str):
            return told
    return None


def _changes(written: list[Written]) -> dict[str, Any]:
    return {
        "sets": {
            one.name: os.fsdecode(one.value.reveal()) for one in written if one.value is not None
        },
        "removes": [one.name for one in written if one.value is None],
    }
