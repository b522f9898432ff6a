"""Reading NCCL's logs: files in, `facts.Log` out.

Any size is read in bounded memory: what repeats is counted, and `Log.left_out` says what was too
much to keep. Reads files only; starts nothing and asks no process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from envprobe.nccl import facts, joining, merging, outcomes
from envprobe.nccl.builders import ProcessBuilder, RankBuilder, VariableBuilder
from envprobe.nccl.facts import Log, LogFile
from envprobe.nccl.joining import Group
from envprobe.nccl.lines import Lines
from envprobe.nccl.outcomefacts import Outcome
from envprobe.nccl.registry import Registry
from envprobe.nccl.repairs import Repairs
from envprobe.nccl.scanner import Scanner
from envprobe.nccl.streams import Stream, expand, open_stream
from envprobe.values import Value

Progress = Callable[[str, int], None]
"""Called with a file's name and the bytes of it that were read."""


def read(names: Iterable[str], progress: Progress = lambda name, size: None) -> Log:
    """Read log files, globs, or `-` for the standard input, all as one log.

    Raises UsageError where a file cannot be read, or a library to decompress it is missing. A file
    that breaks off is damage in the result and no error.
    """
    reading = _Reading(progress)
    for name in expand(names):
        stream = open_stream(name)
        try:
            reading.add(stream)
        finally:
            stream.close()
    return reading.finished()


def read_stream(stream: Stream) -> Log:
    """Read one opened log, which the caller closes."""
    reading = _Reading(lambda name, size: None)
    reading.add(stream)
    return reading.finished()


class _Reading:
    """All files of one log."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._processes: list[ProcessBuilder] = []
        self._repairs = Repairs()
        self._left_out: dict[str, int] = {}
        self._banners: dict[str, int] = {}
        self._launchers: set[str] = set()
        self._streams: list[tuple[Stream, int]] = []

    def add(self, stream: Stream) -> None:
        registry = Registry(stream.name, self._left_out)
        lines = Lines(registry, self._repairs)
        Scanner(lines).read(stream, self._progress)
        for process in registry.processes:
            process.last = process.latest()
        self._processes += registry.processes
        self._launchers |= lines.launchers
        for name, times in lines.banners.items():
            self._banners[name] = self._banners.get(name, 0) + times
        messages = sum(
            sum(tally.values())
            for process in registry.processes
            for thread in process.threads.values()
            for tally in thread.tallies.values()
        )
        self._streams.append((stream, messages))

    def finished(self) -> Log:
        builders = merging.merged(self._processes)
        indices = {builder: index for index, builder in enumerate(builders)}
        groups = joining.groups(builders)
        numbers = {group: index for index, group in enumerate(groups)}
        found = _Ranks(indices, numbers)
        processes = tuple(found.process(builder) for builder in builders)
        communicators = tuple(found.communicator(group) for group in groups)
        return Log(
            files=tuple(_file(stream, messages) for stream, messages in self._streams),
            processes=processes,
            communicators=communicators,
            messages=sum(process.messages for process in processes),
            banners=self._banners,
            damage=self._repairs.damage(indices),
            damage_counts=self._repairs.counts,
            launchers=tuple(sorted(self._launchers)),
            left_out=self._left_out,
        )


def _file(stream: Stream, messages: int) -> LogFile:
    found = stream.compression, stream.envelope, stream.broken
    return LogFile(stream.name, stream.size, stream.lines, messages, *found)


class _Ranks:
    """Makes facts of builders; every rank's fact is made once, with its process."""

    def __init__(
        self, processes: dict[ProcessBuilder, int], communicators: dict[Group, int]
    ) -> None:
        self._processes = processes
        self._numbers = communicators
        self._groups = {rank: group for group in communicators for rank in group.ranks}
        self._facts: dict[RankBuilder, facts.Rank] = {}

    def process(self, builder: ProcessBuilder) -> facts.Process:
        tallies = outcomes.by_rank(builder)
        for rank in builder.ranks:
            networks = (rank.network,) if rank.network else ()
            outcome = outcomes.outcome(tallies[rank], rank.matrices, networks)
            self._facts[rank] = self._rank(rank, outcome)
        order = {rank: index for index, rank in enumerate(builder.ranks)}
        counts = list(tallies.values())
        unused = [each.network for each in builder.threads.values() if each.network]
        return facts.Process(
            index=self._processes[builder],
            host=builder.host,
            pid=builder.pid,
            messages=sum(sum(tally.values()) for tally in counts),
            first=builder.first,
            last=builder.latest(),
            generation=builder.generation,
            told_apart_by=builder.told_apart_by,
            family=builder.family,
            versions=tuple(builder.versions),
            git_version=builder.git_version,
            threads=_threads(builder),
            ranks=tuple(self._facts[rank] for rank in builder.ranks),
            variables=tuple(_variable(each, order) for each in builder.variables.values()),
            config=tuple(builder.config.values()),
            warnings=tuple(builder.warnings.values()),
            env_plugin=tuple(builder.env_plugin),
            outcome=outcomes.outcome(tallies.get(None, {}), builder.matrices, unused),
            witnesses=tuple(builder.witnesses),
            levels=outcomes.levels(counts),
            subsystems=outcomes.subsystems(counts),
            first_stamp=builder.first_stamp,
            last_stamp=builder.last_stamp,
        )

    def _rank(self, rank: RankBuilder, outcome: Outcome) -> facts.Rank:
        init, shape = rank.init, rank.shape
        return facts.Rank(
            process=self._processes[rank.process],
            communicator=self._numbers[self._groups[rank]],
            rank=init.rank,
            nranks=init.nranks,
            pointer=init.pointer,
            function=init.function,
            device=init.device,
            nvml_device=init.nvml_device,
            bus_id=init.bus_id,
            tid=rank.tid,
            started=rank.started,
            completed=rank.completed,
            ended=rank.ended,
            end=rank.end,
            repaired=rank.repaired,
            nodes=shape.nodes if shape else None,
            local_ranks=shape.local_ranks if shape else None,
            local_rank=shape.local_rank if shape else None,
            mnnvl=shape.mnnvl if shape else None,
            outcome=outcome,
            attributed="proved" if len(rank.process.ranks) == 1 else "inferred",
        )

    def communicator(self, group: Group) -> facts.Communicator:
        first = group.ranks[0].init
        return facts.Communicator(
            comm_id=group.ranks[0].comm_id,
            nranks=first.nranks,
            ranks=tuple(
                sorted((self._facts[rank] for rank in group.ranks), key=lambda rank: rank.rank)
            ),
            joined=group.joined,
            function=first.function,
            parent=None if group.parent is None else self._numbers[group.parent],
            color=first.color,
        )


def _threads(builder: ProcessBuilder) -> tuple[facts.Thread, ...]:
    return tuple(
        facts.Thread(
            thread.tid,
            tuple(sorted(thread.devices)),
            sum(sum(tally.values()) for tally in thread.tallies.values()),
        )
        for thread in builder.threads.values()
    )


def _variable(builder: VariableBuilder, order: dict[RankBuilder, int]) -> facts.VariableRead:
    message = builder.message
    return facts.VariableRead(
        name=os.fsdecode(message.name),
        value=Value(message.value),
        meaning=message.meaning,
        wording=message.wording,
        source=message.source,
        place=builder.place,
        last=builder.last,
        times=builder.times,
        tid=builder.tid,
        device=builder.device,
        rank=None if builder.rank is None else order[builder.rank],
        whole=builder.whole,
        repeated=builder.repeated,
    )
