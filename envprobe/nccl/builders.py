"""What is put together while a log is read: processes, threads and ranks before they are facts.

A `tally` counts the messages of one thread while it was busy with one rank. It is what makes
reading fast: most messages do no more than add one to it.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, Final

from envprobe.nccl import messages
from envprobe.nccl.facts import ConfigField, WarnLine, Witness
from envprobe.nccl.messages import Message
from envprobe.nccl.outcomefacts import Matrix
from envprobe.nccl.place import Place

Tally = dict[bytes, int]
"""How often each text was said; `outcomes.meaning` tells what a key means."""

OTHER: Final = b"\0"
"""The beginning of a key that is no text: a subsystem follows, or a level with a second NUL."""

PROCESSES: Final = 20_000
RANKS: Final = 100_000
VARIABLES: Final = 4_096
WARNINGS: Final = 256
"""Most that is kept: of processes and ranks in all, of variables and warnings in each process."""


@dataclasses.dataclass(eq=False, slots=True)
class RankBuilder:
    """One rank: see `facts.Rank`."""

    init: messages.Init
    process: ProcessBuilder
    tid: int
    comm_id: str
    ordinal: int
    parent: RankBuilder | None = None
    started: Place | None = None
    completed: Place | None = None
    ended: Place | None = None
    end: str = ""
    repaired: bool = False
    shape: messages.Shape | None = None
    network: str = ""
    matrices: list[Matrix] = dataclasses.field(default_factory=list)
    text: bytes = b""


@dataclasses.dataclass(eq=False, slots=True)
class VariableBuilder:
    """Equal lines about one variable: see `facts.VariableRead`."""

    message: messages.Variable
    place: Place
    last: Place
    tid: int
    device: int | None
    rank: RankBuilder | None
    whole: bool
    times: int = 0
    repeated: int = 0


@dataclasses.dataclass(eq=False, slots=True)
class ThreadBuilder:
    """A thread: `tally` is its present one, of the rank that it was busy with last.

    `last` is the number of its latest line in the file that is being read; `network` is that of
    the communicator that it makes next.
    """

    process: ProcessBuilder
    tid: int
    devices: set[int] = dataclasses.field(default_factory=set)
    rank: RankBuilder | None = None
    tally: Tally = dataclasses.field(default_factory=dict)
    tallies: dict[RankBuilder | None, Tally] = dataclasses.field(default_factory=dict)
    last: int = 0
    network: str = ""

    def enter(self, rank: RankBuilder | None) -> None:
        """From now on the thread's messages are about `rank`."""
        self.rank = rank
        self.tally = self.tallies.setdefault(rank, {})

    def count(self, key: bytes) -> None:
        """Count a message."""
        self.tally[key] = self.tally.get(key, 0) + 1

    @property
    def making(self) -> RankBuilder | None:
        """The rank whose communicator the thread is making now."""
        rank = self.rank
        return rank if rank is not None and rank.completed is None else None


@dataclasses.dataclass(eq=False, slots=True)
class ProcessBuilder:
    """A process: see `facts.Process`. `heads` are the prefixes in the scanner's cache."""

    host: str
    pid: int | None
    identity: tuple[str, ...]
    file: str
    first: Place
    generation: int = 1
    told_apart_by: str = ""
    family: str = "nccl"
    git_version: str = ""
    first_stamp: str = ""
    last_stamp: str = ""
    heads: set[bytes] = dataclasses.field(default_factory=set)
    threads: dict[int, ThreadBuilder] = dataclasses.field(default_factory=dict)
    ranks: list[RankBuilder] = dataclasses.field(default_factory=list)
    by_size: dict[int, int] = dataclasses.field(default_factory=dict)
    by_pointer: dict[str, RankBuilder] = dataclasses.field(default_factory=dict)
    variables: dict[tuple[Any, ...], VariableBuilder] = dataclasses.field(default_factory=dict)
    config: dict[object, ConfigField] = dataclasses.field(default_factory=dict)
    warnings: dict[object, WarnLine] = dataclasses.field(default_factory=dict)
    versions: dict[str, int] = dataclasses.field(default_factory=dict)
    env_plugin: dict[str, int] = dataclasses.field(default_factory=dict)
    once: dict[str, str] = dataclasses.field(default_factory=dict)
    witnesses: dict[Witness, None] = dataclasses.field(default_factory=dict)
    levels: dict[str, int] = dataclasses.field(default_factory=dict)
    matrices: list[Matrix] = dataclasses.field(default_factory=list)
    prelude: collections.deque[Early] = dataclasses.field(
        default_factory=lambda: collections.deque(maxlen=64)
    )
    last: Place | None = None

    def thread(self, tid: int, device: int | None) -> ThreadBuilder:
        """Return the thread; a new one is busy with the latest rank on its device."""
        found = self.threads.get(tid)
        if found is None:
            found = self.threads[tid] = ThreadBuilder(self, tid)
            found.enter(self._latest(device))
        if device is not None:
            found.devices.add(device)
        return found

    def _latest(self, device: int | None) -> RankBuilder | None:
        for rank in reversed(self.ranks[-64:]):
            if rank.init.device == device:
                return rank
        return None

    def latest(self) -> Place:
        """Return the place of the last line in the file that is being read, or before."""
        line = max((thread.last for thread in self.threads.values()), default=0)
        if self.last is not None and self.last.line >= line:
            return self.last
        return Place(self.file, max(line, self.first.line))


@dataclasses.dataclass(slots=True)
class Early:
    """A line of the kind that comes before a process's first communicator.

    `before` is the thread's line before it; `variable` the key of the variable that it counted.
    """

    line: int
    before: int
    message: Message
    variable: tuple[Any, ...] | None = None
