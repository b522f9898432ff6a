"""The hop from a process's C environ into NCCL: what its log shows, against what is there now."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from envprobe.model import Confidence, Process, Reading, State, View
from envprobe.nccl import params, silence
from envprobe.nccl.facts import Wording
from envprobe.nccl.params import Parameter, Version, version_of
from envprobe.nccl.values import interpret
from envprobe.ncclfacts import LogState, NcclLog, Read
from envprobe.routes import ncclcauses
from envprobe.routes.types import Change, NcclHop
from envprobe.routes.witnesses import Family
from envprobe.values import Value

_EACH: Final = "every rank"
_WRITTEN: Final = Wording.WRITTEN.value
_PRINTS_AS: Final = {"NCCL_P2P_LEVEL": "NCCL_P2P_DISABLE"}
"""Whose value a line of this name may be: up to 2.22 NCCL_P2P_DISABLE=1 prints as a level."""

_REMEDY: Final = (
    "What a log does not show may be set all the same: compare the C environ, and set"
    " NCCL_DEBUG=INFO with ENV in NCCL_DEBUG_SUBSYS."
)


def version_in(process: Process) -> Version | None:
    """Return the version of a process's NCCL by its log, else by its library; None if not one."""
    log, libraries = process.nccl, process.libraries
    told = log.versions if log is not None else ()
    if not told and libraries is not None:
        told = tuple(one.version for one in libraries.nccl)
    found = {version_of(one) for one in told}
    return found.pop() if len(found) == 1 else None


def hops_into(name: str, process: Process, family: Family) -> tuple[NcclHop, ...]:
    """Return the hops of one variable into a process's NCCL; none if no log was joined to it.

    A variable that every rank reads for each communicator has a hop for each; all others are read
    once in a process.
    """
    log = process.nccl
    if log is None or log.state is not LogState.JOINED or not name.startswith("NCCL_"):
        return ()
    version = version_in(process)
    live = family.reading(process, View.LIBC, name)
    shown = _printed(live, name, version)
    shown = shown._replace(values=shown.values | _by_another_name(name, process, family, version))
    parameter = params.find(name)
    printed = shown.name or name
    # That a plugin wrote a variable does not show that NCCL has read it.
    reads = [one for one in log.reads if one.name == printed and one.wording != _WRITTEN]
    if parameter is None or parameter.printed_by != _EACH or not log.members:
        return (_hop(name, process, family, log, reads, shown, None),)
    return tuple(
        _hop(
            name,
            process,
            family,
            log,
            [one for one in reads if one.member in (None, number)],
            shown,
            number,
        )
        for number in range(len(log.members))
    )


class _Printed(NamedTuple):
    """What NCCL's line would say of what the C environ has now.

    `name` is that of the line if it is another one; `known` is false if the C environ does not say.
    """

    values: frozenset[Value] = frozenset()
    name: str = ""
    known: bool = True


def _printed(live: Reading, name: str, version: Version | None) -> _Printed:
    if live.value is None or live.value.truncated:
        return _Printed(known=live.state is State.ABSENT)
    found = interpret(name, os.fsdecode(live.value.reveal()), version)
    # A refused value stands in the line as it was given.
    values = {live.value}
    if found.printed is not None:
        values.add(Value(os.fsencode(found.printed)))
    return _Printed(frozenset(values), found.printed_as)


def _by_another_name(
    name: str, process: Process, family: Family, version: Version | None
) -> frozenset[Value]:
    """Return what lines of this name say of the other variable that prints as this one."""
    other = _PRINTS_AS.get(name)
    if other is None:
        return frozenset()
    shown = _printed(family.reading(process, View.LIBC, other), other, version)
    return shown.values if shown.name == name else frozenset()


def _hop(
    name: str,
    process: Process,
    family: Family,
    log: NcclLog,
    reads: list[Read],
    shown: _Printed,
    number: int | None,
) -> NcclHop:
    member = log.members[number] if number is not None else None
    communicator, rank = (member.communicator, member.rank) if member else ("", None)
    if not reads:
        reason = "; ".join(_reasons(name, process, log, member.nranks if member else None))
        reading = Reading(State.UNREADABLE, source=_files(log), reason=reason, remedy=_REMEDY)
        return NcclHop(communicator, rank, reading, shown.name)
    others = [one for one in reads if one.value not in shown.values and one.whole]
    last = others[-1] if others else reads[-1]
    sure = Confidence.PROVED if log.sure and last.whole else Confidence.INFERRED
    source = f"NCCL's log, {last.file}:{last.line}"
    reading = Reading(State.VALUE, last.value, source, confidence=sure)
    found = NcclHop(
        communicator,
        rank,
        reading,
        shown.name,
        origin=ncclcauses.origin(name, process, family, last),
    )
    if not shown.known or not others:
        return found
    live = family.reading(process, View.LIBC, name)
    case = ncclcauses.Late(name, process, family, log, last, live, version_in(process))
    fitting, excluded = ncclcauses.weigh(case)
    alone = len(fitting) == 1 and not fitting[0].evidence_against and sure is Confidence.PROVED
    return dataclasses.replace(
        found,
        change=Change.APPEARED if live.state is State.ABSENT else Change.CHANGED,
        causes=fitting,
        excluded=excluded,
        confidence=Confidence.PROVED if alone else Confidence.INFERRED,
        writer=ncclcauses.writer(case),
    )


def _files(log: NcclLog) -> str:
    return f"NCCL's log, {', '.join(log.files[:3])}"


def _reasons(name: str, process: Process, log: NcclLog, nranks: int | None) -> Iterator[str]:
    """Yield why the log may not show a variable; never nothing."""
    version = version_in(process)
    told = [*silence.of_name(name, version)]
    parameter = params.find(name)
    if parameter is not None:
        told += _of_parameter(parameter, version, nranks)
    if not log.shows:
        told.append("the log has no INFO line of this process")
    elif not log.reads:
        told.append("the log shows no variable of this process: NCCL_DEBUG_SUBSYS may lack ENV")
    if log.damaged:
        told.append("lines of this process were cut or left out")
    told.append(
        "or it was not set when NCCL looked, or NCCL has not come to the code that reads it"
    )
    yield "it is not shown, which does not prove that it was not read"
    yield from told


def _of_parameter(
    parameter: Parameter, version: Version | None, nranks: int | None
) -> Iterator[str]:
    yield from silence.of_parameter(parameter, version)
    if parameter.printed_by == _EACH:
        if nranks == 1:
            yield "a communicator of one rank never reads it"
        elif nranks is None:
            yield "NCCL has not begun to make a communicator, for which it is read"
