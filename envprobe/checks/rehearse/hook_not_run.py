"""The check `hook-not-run-in-child`."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.rehearse import hook_raised
from envprobe.checks.rehearse.about import RehearseContext, Rehearsed, found, groups, names
from envprobe.rehearsal.types import Member
from envprobe.startup.result import Child, Reached

_TRAP: Final = (
    "The trap: the child can import it, because the sys.path of its parent comes with it, but that"
    " happens after site has run: the hook itself never ran there."
)


def _run(context: RehearseContext) -> Iterator[Finding]:
    for rehearsed, one in context.told():
        for module in dict.fromkeys(hook.module for each in one.members for hook in each.hooks):
            below = [each for each in one.members if each.node is not None]
            for key, group in groups(below, functools.partial(_missed, module)):
                yield _finding(rehearsed, group, key, module)


def _hook(member: Member, module: str) -> Child | None:
    return next((hook for hook in member.hooks if hook.module == module), None)


def _missed(module: str, member: Member) -> tuple[object, ...] | None:
    """Return what is the same for all processes that miss the hook for one reason, else None."""
    hook = _hook(member, module)
    if hook is None or hook.reached not in (Reached.NOT_RUN, Reached.ANOTHER_RAN):
        return None
    if hook_raised.raised(member, module):
        return None
    return hook.reached, hook.origin, hook.reason, hook.importable, member.worker


def _finding(rehearsed: Rehearsed, group: list[Member], key: object, module: str) -> Finding:
    first = rehearsed.rehearsal.first
    hook = _hook(group[0], module)
    assert hook is not None
    assert first is not None
    path = first.effects.loaded.get(module)
    method = rehearsed.rehearsal.plan.method.value
    if path is None:
        told = f"{module} of the first process is none, and {hook.origin} runs in {names(group)}"
    else:
        told = f"{path} does not run in {names(group)} ({method})"
        told += f", {hook.origin} does" if hook.origin else ""
    told += f": {hook.reason}." if hook.reason else "."
    return found(
        CHECK,
        rehearsed,
        told,
        members=group,
        severity=CHECK.severity if group[0].worker else Severity.WARNING,
        evidence=[_TRAP] if hook.importable else [],
        remedy=_remedy(rehearsed),
    )


def _remedy(rehearsed: Rehearsed) -> str:
    """Return the remedy that the flags ask for, "" for the check's own."""
    launch = rehearsed.rehearsal.start.launch
    if launch.has_flag("S"):
        return "Start the server without -S: with it no hook can run, in it or in its workers."
    return ""


CHECK = Check(
    id="EP503",
    slug="hook-not-run-in-child",
    severity=Severity.ERROR,
    summary="A start-up hook runs in the first process of the server, and not in its workers.",
    why="Workers are children. A spawned child is a new interpreter in which PYTHONPATH and the"
    " flags decide anew; sys.path comes with it only after site has run. What the hook patches"
    " stays as it was in every worker, and nothing says so.",
    mend="Keep PYTHONPATH in the environment of the process that starts the workers: neither the"
    " hook nor the launcher may remove it. A .pth file in site-packages needs no variable"
    " (`envprobe init-hook DIR --pth`).",
    run=_run,
)
