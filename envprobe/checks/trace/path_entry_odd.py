"""The check `path-entry-odd`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.trace.about import TraceContext, found
from envprobe.startup.traced import Answer
from envprobe.startup.types import EntryState
from envprobe.startup.walk import Oddity, elements

_WORDS: Final = {
    Oddity.TRAILING: "begins or ends with a colon, which means the current directory, {0}",
    Oddity.EMPTY: "has an empty element, which means the current directory, {0}",
    Oddity.RELATIVE: "has the relative element {1}, which is {0} here and another elsewhere",
}
_UNEXPANDED: Final = ("~", "$")
_STATES: Final = {
    EntryState.MISSING: "names {0}, which does not exist",
    EntryState.FILE: "names {0}, which is a file and no archive that Python can read",
    EntryState.IN_ARCHIVE: "names {0}, a place inside a file",
}


def _run(context: TraceContext) -> Iterator[Finding]:
    for answer in context.traced.answers:
        for told in _oddities(answer):
            one = found(CHECK, context, answer, f"PYTHONPATH {told}")
            yield dataclasses.replace(one, variable="PYTHONPATH")


def _oddities(answer: Answer) -> Iterator[str]:
    walk = answer.startup.walk
    states = {one.path: one.state for one in walk.entries} if walk is not None else {}
    for one in dict.fromkeys(elements(answer.startup.launch)):
        state = states.get(one.path)
        there = _STATES[state].format(one.path) if state in _STATES else ""
        if one.text.startswith(_UNEXPANDED):
            yield f"has the element {one.text} as it stands: only a shell replaces ~ and $NAME"
        elif one.oddity is Oddity.RELATIVE and there:
            yield f"has the relative element {one.text}, and {there}"
        elif one.oddity is not None:
            yield _WORDS[one.oddity].format(one.path, one.text)
        elif there:
            yield there


CHECK = Check(
    id="EP111",
    slug="path-entry-odd",
    severity=Severity.WARNING,
    summary="An entry of PYTHONPATH is empty, relative, missing, or no directory.",
    why="An empty element, such as a trailing colon makes, and a relative one stand for the "
    "directory the process happens to start in: the same value finds another hook "
    "elsewhere. A missing or wrong directory is passed over in silence.",
    mend="Write absolute paths of existing directories, without a colon at the beginning or "
    "the end: PYTHONPATH=DIR${PYTHONPATH:+:$PYTHONPATH}.",
    run=_run,
)
