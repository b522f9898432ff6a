"""The check `patch-target-not-importable`."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.rehearse.about import RehearseContext, found, groups, names
from envprobe.rehearsal.types import Member


def _run(context: RehearseContext) -> Iterator[Finding]:
    for rehearsed, one in context.told():
        for patch in dict.fromkeys(name for each in one.members for name in each.targets):
            for missing, group in groups(one.members, functools.partial(_missing, patch)):
                told = f"{_what(patch)} in {names(group)}: the interpreter finds no module"
                told += f" {missing}."
                yield found(CHECK, rehearsed, told, members=group)
            for error, group in groups(one.members, functools.partial(_error, patch)):
                told = f"Whether {patch} is found in {names(group)} is not known: a finder raises"
                told += f" {error}."
                yield found(CHECK, rehearsed, told, members=group, undetermined=True)


def _what(patch: str) -> str:
    """Return what is not possible; without an attribute it is the program of the definition."""
    return f"{patch} cannot be {'patched' if ':' in patch else 'started'}"


def _missing(patch: str, member: Member) -> str | None:
    target = member.targets.get(patch)
    return target.missing or None if target is not None else None


def _error(patch: str, member: Member) -> str | None:
    target = member.targets.get(patch)
    return target.error or None if target is not None else None


CHECK = Check(
    id="EP508",
    slug="patch-target-not-importable",
    severity=Severity.ERROR,
    summary="The module to be patched, or the declared program, is not found by its interpreter.",
    why="The definition's interpreter is another one than the one that the package was installed"
    " for, or the package has moved the module in its current version: the hook then waits for an"
    " import that never comes.",
    mend="Check the interpreter of ExecStart= and PYTHONPATH, and the name of the module in the"
    " installed version.",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
