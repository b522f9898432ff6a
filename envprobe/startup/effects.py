"""What the interpreter says of itself after its hooks ran (payload/startup_probe.py)."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

from envprobe.startup.result import Attribute, Change, Effects, Replaced
from envprobe.startup.types import Launch
from envprobe.values import Value

_COERCED: Final = "LC_CTYPE"
"""Set by Python itself in the C locale (PEP 538)."""

_NAMESPACE: Final = "NamespaceLoader"


def read(answers: list[dict[str, Any]], launch: Launch) -> Effects | None:
    """Return the facts of the first answer with the patches of the others, None without any."""
    if not answers:
        return None
    patches = {one["patch"]: attribute(one["found"]) for one in answers[1:]}
    made = of_facts(answers[0], launch.environment, patches)
    recorded = {one["patch"]: one["recorded"] for one in answers[1:] if one["recorded"]}
    return dataclasses.replace(made, recorded=recorded)


def of_facts(
    told: Mapping[str, Any], given: Mapping[str, str], patches: Mapping[str, Attribute]
) -> Effects:
    """Return the facts of one process, which was `given` an environment."""
    loaded = {name: one for name, one in told["hooks"].items() if one["loaded"]}
    environment: Mapping[str, str] = told["environment"]
    return Effects(
        loaded={name: one["origin"] or one["file"] or "" for name, one in loaded.items()},
        names={name: tuple(one["names"]) for name, one in loaded.items()},
        namespaces=tuple(name for name, one in loaded.items() if _NAMESPACE in one["loader"]),
        changes=tuple(_changes(given, environment)),
        replaced=tuple(Replaced(**one) for one in told["replaced"]),
        streams=tuple(told["streams"]),
        path=None if told["path"] is None else tuple(told["path"]),
        torch_imported=told["torch"]["imported"],
        cuda_initialised=told["torch"]["initialised"],
        gpu_files=tuple(told["gpu_files"]),
        threads=told["threads"],
        children=None if told["children"] is None else tuple(told["children"]),
        waited_for_children=told["waited_for_children"],
        python_path=environment.get("PYTHONPATH"),
        flags=told["flags"],
        patches=patches,
        modules={name: tuple(files) for name, files in told.get("modules", {}).items()},
        chained=told["chained"],
    )


def attribute(told: Mapping[str, Any]) -> Attribute:
    """Return what an attribute holds."""
    return Attribute(
        type=told.get("type") or "",
        module=told.get("module") or "",
        qualname=told.get("qualname") or "",
        file=told.get("file") or "",
        line=told.get("line") or 0,
        error=told.get("error") or "",
    )


def _changes(given: Mapping[str, str], found: Mapping[str, str]) -> Iterator[Change]:
    for name in sorted({*given, *found}):
        before, after = given.get(name), found.get(name)
        if before != after and not (name == _COERCED and before is None):
            yield Change(name, _value(before), _value(after))


def _value(text: str | None) -> Value | None:
    return None if text is None else Value(os.fsencode(text))
