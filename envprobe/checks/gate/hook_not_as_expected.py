"""The check `hook-not-as-expected`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.gate.about import GateContext
from envprobe.checks.trace import about
from envprobe.config import HookExpectation
from envprobe.model import Sentence
from envprobe.patchexpect import accepts_hook
from envprobe.startup.result import Child, Outcome, Reached
from envprobe.startup.traced import Answer
from envprobe.startup.types import SITECUSTOMIZE

CHILDREN: Final = ("spawn",)
"""How the workers of SGLang and vLLM are started: a new interpreter for each."""

_THERE: Final = (Reached.RAN, Reached.INHERITED)


def by_winner(expectation: HookExpectation) -> bool:
    """Return whether `winner-unexpected` and `hook-not-in-children` judge this one by themselves.

    They are asked for one file of a sitecustomize, as with --expect-winner.
    """
    return expectation.exact and expectation.name == SITECUSTOMIZE


def _run(context: GateContext) -> Iterator[Finding]:
    for expectation in context.plan.hooks:
        if not by_winner(expectation):
            for answer in (one for traced in context.traced for one in traced.answers):
                yield from _at_start(expectation, answer)
                yield from _in_children(expectation, answer)


def _at_start(expectation: HookExpectation, answer: Answer) -> Iterator[Finding]:
    hook = answer.startup.hook(expectation.name)
    unknown = hook.outcome is Outcome.UNKNOWN
    if hook.outcome is Outcome.RAN:
        accepted = accepts_hook(expectation, hook.path, answer.startup.launch.cwd)
        if accepted:
            return
        told = f"{hook.path} runs as {expectation.name}"
        unknown = accepted is None
    elif unknown:
        told = f"what runs as {expectation.name} is not known"
    else:
        what = hook.path or f"no {expectation.name}"
        told = f"{what} runs to its end ({hook.reason or hook.outcome.value})"
        told = told if not hook.path else f"{hook.path} does not run to its end"
    yield _finding(expectation, answer, told, unknown=unknown)


def _in_children(expectation: HookExpectation, answer: Answer) -> Iterator[Finding]:
    tried = [one for one in answer.startup.children if one.module == expectation.name]
    for method in CHILDREN:
        child = next((one for one in tried if one.method == method), None)
        if child is None or child.reached is Reached.UNKNOWN:
            why = child.error if child is not None else "none could be started"
            told = f"what runs as {expectation.name} in a child by {method} is not known: {why}"
            yield _finding(expectation, answer, told, unknown=True)
        elif not _accepted(expectation, answer, child):
            told = f"{child.origin or f'no {expectation.name}'} runs in a child by {method}"
            yield _finding(expectation, answer, told)


def _accepted(expectation: HookExpectation, answer: Answer, child: Child) -> bool:
    if child.reached not in _THERE:
        return False
    file = child.origin or answer.startup.hook(expectation.name).path
    return accepts_hook(expectation, file, answer.startup.launch.cwd) is True


def _finding(
    expectation: HookExpectation, answer: Answer, told: str, *, unknown: bool = False
) -> Finding:
    where = "" if expectation.exact else "a file below "
    expected = f"{expectation.origin} expects {where}{expectation.source}"
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(f"{expected}, and {told}."),
        remedy=Sentence.of(CHECK.mend),
        undetermined=unknown or answer.unsure,
        who=about.who(answer),
    )


CHECK = Check(
    id="EP706",
    slug="hook-not-as-expected",
    severity=Severity.ERROR,
    summary="Another start-up hook than the expected one would run, in the server or its children.",
    why="Only one sitecustomize and one usercustomize run. The hook that the configuration expects"
    " would not be there after the restart, and no message would say so.",
    mend="`envprobe trace-sitecustomize` shows which hook runs and why; put yours first on"
    " sys.path, or have the one that runs start it.",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
