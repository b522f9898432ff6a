"""From a launch definition to the start of its interpreter, as far as the definition tells it."""

from __future__ import annotations

import dataclasses
import os
import posixpath

from envprobe.errors import UndeterminedError
from envprobe.launch import steps
from envprobe.launch.definition import Definition
from envprobe.runner.rights import of_user
from envprobe.startup.types import Launch

_REMEDY = "Name the interpreter and its environment: trace-sitecustomize --python P --env K=V."


@dataclasses.dataclass(frozen=True, slots=True)
class Start:
    """The start that a definition describes; `gaps` says what of it could not be told.

    With gaps the environment is not the whole one, and what is found under it is inferred.
    """

    launch: Launch
    declared: steps.Launch
    gaps: tuple[str, ...] = ()


def starts_of(definition: Definition) -> tuple[Start, ...]:
    """Return how a definition starts its interpreters, one for each that it starts here.

    Raises UndeterminedError if it starts none that can be told: an opaque command line, a container
    (whose interpreter is not on this machine), no Python, an unknown user.
    """
    found = tuple(_start(one) for one in definition.launches if _is_here(one))
    if found:
        return found
    raise UndeterminedError(f"{definition.subject}: {_why_not(definition)}", _REMEDY)


def _is_here(launch: steps.Launch) -> bool:
    return launch.python is not None and launch.container is None and not launch.opaque


def _why_not(definition: Definition) -> str:
    for launch in definition.launches:
        if launch.opaque:
            return f"which interpreter it starts could not be told at {launch.opaque_at}"
        if launch.container is not None:
            return f"it starts a container at {launch.container.place}, which is not looked into"
    return "it starts no Python interpreter"


def _start(declared: steps.Launch) -> Start:
    python = declared.python
    assert python is not None
    entries = [one for one in declared.declared.entries if one.removed is None]
    unsure = [one for one in entries if not one.known]
    gaps = [f"{one.setting.name}: {one.doubt or one.setting.reason}" for one in unsure]
    if declared.declared.open:
        gaps.append(declared.declared.open)
    if not declared.cwd:
        gaps.append("the working directory is not known: / is taken")
    environment = {
        one.setting.name: os.fsdecode(one.setting.value.reveal())
        for one in entries
        if one.known and one.setting.value is not None
    }
    cwd = declared.cwd or "/"
    launch = Launch(
        python=python.interpreter,
        environment=environment,
        flags=python.flags,
        cwd=cwd,
        path0=_path0(python, cwd),
        rights=of_user(declared.user),
    )
    return Start(launch, declared, tuple(gaps))


def _path0(python: steps.Python, cwd: str) -> str | None:
    """Return what the program puts first on sys.path (Doc/library/sys.rst, sys.path)."""
    if python.isolated("P") or python.isolated("I"):
        return None
    if python.mode is not steps.Mode.SCRIPT:
        return ""
    target = posixpath.join(cwd, python.target)
    return target if os.path.isdir(target) else posixpath.dirname(target)
