"""The check `rehearsed-process-failed`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.rehearse.about import RehearseContext, found, quoted
from envprobe.checks.who import folded, some
from envprobe.model import Sentence
from envprobe.rehearsal.types import FIRST, Failed, Rehearsal, Stopped

_MORE_TIME: Final = (
    "Give it more time with --timeout; if it still does not answer, a hook or a module waits there."
)
_OTHERWISE: Final = (
    "Use an interpreter from Python 3.9 on. Look for a hook that closes descriptors, or replaces"
    " functions of the standard library: a rehearsal needs them where a server may not."
)


def _run(context: RehearseContext) -> Iterator[Finding]:
    for rehearsed, one in context.told():
        for group in folded(one.failed, _key).values():
            names = some([failed.name for failed in group], 6)
            yield found(
                CHECK,
                rehearsed,
                f"{names[:1].upper()}{names[1:]} {_words(group[0])}.",
                evidence=_said(group[0]),
                remedy=_remedy(group[0]),
                undetermined=bool(_remedy(group[0])),
            )
        if one.end.stopped is Stopped.NO and (names_lost := _lost(one)):
            told = f"What became of {some(names_lost, 6)} is not known: no answer came that could"
            yield found(CHECK, rehearsed, f"{told} be read.", undetermined=True)


def _remedy(failed: Failed) -> str:
    """Return what to do where the real server may well come up, "" where it would not."""
    if failed.why == "silent":
        return _MORE_TIME
    return _OTHERWISE if failed.of_rehearsal else ""


def _lost(one: Rehearsal) -> list[str]:
    """Return the processes that said nothing, if it is not known that they failed."""
    if any(failed.name == FIRST for failed in one.failed):
        return []
    if one.first is None:
        return [FIRST]
    there = {each.node.id for each in one.members if each.node is not None}
    failed = {each.name for each in one.failed}
    lost = [node.name for node in one.plan.walk() if node.id not in there]
    # Of a process that failed, those below it never came to be.
    return [] if failed else lost


def _key(failed: Failed) -> tuple[object, ...]:
    return failed.why, failed.code, _last(failed)


def _words(failed: Failed) -> str:
    if failed.why == "silent":
        return "did not answer in the time that a rehearsal has"
    if failed.why != "ended":
        return f"could not be started ({failed.why})"
    if failed.code is None:
        return "ended before it was ready"
    killed = failed.code < 0
    how = f"was ended by signal {-failed.code}" if killed else f"ended with code {failed.code}"
    if failed.of_rehearsal:
        return f"{how} in the rehearsal's own program: whether the server comes up is not known"
    return f"{how} before it was ready"


def _last(failed: Failed) -> str:
    lines = [line for line in failed.said.splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else ""


def _said(failed: Failed) -> Iterator[Sentence]:
    if last := _last(failed):
        yield Sentence.of("Its last words: ", quoted(last), ".")


CHECK = Check(
    id="EP502",
    slug="rehearsed-process-failed",
    severity=Severity.ERROR,
    summary="A process of the rehearsed server did not come up.",
    why="The interpreter, its environment and its start-up hooks are those of the real server, and"
    " nothing else was run: the real one would not come up either. A hook that raises SystemExit"
    " ends every interpreter.",
    mend="Its last words, if there are any, name the cause; `envprobe trace-sitecustomize` shows"
    " hook by hook what an interpreter does at its start.",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
