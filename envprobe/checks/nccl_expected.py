"""What became of each expectation of [expect.nccl] in each worker; two checks fold these."""

from __future__ import annotations

import dataclasses
import enum
import os
from collections.abc import Iterator

from envprobe.checks import who
from envprobe.checks.finding import Context
from envprobe.config import Expectation, Rule
from envprobe.expectations import accepts
from envprobe.model import Process, State
from envprobe.ncclfacts import LogState
from envprobe.routes.types import NcclHop
from envprobe.values import Value

NO_LOG = "no log of NCCL was looked for"
SHOW = "Start the server with NCCL_DEBUG=INFO, or name its log with --nccl-log."


class Status(str, enum.Enum):
    """Whether one expectation holds in one worker.

    REFUSED: NCCL has read it and does not use it. MISREAD: it makes another value of the expected
    text. UNKNOWN: not shown, or there is no log of the worker.
    """

    HOLDS = "holds"
    OTHER = "other"
    FORBIDDEN = "forbidden"
    REFUSED = "refused"
    MISREAD = "misread"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """One expectation in one worker, for one communicator if the variable has one for each."""

    expectation: Expectation
    pid: int
    status: Status
    hop: NcclHop | None = None
    reason: str = ""
    remedy: str = ""


def outcomes(context: Context) -> tuple[Outcome, ...]:
    """Return the outcome of every expectation of [expect.nccl] in every worker."""
    return tuple(
        one
        for process in context.once(who.workers)
        for expectation in context.config.nccl
        for one in _outcomes(context, process, expectation)
    )


def undecided(context: Context) -> tuple[str, ...]:
    """Return the variables of [expect.nccl] that are not decided in some worker."""
    open_ones = (one for one in context.once(outcomes) if one.status is Status.UNKNOWN)
    return tuple(dict.fromkeys(one.expectation.name for one in open_ones))


def _outcomes(context: Context, process: Process, one: Expectation) -> Iterator[Outcome]:
    log = process.nccl
    if log is None or log.state is not LogState.JOINED:
        reason = NO_LOG if log is None else log.reason
        remedy = log.remedy if log is not None and log.remedy else SHOW
        yield Outcome(one, process.pid, Status.UNKNOWN, None, reason, remedy)
        return
    for hop in context.routing.routes[process.pid, one.name].nccl:
        yield _judged(process, one, hop)


def _judged(process: Process, one: Expectation, hop: NcclHop) -> Outcome:
    value = hop.reading.value
    if hop.reading.state is not State.VALUE or value is None:
        reason, remedy = hop.reading.reason, hop.reading.remedy
        return Outcome(one, process.pid, Status.UNKNOWN, hop, reason, remedy)
    if one.rule is Rule.ABSENT:
        return Outcome(one, process.pid, Status.FORBIDDEN, hop)
    return Outcome(one, process.pid, _compared(process, one, value), hop)


def _compared(process: Process, one: Expectation, value: Value) -> Status:
    # Slow to import, and needed for few scans.
    from envprobe.nccl.values import Effect, interpret
    from envprobe.routes.nccl import version_in

    if _is_refused(process, one.name, value):
        return Status.REFUSED if accepts(one, value) else Status.OTHER
    if one.rule is not Rule.EXACT:
        return Status.HOLDS if accepts(one, value) else Status.OTHER
    found = interpret(one.name, os.fsdecode(one.values[0].reveal()), version_in(process))
    if found.printed is None or Value(os.fsencode(found.printed)) != value:
        return Status.OTHER
    if found.effect in (Effect.NOT_SET, Effect.FATAL):
        return Status.REFUSED
    return Status.MISREAD if found.effect in (Effect.READ_AS, Effect.ODD) else Status.HOLDS


def _is_refused(process: Process, name: str, value: Value) -> bool:
    from envprobe.nccl.facts import Wording

    reads = process.nccl.reads if process.nccl is not None else ()
    last = [one for one in reads if one.name == name and one.value == value]
    return bool(last) and last[-1].wording == Wording.REFUSED.value
