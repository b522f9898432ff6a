"""From a launch definition to the start of its interpreter, as far as the definition tells it."""

from __future__ import annotations

import dataclasses
import os
import posixpath
import zipfile
from collections.abc import Iterator, Mapping
from typing import Final

from envprobe.errors import UndeterminedError
from envprobe.launch import sandbox, steps
from envprobe.launch.definition import Definition
from envprobe.launch.environment import FROM_FILE_ONLY
from envprobe.launch.types import Entry
from envprobe.startup.types import Launch

_REMEDY: Final = "Name what it starts itself: `-- COMMAND...` with the interpreter in it."
_DECIDING: Final = (
    *("PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONUSERBASE", "PYTHONSAFEPATH"),
    *("PYTHONPLATLIBDIR", "PYTHONPYCACHEPREFIX", "HOME"),
)
"""What decides sys.path or which code a hook is read from (Doc/using/cmdline.rst)."""

_BY_SHELLS: Final = ("PWD", "OLDPWD", "SHLVL", "_")
"""What every shell sets anew, and no interpreter reads."""


@dataclasses.dataclass(frozen=True, slots=True)
class Start:
    """The start that a definition describes; `gaps` says what of it could not be told.

    With gaps the environment is not the whole one, and what is found under it is inferred.
    `undecided` maps variables, on which it hangs which hooks run, to why they are not known.
    `sandbox` is what changes which files are seen (`sandbox.concerning`), and is not reproduced.
    """

    launch: Launch
    declared: steps.Launch
    gaps: tuple[str, ...] = ()
    undecided: Mapping[str, str] = dataclasses.field(default_factory=dict)
    sandbox: tuple[sandbox.Property, ...] = ()


def starts_of(definition: Definition) -> tuple[Start, ...]:
    """Return how a definition starts its interpreters, one for each that it starts here.

    Raises UndeterminedError, with the line, if it starts one that cannot be told (`start_of`); and
    if it starts no Python.
    """
    require_python(definition)
    return tuple(start_of(definition, one) for one in definition.launches)


def require_python(definition: Definition) -> None:
    """Raise UndeterminedError for a definition that starts nothing which may be Python."""
    if not definition.launches:
        told = "it starts no Python interpreter"
        raise UndeterminedError(f"{definition.subject}: {told}", _REMEDY)


def start_of(definition: Definition, launch: steps.Launch) -> Start:
    """Return how one command of a definition starts its interpreter.

    Raises UndeterminedError, with the line, if that cannot be told: an opaque command line, a
    container (whose interpreter is not on this machine), an unknown user.
    """
    why = ""
    if launch.opaque:
        why = f"{launch.opaque_at}: which interpreter it starts is not known: {launch.opaque}"
    elif launch.container is not None:
        why = f"{launch.container.place}: it starts a container, which is not looked into"
    elif launch.missing and launch.python is not None:
        why = f"{launch.place}: the interpreter {launch.python.interpreter} is {launch.missing}"
    if why:
        raise UndeterminedError(why, _REMEDY)
    return _start(definition, launch)


def _start(definition: Definition, declared: steps.Launch) -> Start:
    python = declared.python
    assert python is not None
    entries = [one for one in declared.declared.entries if one.removed is None]
    environment = {
        one.setting.name: os.fsdecode(one.setting.value.reveal())
        for one in entries
        if one.known and one.setting.value is not None
    }
    launch = Launch(
        python=posixpath.join(declared.cwd, python.interpreter),
        environment=environment,
        flags=python.flags,
        cwd=declared.cwd or "/",
        path0=_path0(python, declared.cwd or "/"),
        rights=declared.identity.rights(),
    )
    unsure = [one for one in entries if not one.known and one.setting.name not in _BY_SHELLS]
    undecided = {**_by_cwd(declared, launch), **_undecided(declared, unsure)}
    told = (f"{name}: {reason}" for name, reason in undecided.items())
    gaps = dict.fromkeys((*told, *map(_told, unsure), *_others(definition, declared)))
    confined = definition.sandbox if declared.confined else ()
    return Start(launch, declared, tuple(gaps), undecided, confined)


def _told(entry: Entry) -> str:
    return f"{entry.setting.name}: {_why(entry)}"


def _why(entry: Entry) -> str:
    return entry.doubt or entry.setting.reason


def _undecided(declared: steps.Launch, unsure: list[Entry]) -> dict[str, str]:
    """Return the variables that are not known and decide which hooks run."""
    assert declared.python is not None
    ignored = declared.python.ignores_variables
    names = [name for name in _DECIDING if not (ignored and name.startswith("PYTHON"))]
    found = {one.setting.name: _why(one) for one in unsure if one.setting.name in names}
    if "PYTHONPATH" in names and declared.declared.entry("PYTHONPATH") is None:
        # The manager of a machine hands over none unless somebody has told it to.
        reasons = [one for one in declared.declared.open.split("; ") if one != FROM_FILE_ONLY]
        if any(reasons):
            found["PYTHONPATH"] = "; ".join(reasons)
    return found


def _by_cwd(declared: steps.Launch, launch: Launch) -> dict[str, str]:
    path = launch.python_path
    relative = path is not None and any(one[:1] != "/" for one in path.split(":"))
    if not relative or declared.cwd:
        return {}
    return {"PYTHONPATH": "it has a relative entry, and the working directory is not known"}


def _others(definition: Definition, declared: steps.Launch) -> Iterator[str]:
    """Yield what else is not known of a start."""
    if declared.declared.open:
        yield declared.declared.open
    if not declared.cwd:
        yield "the working directory is not known: / is taken"
    identity, own = declared.identity, os.geteuid()
    if identity.dynamic:
        yield "its user is made when it is started (DynamicUser=), and may read less or more"
    elif definition.of_system and not identity.user and own:
        yield f"it is started as root, which may read more than uid {own}"


def _path0(python: steps.Python, cwd: str) -> str | None:
    """Return what the program puts first on sys.path (Doc/library/sys_path_init.rst)."""
    if python.isolated("P") or python.isolated("I"):
        return None
    if python.mode is steps.Mode.MODULE:
        return cwd
    if python.mode is not steps.Mode.SCRIPT:
        return ""
    target = posixpath.join(cwd, python.target)
    if os.path.isdir(target) or (os.path.isfile(target) and _is_archive(target)):
        return target
    return posixpath.dirname(os.path.realpath(target))


def _is_archive(path: str) -> bool:
    """Return whether a file can be read as a ZIP archive."""
    try:
        return zipfile.is_zipfile(path)
    except (zipfile.BadZipFile, ValueError, OSError):
        # Offsets of a damaged one (CPython 3.11 Lib/zipfile.py, _EndRecData64).
        return False
