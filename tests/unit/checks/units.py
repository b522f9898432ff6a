"""Scenes with a unit in front of the server, as `workers` knows it once its manager was asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from envprobe.model import Carries, Edge, EdgeKind, Environment, EnvironmentStatus, View
from envprobe.redact import DEFAULT_WANTED
from envprobe.unitfacts import Entry, Hop, UnitFacts
from envprobe.values import Value
from tests.unit.checks.scene import BASE, ROOT, Scene

NAME = "sgl.service"
PATH = f"/etc/systemd/system/{NAME}"
ENV_FILE = "/etc/sgl.env"
ENVIRONMENT, FILE = "Environment=", "EnvironmentFile="
STRIPPED = (Hop("env", f"{PATH}:4", "removes NCCL_ALGO"),)


def entries(
    variables: Mapping[str, str | None], source: str = ENVIRONMENT, **fields: Any
) -> tuple[Entry, ...]:
    """Return what a unit says; a value of None cannot be told."""
    file = ENV_FILE if source == FILE else PATH
    return tuple(
        Entry(
            name,
            None if text is None else Value(text.encode()),
            source,
            **{
                "file": file,
                "place": f"{file}:3",
                "doubt": "" if text is not None else "it is made when it runs",
                **fields,
            },
        )
        for name, text in variables.items()
    )


def facts(
    declared: Iterable[Entry],
    start: float,
    *,
    handed: Iterable[Entry] | None = None,
    edited: float | None = None,
    file_edited: float | None = None,
    **fields: Any,
) -> UnitFacts:
    """Return a unit; `edited` and `file_edited` are seconds after the start of its process."""
    said = tuple(declared)
    changed = {PATH: start - 100, ENV_FILE: start - 100}
    changed |= {PATH: start + edited} if edited is not None else {}
    changed |= {ENV_FILE: start + file_edited} if file_edited is not None else {}
    own = {one.name: one.value for one in said if one.source == ENVIRONMENT}
    return UnitFacts(
        **{
            "name": NAME,
            "active": "active",
            "sub": "running",
            "result": "success",
            "main_pid": ROOT,
            "started": start,
            "state_changed": start,
            "files": (PATH,),
            "env_files": (ENV_FILE,) if any(one.source == FILE for one in said) else (),
            "modified": changed,
            "loaded": {name: value for name, value in own.items() if value is not None},
            "on_disk": own,
            "declared": said,
            "handed": said if handed is None else tuple(handed),
            "program": "/usr/bin/python3",
            **fields,
        }
    )


def put(scene: Scene, declared: Iterable[Entry], **fields: Any) -> Scene:
    """Put a unit in front of a scene's server, which it says that it has started."""
    unit = facts(declared, scene.processes[ROOT].start_time, **fields)
    scene.fields["unit"] = unit
    main = scene.processes[ROOT]
    names = tuple(one.name for one in unit.declared)
    scene.fields["wanted"] = (*DEFAULT_WANTED, *names)
    said = {one.name: one.value for one in unit.declared if one.value is not None}
    view = Environment(
        View.DECLARED,
        EnvironmentStatus.PARTIAL if unit.open else EnvironmentStatus.COMPLETE,
        {**{name: Value(text.encode()) for name, text in BASE.items()}, **said},
        source=PATH,
        reason=unit.open,
    )
    return scene.change(
        ROOT,
        environments={View.DECLARED: view, **main.environments},
        edge=Edge(EdgeKind.ROOT, None, Carries.BUILT_BLOCK, ("it says so",), "systemd"),
    )
