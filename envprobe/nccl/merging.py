"""Processes that were read apart but are one: in two files, or without the launcher's words."""

from __future__ import annotations

from typing import Final, TypeVar

from envprobe.nccl.builders import ProcessBuilder, RankBuilder, ThreadBuilder

_K = TypeVar("_K")
_V = TypeVar("_V")

_SHORT: Final = 3
"""A host with no more messages may be another host's name behind the end of a cut line."""


def merged(processes: list[ProcessBuilder]) -> list[ProcessBuilder]:
    """Return the processes, each once, in the order in which they were first seen."""
    kept: dict[tuple[str, int | None], list[ProcessBuilder]] = {}
    nameless: list[ProcessBuilder] = []
    for process in processes:
        if process.pid is None:
            nameless.append(process)
            continue
        same = kept.setdefault((process.host, process.pid), [])
        into = next((other for other in reversed(same) if _are_one(other, process)), None)
        if into is not None:
            _absorb(into, process)
        else:
            _number(process, same)
            same.append(process)
    _join_glued_hosts(kept)
    _return_ranks(nameless, [process for same in kept.values() for process in same])
    order = {process: index for index, process in enumerate(processes)}
    found = [process for same in kept.values() for process in same] + nameless
    return sorted(found, key=order.__getitem__)


def _number(process: ProcessBuilder, same: list[ProcessBuilder]) -> None:
    if not same:
        return
    process.generation = len(same) + 1
    if process.told_apart_by:
        return
    if process.identity != same[-1].identity:
        process.told_apart_by = "the launcher's words in front of its lines differ"
    else:
        process.told_apart_by = f"{process.file} shows the start of another process"


def _are_one(one: ProcessBuilder, other: ProcessBuilder) -> bool:
    """Tell whether two processes of one host and pid are the same one."""
    if one.identity and other.identity and one.identity != other.identity:
        return False
    if one.file == other.file and one.identity == other.identity:
        # The registry told them apart.
        return False
    if _ranks(one) & _ranks(other):
        return True
    return not (_began(one) and _began(other))


def _began(process: ProcessBuilder) -> bool:
    """Tell whether the log shows the process's start."""
    return bool(process.versions or process.once)


def _ranks(process: ProcessBuilder) -> set[tuple[str, str, int]]:
    return {_rank_key(rank) for rank in process.ranks if rank.comm_id}


def _rank_key(rank: RankBuilder) -> tuple[str, str, int]:
    return rank.init.pointer, rank.comm_id, rank.init.rank


def _join_glued_hosts(kept: dict[tuple[str, int | None], list[ProcessBuilder]]) -> None:
    """Give the few lines of host `97node1` to `node1`, if both have this pid."""
    by_pid: dict[int | None, set[str]] = {}
    for host, pid in kept:
        by_pid.setdefault(pid, set()).add(host)
    for (host, pid), same in list(kept.items()):
        shorter = (host[at:] for at in range(1, len(host)))
        end = next((name for name in shorter if name in by_pid[pid]), "")
        short = all(_messages(process) <= _SHORT and not process.ranks for process in same)
        if end and short:
            by_pid[pid].remove(host)
            into = kept[end, pid][0]
            for process in kept.pop((host, pid)):
                _absorb(into, process)


def _messages(process: ProcessBuilder) -> int:
    tallies = (tally for thread in process.threads.values() for tally in thread.tallies.values())
    return sum(sum(tally.values()) for tally in tallies)


def _return_ranks(nameless: list[ProcessBuilder], named: list[ProcessBuilder]) -> None:
    """Give `Init COMPLETE` lines that lost their prefix to the rank with the same pointer."""
    owners: dict[tuple[str, str, int], list[RankBuilder]] = {}
    for process in named:
        for rank in process.ranks:
            owners.setdefault(_rank_key(rank), []).append(rank)
    for process in nameless:
        for rank in list(process.ranks):
            found = owners.get(_rank_key(rank), [])
            if len(found) == 1 and rank.comm_id:
                _combine(found[0], rank)
                found[0].repaired = True
                process.ranks.remove(rank)


def _combine(into: RankBuilder, rank: RankBuilder) -> None:
    into.started = into.started or rank.started
    into.completed = into.completed or rank.completed
    into.ended = into.ended or rank.ended
    into.end = into.end or rank.end
    into.shape = into.shape or rank.shape
    into.matrices += rank.matrices


def _absorb(into: ProcessBuilder, other: ProcessBuilder) -> None:
    """Add everything of `other` to `into`."""
    known = {_rank_key(rank): rank for rank in into.ranks if rank.comm_id}
    same: dict[RankBuilder | None, RankBuilder | None] = {None: None}
    for rank in other.ranks:
        twin = known.get(_rank_key(rank))
        same[rank] = twin or rank
        if twin is not None:
            _combine(twin, rank)
        else:
            rank.process = into
            into.ranks.append(rank)
            into.by_pointer.setdefault(rank.init.pointer, rank)
    for rank in other.ranks:
        rank.parent = same.get(rank.parent, rank.parent)
    for thread in other.threads.values():
        _absorb_thread(into, thread, same)
    _absorb_texts(into, other, same)
    into.identity = into.identity or other.identity
    into.last = other.latest()
    into.first_stamp = into.first_stamp or other.first_stamp
    into.last_stamp = other.last_stamp or into.last_stamp
    into.git_version = into.git_version or other.git_version
    into.matrices += other.matrices


def _absorb_thread(
    into: ProcessBuilder,
    thread: ThreadBuilder,
    same: dict[RankBuilder | None, RankBuilder | None],
) -> None:
    mine = into.threads.setdefault(thread.tid, ThreadBuilder(into, thread.tid))
    mine.devices |= thread.devices
    for rank, tally in thread.tallies.items():
        whole = mine.tallies.setdefault(same.get(rank, rank), {})
        for message, times in tally.items():
            whole[message] = whole.get(message, 0) + times


def _absorb_texts(
    into: ProcessBuilder,
    other: ProcessBuilder,
    same: dict[RankBuilder | None, RankBuilder | None],
) -> None:
    for (*texts, rank, whole), variable in other.variables.items():
        variable.rank = same.get(rank, rank)
        mine = into.variables.setdefault((*texts, variable.rank, whole), variable)
        if mine is not variable:
            mine.times += variable.times
    _fill(into.config, other.config)
    _fill(into.warnings, other.warnings)
    _fill(into.versions, other.versions)
    _fill(into.env_plugin, other.env_plugin)
    _fill(into.once, other.once)
    _fill(into.witnesses, other.witnesses)


def _fill(mapping: dict[_K, _V], more: dict[_K, _V]) -> None:
    for key, value in more.items():
        mapping.setdefault(key, value)
