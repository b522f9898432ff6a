"""The check `rehearsal-storm`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.rehearse.about import RehearseContext, Rehearsed, found, quoted
from envprobe.model import Sentence
from envprobe.rehearsal.types import Rehearsal, Stopped

_SHOWN: Final = 8
_WORDS: Final = {
    Stopped.TIME: "was not ready when its time was up",
    Stopped.PROCESSES: "had more processes than the server that it stands for",
    Stopped.MEMORY: "took more memory than a rehearsal may",
}


def _run(context: RehearseContext) -> Iterator[Finding]:
    for rehearsed, one in context.told():
        if one.end.stopped is not Stopped.NO:
            yield _finding(rehearsed, one)


def _finding(rehearsed: Rehearsed, one: Rehearsal) -> Finding:
    end = one.end
    told = f"The declared start {_WORDS[end.stopped]}, and was ended after {end.seconds:.1f} s."
    return found(CHECK, rehearsed, told, evidence=_evidence(one))


def _evidence(one: Rehearsal) -> Iterator[Sentence]:
    for line, count in Counter(one.end.seen).most_common(_SHOWN):
        times = f" ({count} times)" if count > 1 else ""
        yield Sentence.of("Also running: ", quoted(line), f"{times}.")
    if one.first is None:
        yield Sentence.of("Not even the first process had come through its start-up hooks.")
    elif not one.whole:
        there = len(one.members)
        yield Sentence.of(f"{there} of its processes had come up by then.")


CHECK = Check(
    id="EP501",
    slug="rehearsal-storm",
    severity=Severity.ERROR,
    summary="The rehearsed start had to be ended: too many processes, too much memory or time.",
    why="A process that a start-up hook starts runs the hook again if it is Python and inherits the"
    " environment: thousands of processes in seconds, on the machine that serves. A hook or a"
    " patched module that hangs keeps every worker from coming up.",
    mend="Start nothing in a hook and in a module that it patches, and wait for nothing there."
    " `envprobe trace-sitecustomize` shows which hook it is.",
    run=_run,
)
