"""Which of the signs of a failure is its cause, and which only follow from it.

The rule, in this order: what comes before a later start in the same log, or before the server was
ready, has not ended this start, and what its own logger calls a warning has ended none. Of what is
left the first sign that tells a cause is the cause. Where none does, it is the first process that
ended with an exception of its own, whether a rule knows it or not; then the first sign that tells
only what came of a cause (`effect` in data/causes.json): a worker that was killed, a rank that lost
its peer. What the manager says counts after what the logs say. A hook that raised has not ended the
process: it is told beside the cause, and is the cause only where there is no other.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from envprobe.launch.live import Live
from envprobe.triage.facts import Frame, Kind, Line, Log, MarkKind, Occurrence, Raised, Triage
from envprobe.triage.places import place

STOPPED: Final = "start-stopped"
_DIED: Final = "start-worker-died"
_RUNNING: Final = frozenset(("active", "reloading"))
_SURVIVED: Final = frozenset(("DEBUG", "INFO", "WARNING"))
_OF_AN_END: Final = re.compile(
    r"(?:.*\.)?(?:KeyboardInterrupt|SystemExit|CancelledError|GeneratorExit|ChildFailedError"
    r"|ProcessExitedException|SignalException|BrokenPipeError|ConnectionResetError|EOFError"
    r"|\w*Warning)"
)
"""Exceptions that say only that a process was ended, or that another one is gone."""

_BY_SIGNAL: Final = re.compile(r"(?:exit ?code|exitcode):? -|code=(?:killed|dumped)|Killed|signal")


@dataclasses.dataclass(frozen=True, slots=True)
class Sign:
    """One sign of a failure. `log` and `line` are None where the manager says it."""

    cause: str
    what: str
    effect: bool
    fatal: bool
    certain: bool
    log: Log | None = None
    line: Line | None = None
    raised: Raised | None = None
    outermost: bool = False
    more: tuple[str, ...] = ()

    @property
    def frame(self) -> Frame | None:
        """The frame that is to be looked at, that of the user's own code if there is one."""
        return place(self.raised, outermost=self.outermost) if self.raised is not None else None

    @property
    def code(self) -> str:
        """FILE:LINE in FUNCTION of that frame, "" where there is none."""
        frame = self.frame
        if frame is None:
            return ""
        inside = f" in {frame.function}" if frame.function else ""
        return f"{frame.file}:{frame.line}{inside}"


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """The cause, None if there is no sign; `survived` counts signs that have ended no start.

    `hooks` are the hooks that raised, `follows` what came after the cause, in its order, and
    `strange` the exceptions of this start that no rule knows, with their logs.
    """

    root: Sign | None
    follows: tuple[Sign, ...]
    hooks: tuple[Sign, ...]
    survived: int
    strange: tuple[tuple[Log, Raised], ...] = ()


def judge(triage: Triage) -> Judgement:
    """Return which sign of all logs and of the manager is the cause."""
    signs: list[Sign] = []
    strange: list[tuple[Log, Raised]] = []
    survived = 0
    for log in triage.logs:
        since, hooks_since = _begin(log), _begin_of_hooks(log)
        told = [
            _of_log(log, one)
            for one in log.occurrences
            if one.line.order >= (since if one.row.fatal else hooks_since)
            and (one.row.certain or one.line.level not in _SURVIVED)
        ]
        survived += len(log.occurrences) - len(told)
        signs += told
        strange += [(log, one) for one in log.strange if one.line.order >= since]
    if triage.unit is not None:
        signs += [
            Sign(one.cause, one.what, one.effect, fatal=True, certain=True)
            for one in triage.unit.states
        ]
    hooks = tuple(one for one in signs if not one.fatal)
    fatal = [one for one in signs if one.fatal]
    root = next(iter((*_causes(fatal, strange, ready(triage)), *fatal, *hooks)), None)
    follows = tuple(_distinct(one for one in fatal if one is not root))
    return Judgement(root, follows, hooks, survived, tuple(strange))


def _causes(
    fatal: Sequence[Sign], strange: Iterable[tuple[Log, Raised]], was_ready: Line | None
) -> Iterator[Sign]:
    """Yield what may be the cause, the likeliest first: all but what came of one."""
    yield from (one for one in fatal if not one.effect)
    explained = {id(one.raised) for one in fatal if one.raised is not None and one.cause != _DIED}
    yield from (
        one
        for one in fatal
        if one.cause == STOPPED
        or (one.cause == _DIED and is_a_reason(one.raised) and id(one.raised) not in explained)
    )
    # Of a server that had been ready, an exception may be that of a request, and survived.
    if was_ready is None and fatal and not any(_BY_SIGNAL.search(one.what) for one in fatal):
        yield from (_raising(log, one) for log, one in strange if one.frames and is_a_reason(one))


def is_a_reason(raised: Raised | None) -> bool:
    """Return whether an exception tells more than that a process ended."""
    return raised is not None and bool(raised.type) and not _OF_AN_END.fullmatch(raised.type)


def _raising(log: Log, raised: Raised) -> Sign:
    said = f"{raised.type}: {raised.message}" if raised.message else raised.type
    return Sign(_DIED, said, False, True, False, log, raised.line, raised)


def _of_log(log: Log, one: Occurrence) -> Sign:
    row = one.row
    return Sign(
        row.cause,
        one.what,
        row.effect,
        row.fatal,
        row.certain,
        log,
        one.line,
        one.raised,
        row.outermost,
        one.more,
    )


def _begin(log: Log) -> int:
    """Return the order of the first line that can have ended the last start in a log.

    A journal is read for one start only: its marks of a start say nothing more.
    """
    kinds = [MarkKind.READY] if log.kind is Kind.JOURNAL else [MarkKind.START, MarkKind.READY]
    return max((one.line.order for one in log.marks if one.kind in kinds), default=0)


def _begin_of_hooks(log: Log) -> int:
    """Return the order of the first line at which a hook of the last start can have raised.

    Hooks run before a server says that it starts: behind all that is of an earlier start.
    """
    since = _begin(log)
    if log.kind is Kind.JOURNAL or any(
        one.kind is MarkKind.READY and one.line.order == since for one in log.marks
    ):
        return since
    earlier = [one.line for one in log.marks] + [
        one.line for one in log.occurrences if one.row.fatal
    ]
    return max((one.order for one in earlier if one.order < since), default=0)


def _distinct(signs: Iterable[Sign]) -> Iterator[Sign]:
    seen: set[tuple[str, str]] = set()
    for one in signs:
        if (one.cause, one.what) not in seen:
            seen.add((one.cause, one.what))
            yield one


def ready(triage: Triage) -> Line | None:
    """Return the last line that says that the server was ready."""
    found = [mark.line for log in triage.logs for mark in log.marks if mark.kind is MarkKind.READY]
    return found[-1] if found else None


def running(live: Live) -> bool:
    """Return whether a unit runs now, and was not restarted after a failure."""
    return live.active in _RUNNING and live.sub != "auto-restart"
