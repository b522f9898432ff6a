"""Starting kernel_ext's programs in processes of their own, within bounds, and reading them."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Final

from envprobe.errors import UndeterminedError
from envprobe.kernel import records
from envprobe.kernel.architecture import Architecture
from envprobe.kernel.facts import Run
from envprobe.runner import supervised
from envprobe.runner.started import Bounds
from envprobe.startup.types import Launch

_PACKAGE: Final = "kernel_ext"
_OUTPUT: Final = 8 << 20
_PROCESSES: Final = 1024
"""Threads count too: torch starts one for each core, and so does each library of its."""
_SAID: Final = 400


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """What to run on the cards: members of `kernel_ext.smoke.Request`.

    `devices`: numbers of visible cards, None for the first, () for all.
    """

    devices: tuple[int, ...] | None = None
    memory: int = 1 << 30
    bundled: bool = True
    time: bool = True
    in_class: bool = True
    installed: bool = False

    def encoded(self) -> str:
        """Return it as that program takes it."""
        return json.dumps(dataclasses.asdict(self))


@dataclasses.dataclass(frozen=True, slots=True)
class Starter:
    """How an interpreter is started, how it was chosen, and what of that is not known for sure.

    `seconds`: of wall time in all; `tell` gets lines of progress.
    """

    launch: Launch
    chosen: str
    seconds: float
    tell: Callable[[str], None]
    gaps: tuple[str, ...] = ()


def own_launch(environment: dict[str, str]) -> Launch:
    """Return the start of envprobe's own interpreter: isolated, so that no hook runs in it."""
    return Launch(sys.executable, environment, ("-I",), cwd="/", path0=None)


def compile_for(architectures: tuple[Architecture, ...], starter: Starter) -> Run:
    """Compile the kernel for architectures that need not be here.

    Raises UndeterminedError if the interpreter cannot be started.
    """
    return _run("compiled", tuple(map(str, architectures)), starter, own=True)


def run_on_cards(asked: Asked, starter: Starter) -> Run:
    """Run the kernel, or the installed function, on cards.

    Raises UndeterminedError if the interpreter cannot be started.
    """
    return _run("smoke", (asked.encoded(),), starter, own=not asked.installed)


def visible_architectures(starter: Starter) -> tuple[Architecture, ...]:
    """Return those of the cards of this machine, each once, () where none can be used."""
    run = run_on_cards(Asked(devices=(), memory=0, bundled=False), starter)
    found = [one.card.architecture for one in run.devices if one.card is not None]
    return tuple(dict.fromkeys(found))


def _run(program: str, arguments: tuple[str, ...], starter: Starter, *, own: bool) -> Run:
    """Run a program; `own`: with envprobe's copy of the package, whatever the interpreter has."""
    launch = starter.launch
    directory = _package_directory()
    started = resources.files("envprobe").joinpath("payload").joinpath("kernel_start.py")
    with resources.as_file(started) as file:
        words = [launch.python, *launch.flags, "-B", str(file), directory]
        words += ["1" if own else "0", "-" if launch.path0 is None else f"={launch.path0}"]
        words += [f"{_PACKAGE}.{program}", str(supervised.ANSWER)]
        command = supervised.Command(
            path=launch.python,
            words=(*words, *arguments),
            environment=launch.environment,
            cwd=launch.cwd,
            root=launch.root,
            rights=launch.rights,
        )
        bounds = Bounds(starter.seconds, output_bytes=_OUTPUT, processes=_PROCESSES)
        name = f"the interpreter {launch.python}"
        with supervised.running(command, bounds, name=name) as running:
            for line in iter(running.read_line, None):
                for text in _progress(line):
                    starter.tell(text)
            ended = running.end()
    run = Run(
        python=launch.python,
        chosen=starter.chosen,
        gaps=starter.gaps,
        problem=_problem(ended, starter.seconds),
        said=_last_words(ended),
        seconds=ended.seconds,
    )
    return records.read(ended.answer, run)


def _package_directory() -> str:
    """Return where kernel_ext is, without importing it."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise UndeterminedError(
            f"the package {_PACKAGE} is not installed beside envprobe", "Install envprobe again."
        )
    return os.path.abspath(spec.submodule_search_locations[0])


def _progress(line: bytes) -> Iterator[str]:
    for record in records.lines(line):
        if record["kind"] == "progress":
            yield str(record.get("text", ""))


def _problem(ended: supervised.Ended, seconds: float) -> str:
    """Return why a program has not come to its end, "" if it has."""
    if ended.stopped == "time":
        return f"it did not end within {seconds:g} s"
    if ended.stopped:
        return f"it was ended: it used more {ended.stopped} than it may"
    if ended.cut:
        return "it wrote more than is read"
    if ended.code < 0:
        return f"it was ended by signal {-ended.code}"
    return f"it ended with exit code {ended.code}" if ended.code else ""


def _last_words(ended: supervised.Ended) -> str:
    lines = ended.stderr.decode("utf-8", "backslashreplace").strip().splitlines()
    return next((line for line in reversed(lines) if line.strip()), "")[:_SAID]
