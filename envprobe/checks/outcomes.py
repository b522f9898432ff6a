"""What became of each expectation in each process that it speaks of; the env checks fold these."""

from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Iterator
from typing import Final

from envprobe.checks import who
from envprobe.checks.finding import Context
from envprobe.config import Expectation, Rule
from envprobe.expectations import accepts
from envprobe.model import Confidence, Process, Reading, State, View
from envprobe.routes.types import Break, InTime, ReadTime, Route
from envprobe.values import Value

READ_AT_START: Final = (ReadTime.EXEC, ReadTime.LIBRARY_LOAD)


class Status(str, enum.Enum):
    """What became of one expectation in one process."""

    HOLDS = "holds"
    MISSING = "missing"
    WRONG = "wrong"
    FORBIDDEN = "forbidden"
    TOO_LATE = "too_late"
    LATE_UNPROVEN = "late_unproven"
    UNKNOWN = "unknown"


TOLD_BY: Final = {
    Status.MISSING: "env-missing",
    Status.WRONG: "env-wrong-value",
    Status.FORBIDDEN: "env-forbidden",
    Status.TOO_LATE: "set-too-late",
}
"""The statuses of a broken expectation, and the check that tells of each."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """One expectation in one process.

    `reading` is that of the libc view; `route` is None if the variable has no route to the process.
    `reason` and `remedy` say why it is UNKNOWN.
    """

    expectation: Expectation
    pid: int
    status: Status
    reading: Reading
    route: Route | None = None
    reason: str = ""
    remedy: str = ""

    @property
    def confidence(self) -> Confidence:
        """How sure the verdict is: as sure as the reading it rests on."""
        return self.reading.confidence


def outcomes(context: Context) -> tuple[Outcome, ...]:
    """Return the outcome of every expectation in every process that it speaks of, in order."""
    return tuple(_all(context))


def covered(context: Context) -> frozenset[tuple[int, str]]:
    """Return the (pid, variable) pairs of which a broken expectation already speaks."""
    return frozenset(
        (one.pid, one.expectation.name) for one in context.once(outcomes) if one.status in TOLD_BY
    )


def reported(context: Context) -> frozenset[tuple[int, str]]:
    """Return the pairs of `covered` but for those whose findings [ignore] keeps apart."""
    told = {status for status, slug in TOLD_BY.items() if slug not in context.config.ignore}
    return frozenset(
        (one.pid, one.expectation.name) for one in context.once(outcomes) if one.status in told
    )


def without_process(context: Context) -> tuple[Expectation, ...]:
    """Return the expectations that speak of a role that no process has."""
    return tuple(
        one
        for one in context.config.expectations
        if one.role and not who.of_role(context, one.role)
    )


def _all(context: Context) -> Iterator[Outcome]:
    for expectation in context.config.expectations:
        processes = who.of_role(context, expectation.role)
        judged = [_judge(context, expectation, process) for process in processes]
        yield from _compare(judged) if expectation.rule is Rule.SAME else judged


def _judge(context: Context, expectation: Expectation, process: Process) -> Outcome:
    reading = process.environment(View.LIBC).reading(expectation.name)
    route = context.routing.routes.get((process.pid, expectation.name))
    made = Outcome(expectation, process.pid, Status.HOLDS, reading, route)
    if not reading.known:
        return _unread(made, process)
    accepted = accepts(expectation, reading.value, process.cwd)
    if accepted is None:
        return _undecided_list(made, process)
    if not accepted:
        return dataclasses.replace(made, status=_broken(expectation, reading))
    return made if route is None else _timed(made, route, process)


def _unread(outcome: Outcome, process: Process) -> Outcome:
    """Return the outcome where no value was read: that the name is there can still decide it."""
    expectation = outcome.expectation
    there = expectation.name in process.environment(View.LIBC).entries
    if there and expectation.rule is Rule.SET:
        return outcome
    if there and expectation.rule is Rule.ABSENT:
        return dataclasses.replace(outcome, status=Status.FORBIDDEN)
    reason, remedy = outcome.reading.reason, outcome.reading.remedy
    if outcome.reading.state is State.NOT_ASKED:
        reason = "its value was not read in this scan"
        remedy = f"Scan again with `--var {expectation.name}`."
    elif outcome.reading.state is State.CHANGING:
        reason = reason or "the environment changed at each attempt to read it"
        remedy = remedy or "Scan again once the process has started."
    return dataclasses.replace(outcome, status=Status.UNKNOWN, reason=reason, remedy=remedy)


def _undecided_list(outcome: Outcome, process: Process) -> Outcome:
    value = outcome.reading.value
    if value is not None and value.truncated:
        reason = f"only the first part of its {value.length} bytes was read"
        remedy = "Expect the exact value instead of one element."
    else:
        reason = "it has relative elements, and the process's current directory cannot be read"
        remedy = "Run envprobe as root or as the user of the process, or set absolute paths."
    return dataclasses.replace(outcome, status=Status.UNKNOWN, reason=reason, remedy=remedy)


def _broken(expectation: Expectation, reading: Reading) -> Status:
    if expectation.rule is Rule.ABSENT:
        return Status.FORBIDDEN
    return Status.MISSING if reading.state is State.ABSENT else Status.WRONG


# --- in time -------------------------------------------------------------------------------------


def _timed(outcome: Outcome, route: Route, process: Process) -> Outcome:
    """Return the outcome with what is known about when the right value came."""
    verdict = _arrival(outcome.expectation, route, process)
    if verdict is InTime.YES or route.read_time is ReadTime.EACH_USE:
        return outcome
    if route.read_time not in READ_AT_START:
        return dataclasses.replace(outcome, status=Status.LATE_UNPROVEN)
    if verdict is InTime.NO:
        return dataclasses.replace(outcome, status=Status.TOO_LATE)
    return dataclasses.replace(
        outcome,
        status=Status.UNKNOWN,
        reason="it is right now, but nothing tells whether it was there when the process started,"
        " which is when it is read",
        remedy="Set SPT_NOENV=1 before the next start of the server: then the exec view stays"
        " readable.",
    )


def _arrival(expectation: Expectation, route: Route, process: Process) -> InTime:
    """Return whether a value that satisfies the expectation was there from the start.

    Where the exec view cannot be read, the last reading before it on the route stands in.
    """
    if route.in_time is InTime.YES:
        return InTime.YES
    at_exec = exec_reading(route)
    if at_exec.known:
        if accepts(expectation, at_exec.value, process.cwd) is True:
            return InTime.YES
        # A stand-in for the exec view (the resource tracker's) speaks for itself, not for this one.
        if at_exec.confidence is Confidence.PROVED:
            return InTime.NO
    elif route.in_time is InTime.NO and not _forked(at_exec, route):
        return InTime.NO
    before = [stop.reading for stop in route.stops if stop.pid != route.pid and stop.reading.known]
    if before and accepts(expectation, before[-1].value, process.cwd) is True:
        return InTime.YES
    return InTime.NO if route.in_time is InTime.NO else InTime.UNKNOWN


def _forked(at_exec: Reading, route: Route) -> bool:
    """Return whether a fork child may have got a value, not read at the start, from its parent.

    What is read at the start was read by the ancestor that was exec'd.
    """
    return at_exec.state is State.NOT_APPLICABLE and route.read_time not in READ_AT_START


def exec_reading(route: Route) -> Reading:
    """Return the reading of the exec view of the route's own process."""
    for stop in route.stops:
        if stop.pid == route.pid and stop.view is View.EXEC:
            return stop.reading
    return Reading(State.NOT_ASKED)


# --- the same everywhere -------------------------------------------------------------------------


def _compare(judged: list[Outcome]) -> list[Outcome]:
    """Return the outcomes of a SAME expectation: whoever differs from the majority is WRONG."""
    known = [one for one in judged if one.reading.known]
    if not known:
        return judged
    counts = collections.Counter(one.reading.value for one in known)
    usual = counts.most_common(1)[0][0]
    return [_against(one, usual) for one in judged]


def _against(outcome: Outcome, usual: Value | None) -> Outcome:
    if not outcome.reading.known:
        return outcome
    status = Status.HOLDS if outcome.reading.value == usual else Status.WRONG
    return dataclasses.replace(outcome, status=status, reason="", remedy="")


# --- where it broke ------------------------------------------------------------------------------


def break_of(outcome: Outcome) -> Break | None:
    """Return the break at which the route stops to satisfy the expectation, the last of them.

    Without such a break, and for what came too late: the last break of the route. None if the value
    was not read: breaks are found by values.
    """
    if outcome.route is None or not outcome.route.arriving or not outcome.reading.known:
        return None
    found = outcome.route.arriving
    if outcome.status is Status.TOO_LATE:
        return found[-1]
    return next((one for one in reversed(found) if _breaks(outcome, outcome.route, one)), found[-1])


def _breaks(outcome: Outcome, route: Route, candidate: Break) -> bool:
    ends = (route.stops[candidate.before].reading, route.stops[candidate.after].reading)
    return [accepts(outcome.expectation, one.value) for one in ends] == [True, False]
