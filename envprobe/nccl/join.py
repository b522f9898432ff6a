"""Which process of a log is which process of a scan: by host, number, threads and time.

Pure: what is read of files and processes is handed in. Several processes of a log that may be the
one are said and never chosen from.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from envprobe.model import Process
from envprobe.nccl import facts
from envprobe.nccl.facts import DamageKind, Log, Wording
from envprobe.ncclfacts import LogState, Membership, NcclLog, Read

Threads = Callable[[], frozenset[int]]
"""Returns the numbers of a process's living threads, in its own pid namespace."""

_SLACK_TICKS: Final = 2
"""A start is known to a clock tick, and the kernel stamps files with a clock that lags by one."""

_SLACK: Final = _SLACK_TICKS / os.sysconf("SC_CLK_TCK")
_LOST: Final = (DamageKind.CUT, DamageKind.TAIL, DamageKind.INCOMPLETE)
_NAMED: Final = 6
_HOST_SHOWN: Final = 64


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """Logs, read as one: `written` is each file's last write, Unix seconds, if it is known.

    `asked` says that the user named them.
    """

    log: Log
    written: Mapping[str, float]
    asked: bool

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files."""
        return tuple(one.name for one in self.log.files)


def host_in_log(name: str) -> str:
    """Return a host's name as NCCL prints it: up to the first dot (misc/utils.cc getHostName).

    From 2.29.2 on `%` and `/` are `-` there (debug.cc); a host name has neither.
    """
    return name.split(".")[0]


def joined(process: Process, host: str | None, source: Source, threads: Threads) -> NcclLog:
    """Return a process's part of the logs; `host` is its own host name, None if it is not known."""
    number = process.pid if process.inner_pid is None else process.inner_pid
    wanted = None if host is None else host_in_log(host)
    named = f"{wanted or 'any host'}:{number}"
    every = [
        one
        for one in source.log.processes
        if one.pid == number and (wanted is None or one.host == wanted)
    ]
    young = [one for one in every if not _is_older(one, process, source)]
    found = young
    if len(young) > 1:
        having = _with_living_threads(young, number, threads)
        found = having if len(having) == 1 else young
    base = NcclLog(LogState.NOT_IN_LOG, source.files, source.asked)
    if not every:
        return dataclasses.replace(base, reason=_others(source.log, named))
    if not young:
        reason = f"the log of {named} was last written before this process started"
        return dataclasses.replace(base, state=LogState.OLDER, reason=reason)
    if len(found) > 1:
        return dataclasses.replace(
            base,
            state=LogState.AMBIGUOUS,
            reason=f"{len(found)} processes of the log are {named}, and nothing tells which it is",
            candidates=tuple(_named(one) for one in found[:_NAMED]),
        )
    how = f"host and own number are {named}" if wanted else f"its own number is {number}"
    if len(found) < len(young):
        how += ", and only this one has its threads"
    part = found[0]
    sure = wanted is not None
    if sure and not (_alone(part, source.log) or _with_living_threads([part], number, threads)):
        sure = False
        how += "; others write to the same log, so that these lines may be a predecessor's"
    written = source.written.get(part.last.file)
    return _part(part, source, base, written, how, sure=sure)


def _alone(one: facts.Process, log: Log) -> bool:
    """Return whether no other process of the log wrote to its last file: then it wrote last."""
    return all(each is one or each.last.file != one.last.file for each in log.processes)


def _is_older(one: facts.Process, process: Process, source: Source) -> bool:
    written = source.written.get(one.last.file)
    return written is not None and written < process.start_time - _SLACK


def _with_living_threads(
    young: list[facts.Process], number: int, threads: Threads
) -> list[facts.Process]:
    """Return those with a thread that lives in the process.

    The main thread's number is the process's, and so tells nothing.
    """
    living = threads() - {number}
    return [one for one in young if living.intersection(each.tid for each in one.threads)]


def _named(one: facts.Process) -> str:
    return f"{_prefix(one)} from {one.first.file}:{one.first.line} on"


def _prefix(one: facts.Process) -> str:
    return f"{one.host[:_HOST_SHOWN]}:{one.pid}"


def _others(log: Log, named: str) -> str:
    there = list(dict.fromkeys(_prefix(one) for one in log.processes if one.pid))
    if not there:
        return f"the log has no line of NCCL by a known process, and none of {named}"
    more = f" and {len(there) - _NAMED} more" if len(there) > _NAMED else ""
    return f"the log has {', '.join(there[:_NAMED])}{more}, and not {named}"


def _part(
    one: facts.Process,
    source: Source,
    base: NcclLog,
    written: float | None,
    evidence: str,
    *,
    sure: bool,
) -> NcclLog:
    log = source.log
    members = tuple(
        Membership(log.communicators[rank.communicator].comm_id, rank.rank, rank.nranks)
        for rank in one.ranks
    )
    lost = any(each.kind in _LOST and each.process == one.index for each in log.damage)
    lost = lost or any(each.broken for each in log.files if each.name == one.last.file)
    return dataclasses.replace(
        base,
        state=LogState.JOINED,
        host=one.host,
        pid=one.pid,
        versions=one.versions or tuple(_only(log.banners)),
        members=members,
        reads=tuple(_read(each) for each in one.variables if each.wording is not Wording.UNCACHED),
        plugins=one.env_plugin,
        shows=bool(one.levels.get("INFO")),
        damaged=lost or bool(log.damage_counts.get(DamageKind.DEDUPLICATED)),
        written=written,
        evidence=evidence,
        sure=sure,
    )


def _only(banners: Mapping[str, int]) -> Iterable[str]:
    """Return the version of banners that belong to no process, if there is but one."""
    return banners if len(banners) == 1 else ()


def _read(one: facts.VariableRead) -> Read:
    meaning = "" if one.meaning is None else str(one.meaning)
    return Read(
        one.name,
        one.value,
        one.wording.value,
        one.source,
        one.last.file,
        one.last.line,
        meaning,
        one.rank,
        one.whole,
    )
