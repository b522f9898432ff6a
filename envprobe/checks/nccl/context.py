"""What the checks of a log look at, and how they name ranks and processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from envprobe.config import Config
from envprobe.nccl import conf
from envprobe.nccl.facts import Communicator, Log, Process, Rank
from envprobe.nccl.params import Version, version_of

Made = TypeVar("Made")


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """All that a check of a log may look at; `once` keeps what several checks compute from it.

    `conf` are the configuration files of NCCL that the job read, or that this machine has if the
    log has a process of it.
    """

    log: Log
    config: Config
    conf: tuple[conf.File, ...] = ()
    memo: dict[Callable[[Context], Any], Any] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def once(self, compute: Callable[[Context], Made]) -> Made:
        """Return `compute(self)`, computed at the first call only."""
        if compute not in self.memo:
            self.memo[compute] = compute(self)
        found: Made = self.memo[compute]
        return found

    def process(self, rank: Rank) -> Process:
        """Return the process of a rank."""
        return self.log.processes[rank.process]


def version(process: Process) -> Version | None:
    """Return the version of a process's NCCL, None if its banner is lost or it had several."""
    found = {version_of(one) for one in process.versions}
    return found.pop() if len(found) == 1 else None


def usual_version(log: Log) -> Version | None:
    """Return the one version of all processes and banners, None if it is not known or not one."""
    found = {version_of(one) for process in log.processes for one in process.versions}
    found |= {version_of(one) for one in log.banners}
    found.discard(None)
    return found.pop() if len(found) == 1 else None


# --- names ---------------------------------------------------------------------------------------


def numbers(ranks: Iterable[int]) -> str:
    """Return rank numbers with runs folded: `0-3, 6`."""
    parts: list[str] = []
    for first, last in _runs(sorted(set(ranks))):
        parts.append(str(first) if first == last else f"{first}-{last}")
    return ", ".join(parts)


def _runs(ordered: list[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for one in ordered:
        if last is not None and one == last + 1:
            last = one
            continue
        if first is not None and last is not None:
            yield first, last
        first = last = one
    if first is not None and last is not None:
        yield first, last


def rank_words(ranks: Iterable[int]) -> str:
    """Return ranks in words: `rank 3`, `ranks 0-3, 6`."""
    every = sorted(set(ranks))
    return f"rank{'' if len(every) == 1 else 's'} {numbers(every)}"


def communicator_words(communicator: Communicator) -> str:
    """Return what a communicator is called."""
    named = communicator.comm_id or (
        "without an id" if communicator.parent is None else "made by a split"
    )
    return f"communicator {named} of {communicator.nranks} ranks"


def process_words(process: Process) -> str:
    """Return what a process is called: its host and pid as NCCL prints them."""
    if process.pid is None:
        return "lines without host and pid"
    again = f" (number {process.generation})" if process.generation > 1 else ""
    return f"{process.host}:{process.pid}{again}"


def pids(processes: Iterable[Process]) -> tuple[int, ...]:
    """Return the pids as they are printed in the log, in the numbering of their own namespace."""
    return tuple(dict.fromkeys(one.pid for one in processes if one.pid is not None))
