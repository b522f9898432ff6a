"""Where a value that NCCL calls "set by environment" may come from, other than the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

from envprobe import tables
from envprobe.checks.nccl.context import Context
from envprobe.nccl import conf
from envprobe.nccl.facts import Process, Wording
from envprobe.nccl.values import interpret
from envprobe.values import Value

_DEFAULT_PLUGIN: Final = "ncclEnvDefault"
_PLUGIN: Final = re.compile(r"ENV/Plugin: (?:Using|Closing env plugin) (\S+)")


def settings(context: Context) -> dict[str, conf.Setting]:
    """Return what the configuration files put into an environment that has none of it."""
    return conf.settings(context.conf, {})


def from_files(context: Context, name: str, value: Value) -> conf.Setting | None:
    """Return the line of a configuration file that explains a value as NCCL prints it."""
    setting = context.once(settings).get(name)
    if setting is None:
        return None
    printed = interpret(name, os.fsdecode(setting.value.reveal()), None).printed
    return setting if printed is not None and Value(os.fsencode(printed)) == value else None


def from_plugin(process: Process, name: str) -> str:
    """Return the plugin of NCCL that wrote a variable, "" if none says so."""
    for one in process.variables:
        if one.name == name and one.wording is Wording.WRITTEN:
            return one.source
    return ""


def foreign_environment(process: Process) -> str:
    """Return the name of an environment plugin other than NCCL's own, "" if none was used.

    Such a plugin (2.28.7 and later) answers all of NCCL's questions for variables (plugin/env.cc).
    """
    for line in process.env_plugin:
        found = _PLUGIN.search(line)
        if found and found.group(1) != _DEFAULT_PLUGIN:
            return found.group(1)
    return ""


def writers(name: str, value: Value) -> tuple[str, ...]:
    """Return which frameworks write this value by themselves, with the condition and the source."""
    return tuple(_writers(name, value))


def _writers(name: str, value: Value) -> Iterator[str]:
    text = os.fsdecode(value.reveal())
    for row in tables.load("framework-writers")["rows"]:
        if row["variable"] == name and not row.get("removes") and text in row.get("values", ()):
            yield f"{row['framework']}, {row['condition']} ({row['source']})"
