"""The check `hook-not-in-children`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.trace.about import TraceContext, found
from envprobe.startup.result import Child, Outcome, Reached
from envprobe.startup.traced import Answer
from envprobe.startup.types import SITECUSTOMIZE

_MISSED: Final = (Reached.NOT_RUN, Reached.ANOTHER_RAN, Reached.FAILED)
_OF_SERVERS: Final = ("spawn", "forkserver")
_OWN_ENVIRONMENT: Final = "subprocess-env"
"""That a hook needs its PYTHONPATH is a finding only for those who expect the contrary."""

_TRAP: Final = (
    "The trap: the child can import it, because the sys.path of its parent comes with it, but that"
    " happens after site has run: the hook itself never ran there."
)


def _run(context: TraceContext) -> Iterator[Finding]:
    expected = context.expected.reach
    for answer in context.traced.answers:
        for child in answer.startup.children:
            if child.reached in _MISSED:
                yield from _missed(context, answer, child)
            elif child.reached is Reached.UNKNOWN and child.method in expected:
                told = f"whether a child by {child.method} runs the hook is not known:"
                yield found(CHECK, context, answer, f"{told} {child.error}", undetermined=True)
        tried = {child.method for child in answer.startup.children}
        for method in expected:
            if method not in tried:
                told = f"whether a child by {method} runs the hook could not be tried"
                yield found(CHECK, context, answer, told, undetermined=True)


def _missed(context: TraceContext, answer: Answer, child: Child) -> Iterator[Finding]:
    hook = answer.startup.hook(child.module)
    expected = child.method in context.expected.reach and child.module == SITECUSTOMIZE
    told_anyway = hook.outcome is Outcome.RAN and child.method != _OWN_ENVIRONMENT
    if not expected and not told_anyway:
        return
    told = f"{hook.path or child.module} does not run in a child by {child.method}"
    told += f", {child.origin} does" if child.origin else ""
    told += f": {child.reason}" if child.reason else ""
    severity = Severity.WARNING if child.method in _OF_SERVERS else Severity.INFO
    yield found(
        CHECK,
        context,
        answer,
        told,
        severity=CHECK.severity if expected else severity,
        remedy=_remedy(answer),
        evidence=[_TRAP] if child.importable else [],
        undetermined=expected and answer.unsure,
    )


def _remedy(answer: Answer) -> str:
    """Return the remedy that the flags of the parent ask for, "" for the check's own."""
    launch = answer.startup.launch
    if launch.has_flag("S"):
        return "Start the process without -S: with it no hook can run, in it or in its workers."
    if launch.ignores_variables:
        return (
            "Start the process without -E and -I, or let a .pth file in site-packages import the"
            " hook under a name of its own (`envprobe init-hook DIR --pth`), which needs no"
            " variable."
        )
    return ""


CHECK = Check(
    id="EP113",
    slug="hook-not-in-children",
    severity=Severity.ERROR,
    summary="The hook does not run in children that are started in a certain way.",
    why="Workers are children. A spawned child is a new interpreter in which PYTHONPATH and "
    "the flags decide anew; sys.path comes with it only after site has run, so that the "
    "child can import your package although its sitecustomize never ran. 'My package "
    "imports in the worker' proves nothing.",
    mend="Keep PYTHONPATH in the environment of the process that starts the workers: neither "
    "the hook nor the launcher may remove it, and env= must contain it. A .pth file in "
    "site-packages needs no variable.",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
