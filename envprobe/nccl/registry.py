"""Which process and thread a message belongs to, and what the message adds to them.

Processes are told apart by host, pid and the launcher's words. A number that is used again (in
containers it often is, when a log is appended to) is recognised by lines that a process writes
once: its banner, or in versions without one (to 2.21.5) its bootstrap line.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from envprobe.nccl import builders, messages
from envprobe.nccl.builders import OTHER, Early, ProcessBuilder, RankBuilder, ThreadBuilder
from envprobe.nccl.facts import ConfigField, WarnLine
from envprobe.nccl.messages import Message
from envprobe.nccl.outcomefacts import Matrix
from envprobe.nccl.place import Place
from envprobe.nccl.prefixes import Prefix

_Key = tuple[tuple[str, ...], str, int | None]


def key_of(message: Message) -> bytes:
    """Return what a tally counts for a message whose text is not kept."""
    return OTHER + message.subsystem.encode()


def key_of_level(level: str) -> bytes:
    """Return what a tally counts for messages that are no INFO."""
    return OTHER + OTHER + level.encode()


class Registry:
    """The processes of one file."""

    def __init__(self, file: str, left_out: dict[str, int]) -> None:
        self.file = file
        self.processes: list[ProcessBuilder] = []
        self.heads: dict[bytes, ThreadBuilder] = {}
        self._current: dict[_Key, ProcessBuilder] = {}
        self._hosts: dict[tuple[str, int | None], list[ProcessBuilder]] = {}
        self._by_pid: dict[int | None, set[str]] = {}
        self._names: set[str] = set()
        self._ranks = 0
        self._left_out = left_out

    def left_out(self, kind: str) -> None:
        """Count something that is not kept."""
        self._left_out[kind] = self._left_out.get(kind, 0) + 1

    def real_host(self, host: str, pid: int, *, inside: bool = False) -> str:
        """Return the known host that `host` ends in, where a cut line is glued in front of it.

        A host with this pid is believed; in the middle of a line (`inside`) any known host is.
        """
        if (host, pid) in self._hosts:
            return host
        ends = [host[at:] for at in range(len(host))]
        known = self._by_pid.get(pid, ())
        found = next((end for end in ends if end in known), "")
        if not found and inside:
            found = next((end for end in ends if end in self._names), "")
        return found or host

    def thread(self, prefix: Prefix, place: Place) -> ThreadBuilder:
        """Return the thread of a prefix; without NCCL's own prefix that of a nameless process."""
        host = prefix.host
        pid = prefix.pid if host is not None else None
        process = self._process(prefix.identity, host or "", pid, place)
        for witness in prefix.witnesses:
            if len(process.witnesses) < builders.WARNINGS:
                process.witnesses.setdefault(witness)
        if prefix.stamp:
            process.first_stamp = process.first_stamp or prefix.stamp
            process.last_stamp = prefix.stamp
        return process.thread(prefix.tid, prefix.device)

    def _process(
        self, identity: tuple[str, ...], host: str, pid: int | None, place: Place
    ) -> ProcessBuilder:
        found = self._current.get((identity, host, pid))
        if found is None and not identity:
            # A message in the middle of a line has lost the launcher's words.
            same = self._hosts.get((host, pid), [])
            found = same[-1] if len({process.identity for process in same}) == 1 else None
        return found or self._add(ProcessBuilder(host, pid, identity, self.file, place))

    def _add(self, process: ProcessBuilder) -> ProcessBuilder:
        if len(self.processes) >= builders.PROCESSES:
            self.left_out("processes")
            return process
        self.processes.append(process)
        self._current[process.identity, process.host, process.pid] = process
        self._hosts.setdefault((process.host, process.pid), []).append(process)
        self._by_pid.setdefault(process.pid, set()).add(process.host)
        self._names.add(process.host)
        return process

    def take(
        self,
        thread: ThreadBuilder,
        message: Message,
        place: Place,
        whole: bool = True,
        repeated: int = 0,
        counted: bool = True,
    ) -> None:
        """Add what an INFO message says, if that is more than that it was said.

        `repeated` is the number of equal lines that Ray left out; with `counted` false the message
        was counted already.
        """
        before, thread.last = thread.last, place.line
        thread = self._maybe_another(thread, message, before, place)
        if counted:
            thread.count(key_of(message))
        process = thread.process
        variable = None
        if isinstance(message, messages.Variable):
            variable = self._variable(thread, message, place, whole, repeated)
        elif isinstance(message, messages.Init):
            self._init(thread, message, place)
        elif isinstance(message, messages.Shape):
            rank = process.by_pointer.get(message.pointer)
            if rank is not None:
                rank.shape = message
        elif isinstance(message, messages.Network):
            thread.network = message.name
        elif isinstance(message, messages.Config):
            self._config(thread, message, place)
        else:
            self._early(process, message)
        if isinstance(message, messages.Variable | messages.Once | messages.Version):
            process.prelude.append(Early(place.line, before, message, variable))

    def _early(self, process: ProcessBuilder, message: Message) -> None:
        if isinstance(message, messages.Version):
            process.versions[message.version] = process.versions.get(message.version, 0) + 1
            process.family = message.family
        elif isinstance(message, messages.Once):
            process.once[message.key] = message.text
            if message.key == "git":
                process.git_version = message.text.removeprefix("NCCL git version ")
            if message.key == "env plugin" and len(process.env_plugin) < builders.WARNINGS:
                process.env_plugin.setdefault(message.text, 1)

    def _maybe_another(
        self, thread: ThreadBuilder, message: Message, before: int, place: Place
    ) -> ThreadBuilder:
        process = thread.process
        if isinstance(message, messages.Version) and message.version in process.versions:
            why = f"its banner, which a process writes once, appears again ({message.version})"
        elif (
            isinstance(message, messages.Once)
            and message.key in ("bootstrap", "driver")
            and message.key in process.once
            and not process.versions
        ):
            why = f'"{message.text}", which a process writes once, appears again'
        else:
            return thread
        if process.pid is None:
            return thread
        return self._another(thread, before, place, why)

    def _another(self, old: ThreadBuilder, before: int, place: Place, why: str) -> ThreadBuilder:
        process = old.process
        early: list[Early] = []
        while process.prelude and process.prelude[-1].line == before:
            early.insert(0, process.prelude.pop())
            before = early[0].before
        first = Place(self.file, early[0].line) if early else place
        for head in process.heads:
            self.heads.pop(head, None)
        new = ProcessBuilder(
            process.host,
            process.pid,
            process.identity,
            self.file,
            first,
            process.generation + 1,
            why,
            witnesses=dict(process.witnesses),
        )
        self._add(new)
        thread = new.thread(old.tid, min(old.devices, default=None))
        for each in early:
            self._undo(old, each)
            self.take(thread, each.message, Place(self.file, each.line))
        old.last = before
        thread.last = place.line
        return thread

    def _undo(self, thread: ThreadBuilder, early: Early) -> None:
        counted = key_of(early.message)
        thread.tally[counted] = thread.tally.get(counted, 0) - 1
        variables = thread.process.variables
        if early.variable is None:
            return
        known = variables[early.variable]
        known.times -= 1
        if not known.times:
            del variables[early.variable]

    def _variable(
        self,
        thread: ThreadBuilder,
        message: messages.Variable,
        place: Place,
        whole: bool,
        repeated: int,
    ) -> tuple[Any, ...] | None:
        process = thread.process
        whole = message.whole and (whole or message.meaning is not None)
        rank = thread.making
        key = (message.name, message.value, message.meaning, message.wording, rank, whole)
        known = process.variables.get(key)
        if known is None:
            if len(process.variables) >= builders.VARIABLES:
                self.left_out("variables")
                return None
            device = min(thread.devices, default=None)
            known = process.variables[key] = builders.VariableBuilder(
                message, place, place, thread.tid, device, rank, whole
            )
        known.times += 1
        known.last = place
        known.repeated += repeated
        return key

    def _config(self, thread: ThreadBuilder, message: messages.Config, place: Place) -> None:
        fields = thread.process.config
        key = (message.field, message.value)
        known = fields.get(key)
        if known is not None:
            fields[key] = dataclasses.replace(known, times=known.times + 1)
        elif len(fields) < builders.VARIABLES:
            fields[key] = ConfigField(message.field, message.value, place)

    def _init(self, thread: ThreadBuilder, message: messages.Init, place: Place) -> None:
        process = thread.process
        rank = process.by_pointer.get(message.pointer)
        if rank is None or _is_another(rank, message):
            rank = self._rank(thread, message)
            if rank is None:
                return
        if thread.network:
            rank.network, thread.network = thread.network, ""
        if message.phase == "Init START":
            rank.started = place
            thread.enter(rank)
        elif message.phase == "Init COMPLETE":
            rank.completed = place
            thread.enter(rank)
        elif message.phase.endswith("COMPLETE"):
            rank.ended = place
            rank.end = message.phase.split()[0]

    def begun(self, thread: ThreadBuilder, message: messages.Init, text: bytes) -> None:
        """Keep the text of an `Init START`: that of its `Init COMPLETE` follows from it."""
        rank = thread.process.by_pointer.get(message.pointer)
        if rank is not None:
            rank.text = text

    def _rank(self, thread: ThreadBuilder, message: messages.Init) -> RankBuilder | None:
        if self._ranks >= builders.RANKS:
            self.left_out("ranks")
            return None
        self._ranks += 1
        process = thread.process
        same = process.by_size.get(message.nranks, 0)
        process.by_size[message.nranks] = same + 1
        parent = process.by_pointer.get(message.parent) if message.parent else None
        rank = RankBuilder(message, process, thread.tid, message.comm_id, same, parent)
        process.ranks.append(rank)
        process.by_pointer[message.pointer] = rank
        return rank

    def warn(
        self, thread: ThreadBuilder, prefix: Prefix, level: str, text: str, place: Place
    ) -> None:
        """Add a warning; equal ones are counted."""
        thread.last = place.line
        thread.count(key_of_level(level))
        warnings = thread.process.warnings
        key = (text, prefix.where)
        known = warnings.get(key)
        if known is not None:
            warnings[key] = dataclasses.replace(known, times=known.times + 1)
        elif len(warnings) >= builders.WARNINGS:
            self.left_out("warnings")
        else:
            where = prefix.where, prefix.function, prefix.stamp
            warnings[key] = WarnLine(text, place, thread.tid, *where, level=level)

    def matrix(self, thread: ThreadBuilder, matrix: Matrix) -> None:
        """Add a matrix to the communicator that the thread is making, else to its process."""
        rank = thread.making
        kept = thread.process.matrices if rank is None else rank.matrices
        if len(kept) < builders.WARNINGS:
            kept.append(matrix)
        else:
            self.left_out("matrices")


def _is_another(rank: RankBuilder, message: messages.Init) -> bool:
    """Tell whether a line is about another communicator at the same address."""
    if rank.ended is not None:
        return True
    old = rank.init
    differs = (old.rank, old.comm_id, old.split) != (message.rank, message.comm_id, message.split)
    if message.phase == "Init START":
        return rank.started is not None or differs
    return message.phase == "Init COMPLETE" and rank.completed is not None and differs
