"""A look at the file that a launch begins with: what of it a spawned child would run again.

multiprocessing imports the parent's main module in each child that it spawns, as `__mp_main__`
(Lib/multiprocessing/spawn.py): what stands outside of the main guard runs there once more, and a
start of a process among it raises RuntimeError.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import os
import posixpath
from collections.abc import Callable
from importlib import resources
from typing import Any, Final

from envprobe.errors import UndeterminedError
from envprobe.launch.steps import Launch, Mode, Python
from envprobe.payload import entry_syntax
from envprobe.runner import supervised
from envprobe.runner.rights import Rights
from envprobe.runner.started import Bounds

_BOUNDS: Final = Bounds(seconds=20.0, output_bytes=1 << 20, processes=16)


class StartKind(str, enum.Enum):
    """What a statement starts."""

    PROCESS = "process"
    COMMAND = "command"
    RUNPY = "runpy"
    SERVER = "server"


@dataclasses.dataclass(frozen=True, slots=True)
class Start:
    """One statement outside of the main guard that starts something.

    `call` is the name that is called; `inside` the line of that call where the statement calls a
    function of the same file.
    """

    line: int
    kind: StartKind
    call: str
    inside: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class EntryLook:
    """What a program's first file is: `guard` is the line of its main guard, if it has one.

    `reason` says why it could not be told. `version` is that of the Python whose grammar was used,
    `own` that it is envprobe's because the declared interpreter is not here.
    """

    path: str
    starts: tuple[Start, ...] = ()
    guard: int | None = None
    reason: str = ""
    version: tuple[int, int] | None = None
    own: bool = False


def look(
    launch: Launch, *, own: bool = False, tell: Callable[[str], None] | None = None
) -> EntryLook | None:
    """Look at a launch's first file; None where spawned children import none (`-c`, stdin).

    The declared interpreter parses it (`-I -S`), with the rights of the declared user; nothing of
    the program runs. `tell` gets a line before that. With `own`, or where it is not here,
    envprobe's own grammar is used.
    """
    python = launch.python
    if python is None or python.mode in (Mode.COMMAND, Mode.STDIN):
        return None
    if python.mode is Mode.SCRIPT and not (launch.cwd or python.target.startswith("/")):
        return EntryLook(python.target, reason="the working directory is not known")
    target = python.target
    if python.mode is Mode.SCRIPT:
        target = posixpath.normpath(posixpath.join(launch.cwd or "/", target))
        if os.path.isdir(target):
            target = posixpath.join(target, "__main__.py")
    if own or not os.access(python.interpreter, os.X_OK):
        return _by_ourselves(python, target)
    try:
        rights = launch.identity.rights()
        if rights is not None:
            rights.require()
        if tell is not None:
            tell(f"this runs {python.interpreter} -I -S to parse the program's first file")
        answer = _asked(launch, python, target, rights)
    except UndeterminedError as error:
        return EntryLook(target, reason=error.message)
    return _look(answer, target)


def _by_ourselves(python: Python, target: str) -> EntryLook:
    if python.mode is not Mode.SCRIPT:
        return EntryLook(target, reason="only its interpreter knows where the module is")
    try:
        answer = entry_syntax.analyse_file(target)
    except OSError as error:
        return EntryLook(target, reason=f"it cannot be read ({error.strerror})")
    return dataclasses.replace(_look(answer, target), own=True)


def _look(answer: dict[str, Any], target: str) -> EntryLook:
    version = answer.get("version")
    return EntryLook(
        path=str(answer.get("path") or target),
        starts=tuple(
            Start(one["line"], StartKind(one["kind"]), one["call"], one["inside"])
            for one in answer.get("starts", ())
        ),
        guard=answer.get("guard"),
        reason=str(answer.get("reason", "")),
        version=(version[0], version[1]) if version else None,
    )


@functools.cache
def _payload() -> str:
    file = resources.files("envprobe").joinpath("payload").joinpath("entry_syntax.py")
    return file.read_text("utf-8")


def _asked(launch: Launch, python: Python, target: str, rights: Rights | None) -> dict[str, Any]:
    path = launch.declared.reading("PYTHONPATH").value
    folders = (
        [] if path is None or python.ignores_variables else os.fsdecode(path.reveal()).split(":")
    )
    words = [python.interpreter, "-I", "-S", "-B", "-c", _payload(), str(supervised.ANSWER)]
    words += [python.mode.value, target, launch.cwd or "", *folders]
    ended = supervised.run(
        supervised.Command(python.interpreter, tuple(words), {}, rights=rights),
        _BOUNDS,
        name=f"the interpreter {python.interpreter}",
    )
    try:
        found: dict[str, Any] = json.loads(ended.answer)
    except ValueError:
        raise UndeterminedError(f"{python.interpreter} could not parse it") from None
    return found
