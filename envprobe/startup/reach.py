"""Whether the hooks reach the children: real children of a parent that ran them, and why not.

* spawn: a new interpreter; PYTHONPATH and the flags decide. sys.path comes with the child after
  site has run: it can import what never ran in it (Lib/multiprocessing/spawn.py).
* fork: inherited state, site does not run again. forkserver: site ran once, in the server.
* subprocess: the C environ of the parent, unless another environment is given; no flags.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from envprobe.runner.started import Bounds
from envprobe.startup import effects, interpreter
from envprobe.startup.result import Attribute, Child, Effects, PatchState, Reached
from envprobe.startup.types import MODULES, SITECUSTOMIZE, Launch

METHODS: Final = ("spawn", "fork", "forkserver", "subprocess", "subprocess-env")
"""In the order in which they are tried; the last is given a small environment of its own."""

_GIVEN: Final = "subprocess-env"
_COPY: Final = (
    "fork copies the parent's memory: what the hook did is there, and it does not run again"
)
_SERVER: Final = "site ran in the fork server, of which the child is a copy"


def observe(
    launch: Launch,
    patches: tuple[str, ...],
    methods: tuple[str, ...],
    bounds: Bounds,
    seconds: float,
    baseline: Mapping[str, Attribute],
) -> tuple[tuple[Child, ...], str]:
    """Start the children and return what runs in each, and why there is nothing ("" if there is).

    `seconds` is for each child; `baseline` is what the attributes hold without any hook. Raises
    UndeterminedError if the interpreter cannot be started.
    """
    if not methods:
        return (), ""
    request: dict[str, Any] = {
        "path0": launch.path0,
        "patches": list(patches),
        "methods": list(methods),
        "seconds": seconds,
        "probe": interpreter.payload("startup_probe"),
        "reach": interpreter.payload("startup_reach"),
    }
    ended = interpreter.run(launch, request["reach"], bounds, arguments=(json.dumps(request),))
    told = interpreter.answers(ended)
    if not told:
        return (), f"no children could be started: {interpreter.last_words(ended)}"
    parent = Told(told[0]["reply"], launch)
    found = tuple(child for one in told[1:] for child in _children(parent, one, launch, baseline))
    missing = ", ".join(set(methods).difference(one["method"] for one in told))
    return found, f"no answer came about children by {missing}" if missing else ""


class Told:
    """The facts of one process; `told` is a reply of payload/startup_reach.py."""

    def __init__(self, told: Mapping[str, Any], launch: Launch) -> None:
        patches = {name: effects.attribute(one) for name, one in told["patches"].items()}
        self.facts: Effects = effects.of_facts(told["facts"], launch.environment, patches)
        self.importable: Mapping[str, str | None] = told["importable"]
        self.cwd: str | None = told["facts"]["cwd"]


def _children(
    parent: Told, answer: Mapping[str, Any], launch: Launch, baseline: Mapping[str, Attribute]
) -> Iterator[Child]:
    method = answer["method"]
    for module in MODULES:
        if module != SITECUSTOMIZE and module not in parent.facts.loaded:
            continue
        if "error" in answer:
            yield Child(method, module, Reached.UNKNOWN, error=answer["error"])
        else:
            yield child_of(module, method, parent, Told(answer["reply"], launch), launch, baseline)


def child_of(
    module: str,
    method: str,
    parent: Told,
    child: Told,
    launch: Launch,
    baseline: Mapping[str, Attribute],
) -> Child:
    """Return what became of the hook `module` in a child that was started by `method`."""
    wanted = parent.facts.loaded.get(module)
    origin = child.facts.loaded.get(module)
    reached = _reached(method, wanted, origin)
    reason = {Reached.INHERITED: _COPY, Reached.RAN: ""}.get(reached)
    if reached is Reached.RAN and method == "forkserver":
        reason = _SERVER
    return Child(
        method=method,
        module=module,
        reached=reached,
        origin=origin or "",
        reason=_why_not(method, parent, child, launch) if reason is None else reason,
        importable=bool(wanted) and origin != wanted and child.importable[module] == wanted,
        patches={
            name: patch_state(baseline.get(name), parent.facts.patches[name], found)
            for name, found in child.facts.patches.items()
        },
    )


def _reached(method: str, wanted: str | None, origin: str | None) -> Reached:
    if wanted is None:
        return Reached.FAILED if origin is None else Reached.ANOTHER_RAN
    if origin is None:
        return Reached.NOT_RUN
    if origin != wanted:
        return Reached.ANOTHER_RAN
    return Reached.INHERITED if method == "fork" else Reached.RAN


def _why_not(method: str, parent: Told, child: Told, launch: Launch) -> str:
    """Return why the parent's hook does not run in a child."""
    before = launch.environment.get("PYTHONPATH")
    now, there = parent.facts.python_path, child.facts.python_path
    if child.facts.flags["no_site"]:
        return "-S came with the child: it imports no site"
    if method == _GIVEN and before != there:
        return "it was given an environment of its own (env=), without PYTHONPATH"
    if reason := _by_flags(parent, child, now):
        return reason
    if before is not None and now is None:
        return "the hook has removed PYTHONPATH from the environment in its own process"
    if before != now:
        return "the hook has changed PYTHONPATH in its own process"
    if now != there:
        return "PYTHONPATH is another in the child's environment"
    relative = any(entry[:1] != "/" for entry in (before or "/").split(":"))
    if relative and child.cwd != launch.cwd:
        return f"PYTHONPATH has a relative entry, and the child runs in {child.cwd}"
    if parent.facts.flags["no_user_site"] and not child.facts.flags["no_user_site"]:
        return "-s is not handed on to it: the user site counts there, and not in its parent"
    return ""


def _by_flags(parent: Told, child: Told, python_path: str | None) -> str:
    """Return what -E and -I have to do with it, "" if nothing."""
    mine, its = (one.facts.flags["ignore_environment"] for one in (parent, child))
    if mine and not its:
        return "-E or -I is not handed on to it: PYTHONPATH counts there, and not in its parent"
    if its and not mine:
        return "it was started with -E or -I: PYTHONPATH does not count there"
    if mine and python_path:
        return "-E or -I came with the child: PYTHONPATH counts neither there nor in its parent"
    return ""


def patch_state(without: Attribute | None, parent: Attribute, child: Attribute) -> PatchState:
    """Return whether `child` holds what the hooks put in `parent`.

    `without` is what it holds where no hook runs.
    """
    if parent.error or without is None:
        return PatchState.UNKNOWN
    if parent == without:
        return PatchState.UNTOUCHED
    if child == parent:
        return PatchState.PRESENT
    if child.error and not child.error.startswith("AttributeError"):
        return PatchState.UNKNOWN
    return PatchState.ABSENT
