"""A small real process tree with planted faults, and whether a scan has found them all."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from importlib import resources
from typing import Any, Final

from envprobe.checks.finding import Context, Finding
from envprobe.config import Config, Expectation, Rule
from envprobe.errors import UndeterminedError
from envprobe.model import View
from envprobe.routes.types import CauseId
from envprobe.runner.started import Bounds, start
from envprobe.values import Value

_BOUNDS: Final = Bounds(seconds=60.0, processes=48)
_BEFORE_START: Final = {
    "NCCL_ALGO": "Ring",
    "NCCL_DEBUG": "WARN",
    "NCCL_NTHREADS": "256",
    "NCCL_PROTO": "Simple",
}
_COMMAND_LINE: Final = ("-m", "sglang.launch_server", "--tp", "4")

PLANTED: Final = {
    ("TP1", "NCCL_PROTO"): CauseId.DROPPED_AROUND_SPAWN,
    ("TP2", "NCCL_MIN_NCHANNELS"): CauseId.SET_LATE_IN_PARENT,
    ("TP3", "NCCL_BUFFSIZE"): CauseId.FROZEN_IN_FORKSERVER,
    ("TP3", "NCCL_MIN_NCHANNELS"): CauseId.FROZEN_IN_FORKSERVER,
}
"""What payload/demo_tree.py does wrong: the worker, the variable it lacks, and why."""

EXPLANATION: Final = (
    "TP0 has all six variables although its /proc/PID/environ is empty, as that of a real worker"
    " is: envprobe reads the live environment from its memory.",
    "TP1 was started while NCCL_PROTO was removed, TP2 before NCCL_MIN_NCHANNELS was set: each"
    " finding says between which two views the variable was lost, and every cause that fits.",
    "TP3 comes from a forkserver that is older than NCCL_BUFFSIZE and NCCL_MIN_NCHANNELS in the"
    " launcher: whatever is set there later never reaches its children.",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
    """The running tree: its launcher, what every worker should have, and who they are.

    `workers` maps the rank to the pid; `truth` maps (pid, name) to what getenv answered in that
    worker, None for nothing.
    """

    pid: int
    config: Config
    workers: dict[str, int]
    truth: dict[tuple[int, str], str | None]


@contextlib.contextmanager
def tree(python: str = sys.executable) -> Iterator[Tree]:
    """Start the tree, yield it once all its processes have reported, and end all of it after.

    `python` is the interpreter of the tree, CPython 3.9 to 3.15. Raises UndeterminedError if the
    tree cannot be started.
    """
    program = resources.files("envprobe").joinpath("payload").joinpath("demo_tree.py")
    with resources.as_file(program) as path:
        command = [python, "-I", "-S", str(path), *_COMMAND_LINE]
        with start(command, _BOUNDS, _environment(), name="the demo's tree", lifeline=True) as run:
            yield _tree(run.pid, run.read_line())


def _environment() -> dict[str, str]:
    # An interpreter with a shared libpython may need LD_LIBRARY_PATH to start at all.
    kept = ("PATH", "LD_LIBRARY_PATH")
    return {**{name: os.environ[name] for name in kept if name in os.environ}, **_BEFORE_START}


def _tree(pid: int, line: bytes) -> Tree:
    try:
        told: dict[str, Any] = json.loads(line)
    except ValueError:
        raise UndeterminedError("the demo's tree said something that is no JSON") from None
    expectations = [
        Expectation(name, Rule.EXACT, (Value(value.encode()),), origin="the demo")
        for name, value in told["expected"].items()
    ]
    workers = {rank: one["pid"] for rank, one in told["workers"].items()}
    truth = {
        (one["pid"], name): value
        for one in told["workers"].values()
        for name, value in one["sees"].items()
    }
    return Tree(pid, Config(expectations=tuple(expectations)), workers, truth)


def differences(tree: Tree, context: Context, findings: tuple[Finding, ...]) -> list[str]:
    """Return a sentence for each planted fault that was missed and each that was made up."""
    return [
        *_misread(tree, context),
        *_misjudged(tree, findings),
        *_unexplained(tree, context),
    ]


def _misread(tree: Tree, context: Context) -> Iterator[str]:
    """Compare what was read from outside with what each worker itself has."""
    for (pid, name), own in tree.truth.items():
        process = context.routing.snapshot.process(pid)
        reading = None if process is None else process.environment(View.LIBC).reading(name)
        if reading is None or not reading.known:
            yield f"{name} of pid {pid} could not be read"
        elif (None if reading.value is None else reading.value.reveal().decode()) != own:
            yield f"{name} of pid {pid} was read wrongly"


def _misjudged(tree: Tree, findings: tuple[Finding, ...]) -> Iterator[str]:
    missing = [one for one in findings if one.check == "env-missing"]
    found = {(pid, one.variable) for one in missing for pid in one.pids}
    planted = {(tree.workers[rank], name) for rank, name in PLANTED}
    for pid, name in sorted(planted - found):
        yield f"that {name} is missing in pid {pid} was not found"
    for pid, name in sorted(found - planted):
        yield f"{name} was said to be missing in pid {pid}, and is not"


def _unexplained(tree: Tree, context: Context) -> Iterator[str]:
    for (rank, name), cause in PLANTED.items():
        route = context.routing.routes.get((tree.workers[rank], name))
        breaks = () if route is None else route.breaks
        if not any(one.id is cause for found in breaks for one in found.causes):
            yield f"the cause {cause.value} of the loss of {name} in {rank} was not found"
