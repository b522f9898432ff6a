"""The check `hook-slow`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.trace.about import TraceContext, found
from envprobe.startup.result import Cost

_LIMIT_MS: Final = 100.0


def _run(context: TraceContext) -> Iterator[Finding]:
    for answer in context.traced.answers:
        cost, effects = answer.startup.cost, answer.startup.effects
        slow = cost is not None and cost.added > _LIMIT_MS
        torch = effects is not None and effects.torch_imported
        if slow or torch:
            told = "the hooks import torch" if torch else "the hooks are slow"
            told += ", in every interpreter that inherits them"
            yield found(CHECK, context, answer, told, evidence=_evidence(context, cost))


def _evidence(context: TraceContext, cost: Cost | None) -> Iterator[str]:
    if cost is not None:
        yield f"a start takes {cost.with_hooks:.0f} ms with them, {cost.without:.0f} ms without"
    target = context.traced.target
    if target is not None:
        number = target.interpreters
        yield f"interpreters of this tree that were started with the same PYTHONPATH: {number}"


CHECK = Check(
    id="EP115",
    slug="hook-slow",
    severity=Severity.WARNING,
    summary="The hooks add much time to every start of an interpreter.",
    why="Every interpreter with this environment pays: the server, each worker, "
    "multiprocessing's resource tracker, compile workers, helper scripts. Importing torch "
    "in a hook costs seconds in each of them.",
    mend="Import nothing heavy in a hook: install an import hook that acts when the module is "
    "first imported (`envprobe init-hook DIR` writes one that costs less than 1 ms).",
    run=_run,
)
