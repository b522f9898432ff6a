"""What a framework sets itself, from the table of framework writers, as far as a start decides it.

Each row that a rehearsal stands in for says so (`rehearsed`); the others depend on the model, the
machine or a choice of the framework, and are not applied.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from envprobe import tables
from envprobe.rehearsal.frameworks import Framework, has_option, numbers
from envprobe.rehearsal.types import Written
from envprobe.values import Value


def written(
    framework: Framework, version: str, environment: Mapping[str, str], tp: int
) -> tuple[Written, ...]:
    """Return what the framework writes, in order; `environment` is that of its first process."""
    now = dict(environment)
    found = []
    for row in tables.load("framework-writers")["rows"]:
        if row["framework"] != framework.name or "rehearsed" not in row:
            continue
        for one in tuple(_of_row(row, framework, version, now, tp)):
            found.append(one)
            if not one.in_workers:
                _apply(one, now)
    return tuple(found)


def _apply(one: Written, environment: dict[str, str]) -> None:
    if one.value is None:
        environment.pop(one.name, None)
    else:
        environment[one.name] = os.fsdecode(one.value.reveal())


def _of_row(
    row: Mapping[str, Any],
    framework: Framework,
    version: str,
    environment: Mapping[str, str],
    tp: int,
) -> Iterator[Written]:
    entry = next((one for one in row["rehearsed"] if _is_of(one, version)), None)
    if entry is None or tp < entry.get("least", {}).get("tp", 0):
        return
    if not _needs_met(row, framework, environment):
        return
    for name, value in _named(row, entry, framework, environment):
        before = environment.get(name)
        kept = row["wins"] == "user" and before is not None
        if kept or before == value or ("unless" in entry and before == entry["unless"]):
            continue
        yield Written(
            name=name,
            value=_value(value),
            before=_value(before),
            condition=row["condition"],
            source=row["source"],
            in_workers=row["hop"] == "S",
        )


def _named(
    row: Mapping[str, Any],
    entry: Mapping[str, Any],
    framework: Framework,
    environment: Mapping[str, str],
) -> Iterator[tuple[str, str | None]]:
    """Yield each name of a row with its value, None for one that is removed."""
    if "copy_of" in row:
        prefix = row["variable"].removesuffix("*")
        for name, value in environment.items():
            if name.startswith(row["copy_of"]):
                yield prefix + name.removeprefix(row["copy_of"]), value
    elif row.get("removes"):
        yield row["variable"], None
    else:
        on = "option" not in entry or has_option(framework.python.arguments, (entry["option"],))
        value = entry["value"] if on else entry["otherwise"]
        yield row["variable"], environment.get(entry.get("from", "")) or value


def _is_of(entry: Mapping[str, Any], version: str) -> bool:
    own = numbers(version)
    return numbers(entry.get("since", "0")) <= own and (
        "until" not in entry or own <= numbers(entry["until"])
    )


def _needs_met(
    row: Mapping[str, Any], framework: Framework, environment: Mapping[str, str]
) -> bool:
    needs = row.get("needs")
    if needs is None:
        return True
    options = [one for one in needs if one.startswith("--")]
    variables = [one for one in needs if not one.startswith("--")]
    given = has_option(framework.python.arguments, options)
    return given or any(one in environment for one in variables)


def _value(text: str | None) -> Value | None:
    return None if text is None else Value(os.fsencode(text))
