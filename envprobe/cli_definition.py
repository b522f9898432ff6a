"""From what a command line names to launch definitions: `NAME|FILE...` or `-- COMMAND...`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from envprobe.errors import UsageError

if TYPE_CHECKING:
    from envprobe.launch.definition import Context, Definition

_DROP_IN: Final = ".conf"


def context_of(*, user: bool = False, image_inspect: str | None = None) -> Context:
    """Return what definitions are read with: the caller's environment, and which manager."""
    from envprobe.isolation import caller_environment
    from envprobe.launch import documents
    from envprobe.launch.definition import Context

    variables = {
        os.fsdecode(name): os.fsdecode(value) for name, value in caller_environment().items()
    }
    image = None if image_inspect is None else documents.image(image_inspect)
    return Context(variables, user, image)


def of_units(given: tuple[str, ...], context: Context) -> list[Definition]:
    """Return what units declare, named or as files, each file with the drop-ins behind it.

    Raises UsageError, and UndeterminedError where a manager cannot be asked.
    """
    return [_unit(name, extra, context) for name, extra in _with_drop_ins(given)]


def of_one(
    command: str, given: tuple[str, ...], words: tuple[str, ...] | None, context: Context
) -> Definition:
    """Return the one definition that `command` takes: a unit, or the command behind `--`.

    Raises UsageError if there is none, or more than one.
    """
    from envprobe.launch import definition

    units = _with_drop_ins(given)
    if len(units) + (words is not None) != 1 or words == ():
        raise UsageError(
            f"`{command}` takes one launch definition",
            f"Write `envprobe {command} --unit NAME|FILE` or `envprobe {command} -- COMMAND...`.",
        )
    if words is not None:
        return definition.of_command(words, context, os.getcwd())
    return _unit(*units[0], context)


def _with_drop_ins(given: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """Return each unit with the drop-ins that follow it."""
    found: list[tuple[str, list[str]]] = []
    for one in given:
        if not one:
            raise UsageError("the name of a unit is empty", "Name a unit or a unit file.")
        if not one.endswith(_DROP_IN):
            found.append((one, []))
        elif not found:
            raise UsageError(f"{one} is a drop-in without its unit", "Name the unit file first.")
        else:
            found[-1][1].append(one)
    return found


def _unit(name: str, extra: list[str], context: Context) -> Definition:
    from envprobe.launch import definition

    if "/" in name or os.path.isfile(name):
        return definition.of_file(name, extra, context)
    if extra:
        raise UsageError(
            f"{extra[0]} is given beside a unit that the manager is asked for",
            "Give the unit's file, or leave the drop-in out.",
        )
    return definition.of_name(name, context)
