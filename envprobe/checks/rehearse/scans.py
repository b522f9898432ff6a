"""The checks of `workers` and `unit`, as far as they fit a rehearsal: run on what it shows them.

A rehearsed server has no NCCL, no launcher that could die and no time in which it changes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from envprobe.checks import (
    c_and_python_disagree,
    changed_on_the_way,
    duplicate_variable,
    env_forbidden,
    env_missing,
    env_unknown,
    env_wrong_value,
    framework_wrote,
    hook_differs,
    lost_on_the_way,
    no_workers,
    patch_missing,
    patch_not_imported,
    patch_unknown,
    patched,
    peers_differ,
    peers_differ_critical,
    pythonpath_ignored,
    set_late_unproven,
    set_too_late,
    worker_unreadable,
    worker_vanished,
)
from envprobe.checks.finding import Check, Context, Finding
from envprobe.checks.patched import Status
from envprobe.checks.rehearse import open_names, patch_not_applied
from envprobe.checks.rehearse.about import RehearseContext, Rehearsed
from envprobe.checks.unit import entry_unknown, main_guard_missing

_OF_WORKERS: Final = (
    no_workers.CHECK,
    worker_unreadable.CHECK,
    worker_vanished.CHECK,
    env_missing.CHECK,
    env_wrong_value.CHECK,
    env_forbidden.CHECK,
    env_unknown.CHECK,
    set_too_late.CHECK,
    set_late_unproven.CHECK,
    peers_differ_critical.CHECK,
    peers_differ.CHECK,
    duplicate_variable.CHECK,
    c_and_python_disagree.CHECK,
    pythonpath_ignored.CHECK,
    hook_differs.CHECK,
)
_TOLD_OTHERWISE: Final = (lost_on_the_way.CHECK, changed_on_the_way.CHECK, framework_wrote.CHECK)
"""Of what the definition sets, checks of `rehearse` tell."""

_OF_PATCHES: Final = (patch_missing.CHECK, patch_unknown.CHECK)
_IF_IMPORTED: Final = (patch_not_imported.CHECK,)
_OF_UNIT: Final = (main_guard_missing.CHECK, entry_unknown.CHECK)

SHARED: Final[tuple[Check, ...]] = (
    *(*_OF_UNIT, *_OF_WORKERS, *_TOLD_OTHERWISE),
    *(*_OF_PATCHES, *_IF_IMPORTED),
)
"""The checks of other commands that `rehearse` runs."""


def adapted() -> tuple[Check, ...]:
    """Return `SHARED`, each running on a RehearseContext."""
    return (
        *(dataclasses.replace(one, run=_on_unit(one)) for one in _OF_UNIT),
        *(dataclasses.replace(one, run=_on_scans(one)) for one in _OF_WORKERS),
        dataclasses.replace(env_unknown.CHECK, run=open_names.findings),
        *(dataclasses.replace(one, run=_on_others(one)) for one in _TOLD_OTHERWISE),
        *(dataclasses.replace(one, run=_on_patches(one)) for one in _OF_PATCHES),
        *(dataclasses.replace(one, run=_on_imported(one)) for one in _IF_IMPORTED),
    )


def declared(
    context: RehearseContext, run: Callable[[Context], Iterable[Finding]]
) -> Iterator[Finding]:
    """Yield what a check of `workers` finds about variables that the definition sets."""
    names = _names(context)
    for finding in _findings(context, run):
        if finding.variable in names:
            yield finding


def _names(context: RehearseContext) -> frozenset[str]:
    return frozenset(context.declared_names)


def _findings(
    context: RehearseContext, run: Callable[[Context], Iterable[Finding]]
) -> Iterator[Finding]:
    """Yield what is found in every rehearsal, but of what was changed to hide the GPUs."""
    for one in context.rehearsed:
        if one.scan is not None:
            for finding in run(one.scan):
                if finding.variable not in one.rehearsal.hidden:
                    yield dataclasses.replace(finding, who=finding.who or one.subject)


def _on_unit(check: Check) -> Callable[[RehearseContext], Iterable[Finding]]:
    return lambda context: check.run(context.unit)


def _on_scans(check: Check) -> Callable[[RehearseContext], Iterable[Finding]]:
    return lambda context: _findings(context, check.run)


def _on_others(check: Check) -> Callable[[RehearseContext], Iterable[Finding]]:
    def run(context: RehearseContext) -> Iterator[Finding]:
        names = _names(context)
        told = check is not framework_wrote.CHECK
        for finding in _findings(context, check.run):
            appeared = all(one.change.value == "appeared" for one in finding.breaks)
            if finding.variable not in names or (appeared and not told):
                yield finding

    return run


def _on_patches(check: Check) -> Callable[[RehearseContext], Iterable[Finding]]:
    return lambda context: _findings(_untold(context), check.run)


def _on_imported(check: Check) -> Callable[[RehearseContext], Iterable[Finding]]:
    def run(context: RehearseContext) -> Iterator[Finding]:
        if any(one.rehearsal.imported for one in context.rehearsed):
            yield from _findings(_untold(context), check.run)

    return run


def _untold(context: RehearseContext) -> RehearseContext:
    """Return a context without the patches of which checks of `rehearse` tell in each worker."""
    rehearsed = tuple(map(_without_told, context.rehearsed))
    return dataclasses.replace(context, rehearsed=rehearsed)


def _without_told(one: Rehearsed) -> Rehearsed:
    scan = one.scan
    if scan is None:
        return one
    told = {each.query for each in scan.config.patches if _is_told(one, scan, each.query)}
    kept = tuple(each for each in scan.config.patches if each.query not in told)
    config = dataclasses.replace(scan.config, patches=kept)
    return dataclasses.replace(one, scan=dataclasses.replace(scan, config=config))


def _is_told(one: Rehearsed, scan: Context, query: str) -> bool:
    """Return whether all that is wrong with a patch is told by the look from inside."""
    wrong: dict[bool, set[int]] = {True: set(), False: set()}
    for each in scan.once(patched.outcomes):
        if each.expectation.query == query and each.status is not Status.HOLDS:
            wrong[each.status is Status.BROKEN].add(each.pid)
    return all(
        pids <= patch_not_applied.told_of(one.rehearsal, query, surely=surely)
        for surely, pids in wrong.items()
    )
