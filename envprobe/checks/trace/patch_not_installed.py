"""The check `patch-not-installed`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.trace.about import TraceContext, found
from envprobe.startup.result import PatchState
from envprobe.startup.traced import Answer
from envprobe.startup.types import SITECUSTOMIZE

_WORKERS: Final = ("spawn", "fork", "forkserver")
"""How workers are started, where --expect-reach does not say."""


def _run(context: TraceContext) -> Iterator[Finding]:
    for answer in context.traced.answers:
        for name in context.expected.patches:
            state = answer.startup.patches.get(name, PatchState.UNKNOWN)
            if state is PatchState.PRESENT:
                yield from _in_children(context, answer, name)
            elif state is PatchState.UNKNOWN:
                told = f"whether a hook has replaced {name} is not known"
                evidence = _held(answer, name)
                yield found(CHECK, context, answer, told, evidence=evidence, undetermined=True)
            else:
                told = f"no hook has replaced {name}: it is what it is without any"
                held = _held(answer, name)
                unknown = answer.unsure
                yield found(CHECK, context, answer, told, evidence=held, undetermined=unknown)


def _in_children(context: TraceContext, answer: Answer, name: str) -> Iterator[Finding]:
    for child in answer.startup.children:
        if child.module != SITECUSTOMIZE:
            continue
        if child.method not in (context.expected.reach or _WORKERS):
            continue
        state = child.patches.get(name)
        if state is PatchState.ABSENT:
            told = f"{name} is replaced in the parent, and not in a child by {child.method}"
            yield found(CHECK, context, answer, told)
        elif state is PatchState.UNKNOWN:
            told = f"whether {name} is replaced in a child by {child.method} is not known"
            yield found(CHECK, context, answer, told, undetermined=True)


def _held(answer: Answer, name: str) -> Iterator[str]:
    effects = answer.startup.effects
    held = effects.patches.get(name) if effects is not None else None
    if effects is not None and name in effects.recorded:
        yield f"the hook of `envprobe init-hook` has recorded: {effects.recorded[name]}"
    if held is not None and held.error:
        yield f"looking at it gave {held.error}"
    elif held is not None:
        where = f" from {held.file}:{held.line}" if held.file else ""
        yield f"it holds {held.module}.{held.qualname} ({held.type}){where}"


CHECK = Check(
    id="EP114",
    slug="patch-not-installed",
    severity=Severity.ERROR,
    summary="An attribute that --patch names does not hold what the hooks should have put there.",
    why="The hook may have run to its end and still not have patched anything: it caught its "
    "own error, the module was imported under another name, or it waits for an import "
    "that never comes. In a child by another start method the patch may be missing "
    "although the parent has it.",
    mend="Look at what the attribute holds, in the evidence. Install the patch when the module "
    "is first imported (`envprobe init-hook DIR` writes such a hook), and let the hook "
    "reach the children.",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
