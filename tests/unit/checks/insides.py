"""What is inside made-up processes: answers, hooks and files, for scenes of the checks."""

from __future__ import annotations

import dataclasses
from typing import Any

from envprobe.config import HookExpectation
from envprobe.model import Environment, EnvironmentStatus, Process, View
from envprobe.patchexpect import parse_patch
from envprobe.pythonfacts import (
    HOOKS,
    Answer,
    AnswerState,
    CallableFact,
    ClassFact,
    Datum,
    FileFact,
    Inside,
    Kind,
    ModuleFact,
    PythonFact,
    PythonState,
    Wrapped,
)
from tests.unit.checks.scene import Scene, Variables, values

BACKEND = "srv.backend"
QUERY = f"{BACKEND}:Backend.extend"
ORIGINAL_FILE = "/venv/srv/backend.py"
PATCH_FILE = "/opt/kernels/my_kernels/attn.py"
HOOK_FILE = "/opt/hooks/sitecustomize.py"


def function(
    module: str, file: str, line: int = 7, name: str = "Backend.extend", **fields: Any
) -> CallableFact:
    """Return a plain function of a module."""
    return CallableFact(
        "function",
        **{
            "module": module,
            "qualname": name,
            "name": name.rpartition(".")[2],
            "file": file,
            "line": line,
            "code_name": name,
            "globals_module": module,
            "globals_file": file,
            **fields,
        },
    )


ORIGINAL = function(BACKEND, ORIGINAL_FILE)
PATCH = function("my_kernels.attn", PATCH_FILE, 12, "extend")
VENV = PythonFact("3.11.7", "release", "3.11", prefix="/opt/venv", path=("/opt/venv/lib",))
MODULE = ModuleFact(BACKEND, "module", ORIGINAL_FILE, spec_name=BACKEND)


def holder(type_name: str, inner: CallableFact, via: str = "__func__", **own: Any) -> CallableFact:
    """Return what holds a callable and has no code of its own."""
    return CallableFact(type_name, **own, wraps=(Wrapped(via, inner),))


def wrapping(outer: CallableFact, inner: CallableFact, via: str = "__wrapped__") -> CallableFact:
    """Return a function that holds another."""
    return dataclasses.replace(outer, wraps=(*outer.wraps, Wrapped(via, inner)))


def holds(
    what: CallableFact | ClassFact | ModuleFact | Datum,
    query: str = QUERY,
    of: ClassFact | None = None,
) -> Answer:
    """Return the answer of a process in which an attribute holds this; a value is `of` a class."""
    answer = Answer(query, AnswerState.VALUE, module=MODULE)
    if isinstance(what, CallableFact):
        return dataclasses.replace(answer, kind=Kind.CALLABLE, function=what)
    if isinstance(what, ClassFact):
        return dataclasses.replace(answer, kind=Kind.CLASS, type=what)
    if isinstance(what, ModuleFact):
        return dataclasses.replace(answer, kind=Kind.MODULE, found_module=what)
    kind = Kind.OBJECT if what.kind == "object" else Kind.VALUE
    return dataclasses.replace(answer, kind=kind, value=what, type=of)


def no_answer(state: AnswerState, reason: str = "", query: str = QUERY, **fields: Any) -> Answer:
    """Return an answer in another state than VALUE."""
    return Answer(query, state, reason=reason, **fields)


def hook(file: str | None = HOOK_FILE, name: str = HOOKS[0], **fields: Any) -> Answer:
    """Return a loaded hook; without a file a namespace package."""
    module = ModuleFact(name, "module", file, spec_name=name, **fields)
    return Answer(name, AnswerState.VALUE, Kind.MODULE, module, found_module=module)


def no_hook(name: str = HOOKS[0]) -> Answer:
    """Return a hook that is not loaded."""
    return Answer(name, AnswerState.NOT_IMPORTED, reason=f"{name} is not imported")


def inside(*answers: Answer, hooks: tuple[Answer, ...] = (), **fields: Any) -> Inside:
    """Return what was read inside a process; by default it has loaded the hook."""
    given = {one.query: one for one in hooks}
    both = (given.get(HOOKS[0], hook()), given.get(HOOKS[1], no_hook(HOOKS[1])))
    facts: tuple[FileFact, ...] = fields.pop("files", ())
    made = Inside(
        PythonState.READ,
        PythonFact("3.11.2", "release", "3.11", path=("/opt/hooks", "/usr/lib/python3.11")),
        both,
        answers,
        {one.path: one for one in facts},
    )
    return dataclasses.replace(made, **fields)


def put(scene: Scene, *found: Inside | None, first: int = 110) -> Scene:
    """Give the workers, from pid 110 on, what is inside them."""
    for number, one in enumerate(found):
        scene.change(first + number, inside=one)
    return scene


def expect(source: str = "my_kernels", query: str = QUERY, role: str = "") -> dict[str, Any]:
    """Return the part of a configuration that expects one patch."""
    stated = dataclasses.replace(parse_patch(f"{query}={source}"), role=role)
    return {"patches": (stated,)}


def expect_hook(
    source: str = HOOK_FILE, name: str = HOOKS[0], *, exact: bool = True, role: str = ""
) -> dict[str, Any]:
    """Return the part of a configuration that expects one hook."""
    stated = HookExpectation(name, source, exact, role, f"envprobe.toml [expect.{name}]")
    return {"hooks": (stated,)}


def looked_into(scene: Scene, *pids: int, **changes: Any) -> Scene:
    """Let the interpreters of these processes have been read."""
    inside = Inside(PythonState.READ, dataclasses.replace(VENV, **changes))
    for pid in pids:
        scene.change(pid, inside=inside)
    return scene


def mirrored(scene: Scene, pid: int, variables: Variables | Environment) -> Scene:
    """Give a process the view `python`; variables replace those of its C environ."""
    process: Process = scene.processes[pid]
    if not isinstance(variables, Environment):
        entries = {**process.environment(View.LIBC).entries, **values(variables)}
        kept = {name: value for name, value in entries.items() if variables.get(name, "") != ""}
        variables = Environment(View.PYTHON, EnvironmentStatus.COMPLETE, kept, source="os.environ")
    views = {**process.environments, View.PYTHON: variables}
    return scene.change(pid, environments=views)
