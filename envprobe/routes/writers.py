"""Which known framework code explains a change, from the table of framework writers."""

from __future__ import annotations

import fnmatch
import functools
import os
import re
from collections.abc import Callable, Container, Iterator
from typing import Any, Final

from envprobe import tables
from envprobe.model import Process, Reading, State, View
from envprobe.routes.case import Case
from envprobe.routes.hops import HopKind, way_to
from envprobe.routes.types import Change
from envprobe.routes.witnesses import Family
from envprobe.values import Value

_WHERE: Final = {
    "P": "in the server, for all that it starts",
    "M": "in every process that imports it",
    "S": "inside the worker",
    "C": "for each process that it starts",
}

_OPTIONS_FILE: Final = "--config"
"""SGLang and vLLM take options from the file that this one names: then any may be set."""


def writer(case: Case) -> str:
    """Return which framework code made this change, in words with the source; "" if none known.

    The row must fit the frameworks on the way, the kind of process or hop, the kind of change and
    the new value.
    """
    if case.change is Change.NEVER_THERE:
        return ""
    for row in _rows_for(case.name):
        if _fits(row, case):
            return (
                f"{row['framework']} {'removes' if row.get('removes') else 'sets'} {case.name}"
                f" {_WHERE[row['hop']]}: {row['condition']} ({row['source']})"
            )
    return ""


def known_writers(name: str, value: Value, process: Process, family: Family) -> Iterator[str]:
    """Yield which framework writes exactly this value by itself, in words with the source.

    Frameworks are those on the way to the process; whether the condition held is not looked at.
    """
    frameworks = {one.role.framework for one in way_to(process, family.by_pid).processes}
    for row in _rows_for(name):
        ours = frameworks.intersection(row.get("within", [row["framework"]]))
        exact = "values" in row and not row.get("removes")
        if ours and exact and _value_fits(row, Reading(State.VALUE, value)):
            yield f"{row['framework']} sets {name} itself: {row['condition']} ({row['source']})"


def may_set(name: str, frameworks: Container[str], accepts: Callable[[Value], bool]) -> str:
    """Return which of some frameworks sets a variable to what is accepted, in words; "" if none.

    Only what needs no option counts, and only rows that name the variable and its values.
    """
    for row in _rows_for(name):
        plain = row["framework"] in frameworks and row["variable"] == name and "needs" not in row
        values = [Value(os.fsencode(text)) for text in row.get("values", ())]
        if plain and not row.get("removes") and any(map(accepts, values)):
            return f"{row['framework']} sets it itself: {row['condition']} ({row['source']})"
    return ""


@functools.cache
def _rows_for(name: str) -> tuple[dict[str, Any], ...]:
    rows = tables.load("framework-writers")["rows"]
    return tuple(row for row in rows if _named(row["variable"], name))


def _named(variable: str, name: str) -> bool:
    return variable == name or ("*" in variable and fnmatch.fnmatchcase(name, variable))


def _fits(row: dict[str, Any], case: Case) -> bool:
    return (
        _change_fits(row, case)
        and _framework_fits(row, case)
        and _needs_met(row, case)
        and any(_process_fits(row, case, process) for process in _acting(row["hop"], case))
    )


def _change_fits(row: dict[str, Any], case: Case) -> bool:
    if row.get("removes"):
        return case.change is Change.LOST
    if case.change is Change.APPEARED:
        return _value_fits(row, case.new)
    return case.change is Change.CHANGED and row["wins"] != "user" and _value_fits(row, case.new)


def _value_fits(row: dict[str, Any], reading: Reading) -> bool:
    if reading.value is None or reading.value.truncated:
        return False
    text = os.fsdecode(reading.value.reveal())
    if "values" in row:
        return text in row["values"]
    return "pattern" not in row or re.fullmatch(row["pattern"], text, re.DOTALL) is not None


def _framework_fits(row: dict[str, Any], case: Case) -> bool:
    within = row.get("within", [row["framework"]])
    return "*" in within or any(one.role.framework in within for one in case.way.processes)


def _needs_met(row: dict[str, Any], case: Case) -> bool:
    """Return whether an option or variable that switches the writing on is there, if it has one."""
    needs = row.get("needs")
    if needs is None:
        return True
    options = {word.partition("=")[0] for one in case.way.processes for word in one.title}
    return any(
        _OPTIONS_FILE in options or need in options
        if need.startswith("--")
        else any(case.family.anywhere(one, need) for one in case.way.processes)
        for need in needs
    )


def _acting(hop: str, case: Case) -> Iterator[Process]:
    """Return the processes that can have made the change at this kind of hop."""
    if hop == "C":
        yield from (one.process for one in case.of(HopKind.HANDOVER))
        return
    for one in case.of(HopKind.OWN, HopKind.FORK):
        if hop == "M" or one.process.role.worker == (hop == "S"):
            yield one.process


def _process_fits(row: dict[str, Any], case: Case, process: Process) -> bool:
    if "roles" in row and process.role.name not in row["roles"]:
        return False
    if "through" in row and all(one.role.name != row["through"] for one in case.way.processes):
        return False
    if "copy_of" in row:
        prefix = row["variable"].removesuffix("*")
        origin = row["copy_of"] + case.name.removeprefix(prefix)
        return process.environment(View.LIBC).reading(origin).value == case.new.value
    return True
