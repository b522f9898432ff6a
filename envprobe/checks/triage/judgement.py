"""Which of the signs of a failure is its cause, and which only follow from it.

The rule, in this order: what comes before a later start in the same log, or before the server was
ready, has not ended this start. Of what is left the first sign that tells a cause is the cause.
Where none does, it is the first sign that tells only what came of a cause (`effect` in
data/causes.json): a worker that was killed, a rank that lost its peer. What the manager says counts
after what the logs say. A hook that raised has not ended the process: it is told beside the cause,
and is the cause only where there is no other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final

from envprobe.launch.live import Live
from envprobe.triage.facts import Frame, Kind, Line, Log, MarkKind, Occurrence, Raised, Triage
from envprobe.triage.places import place

_RUNNING: Final = frozenset(("active", "reloading"))


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

    `hooks` are the hooks that raised, `follows` what came after the cause, in its order.
    """

    root: Sign | None
    follows: tuple[Sign, ...]
    hooks: tuple[Sign, ...]
    survived: int


def judge(triage: Triage) -> Judgement:
    """Return which sign of all logs and of the manager is the cause."""
    signs: list[Sign] = []
    survived = 0
    for log in triage.logs:
        since = _begin(log)
        told = [_of_log(log, one) for one in log.occurrences if one.line.order >= since]
        survived += len(log.occurrences) - len(told)
        signs += told
    if triage.unit is not None:
        signs += [
            Sign(one.cause, one.what, one.effect, fatal=True, certain=True)
            for one in triage.unit.states
        ]
    hooks = tuple(one for one in signs if not one.fatal)
    fatal = [one for one in signs if one.fatal]
    causes = [one for one in fatal if not one.effect]
    root = next(iter((*causes, *fatal, *hooks)), None)
    follows = tuple(_distinct(one for one in fatal if one is not root))
    return Judgement(root, follows, hooks, survived)


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
