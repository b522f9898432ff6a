"""The check `code-changed-since-start`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from envprobe.checks import who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.model import Confidence, Process, Sentence
from envprobe.pythonfacts import HOOKS, AnswerState, DiskState, FileFact, files_of, only_named

_LOADED: Final = (AnswerState.VALUE, AnswerState.ABSENT)
_SLACK: Final = 0.05
"""How exactly, in seconds, a start is known: it counts in clock ticks."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Stale:
    """A file that is newer than a process, or gone; `started`: when its program was."""

    fact: FileFact
    pid: int
    started: float
    hook: bool


def _run(context: Context) -> Iterator[Finding]:
    stale = [one for process in _scope(context) for one in _stale(context, process)]
    for group in who.folded(stale, lambda one: (one.fact.path, one.fact.changed)).values():
        yield _finding(context, group)


def _scope(context: Context) -> tuple[Process, ...]:
    """Return the workers, and the processes of the roles for which something is expected."""
    roles = {one.role for one in context.config.inside}
    every = [*who.workers(context), *(one for role in roles for one in who.of_role(context, role))]
    return tuple({process.pid: process for process in every}.values())


def _stale(context: Context, process: Process) -> Iterator[_Stale]:
    inside = process.inside
    if inside is None:
        return
    started = _started(context, process)
    answers = [one for one in (*inside.hooks, *inside.answers) if one.state in _LOADED]
    hooks = {path for one in answers if one.query in HOOKS for path in files_of(one)}
    named = {path for one in answers for path in only_named(one)}
    for path in dict.fromkeys(path for one in answers for path in files_of(one)):
        fact = inside.files.get(path)
        if fact is None or (fact.state is DiskState.MISSING and path in named):
            continue
        if _is_stale(fact, started):
            yield _Stale(fact, process.pid, started, path in hooks)


def stale_files(context: Context, process: Process) -> frozenset[str]:
    """Return the paths of which the process has loaded something older than the disk has."""
    return frozenset(one.fact.path for one in _stale(context, process))


def _started(context: Context, process: Process) -> float:
    """Return when the program was started: a fork child has the modules of its parent's."""
    owner = who.process_of(context, process.image_owner)
    return process.start_time if owner is None else owner.start_time


def _is_stale(fact: FileFact, started: float) -> bool:
    if fact.state is DiskState.UNCHANGED:
        return fact.changed is not None and fact.changed > started + _SLACK
    return fact.state in (DiskState.CHANGED, DiskState.MISSING)


def _finding(context: Context, group: list[_Stale]) -> Finding:
    first = group[0]
    pids = tuple(one.pid for one in group)
    since = who.moment(min(one.started for one in group))
    whom = who.in_words(context, pids)
    if first.fact.state is DiskState.MISSING:
        happened = f"{first.fact.path} is no longer there"
    else:
        happened = f"{first.fact.path} was changed at {who.moment(first.fact.changed)}"
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(
            f"{happened}, after the start of {whom} ({since}), which runs what was there before."
        ),
        confidence=Confidence.PROVED if first.hook else Confidence.INFERRED,
        pids=pids,
        evidence=() if first.hook else (Sentence.of(_LATER),),
        remedy=Sentence.of(_GONE if first.fact.state is DiskState.MISSING else _CHANGED),
    )


_CHANGED: Final = (
    "Restart the server to run what is on the disk; if the change was not meant, put the file back"
    " first."
)
_GONE: Final = (
    "A server that is restarted now runs without this file, or does not start: put it back before"
    " that, unless it was meant to go."
)
_LATER: Final = (
    "Unless it was imported after the change: when a module was imported cannot be read afterwards."
)

CHECK = Check(
    id="EP028",
    slug="code-changed-since-start",
    severity=Severity.WARNING,
    summary="The disk has another file than the worker has loaded.",
    why="A worker keeps the code that it has loaded: a file that was changed, replaced or removed"
    " after its start says nothing about what it runs, and the next restart will run other code."
    " The time that counts is the ctime, which rsync -a, cp -p and tar cannot set back; a change of"
    " the owner or the mode moves it as well. Hooks, the files of patched functions and the modules"
    " that were asked about are compared.",
    mend="Restart the server, so that it runs what the disk has; or put the old file back, if the"
    " change was not meant.",
    run=_run,
)
