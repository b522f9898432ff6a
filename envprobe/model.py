"""The facts that envprobe passes from layer to layer: plain, frozen, serialisable.

Nothing here judges, prints or reads. Times are Unix seconds, sizes bytes, addresses plain integers.
Names of variables are `str` made with `os.fsdecode`: bytes that are no UTF-8 survive as surrogates.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Final

from envprobe.ncclfacts import Libraries, NcclLog
from envprobe.pythonfacts import Inside
from envprobe.unitfacts import UnitFacts
from envprobe.values import Value

SCHEMA_VERSION: Final = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    """A value inside a sentence, with the name that decides whether it is masked."""

    name: str
    value: Value


@dataclasses.dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence whose values are still values: only a renderer turns it into text."""

    parts: tuple[str | Shown, ...]

    @classmethod
    def of(cls, *parts: str | Shown) -> Sentence:
        """Make a sentence of its parts, in order."""
        return cls(parts)


SILENCE: Final = Sentence(())


class Confidence(str, enum.Enum):
    """How sure a fact or a verdict is."""

    PROVED = "proved"
    INFERRED = "inferred"


class State(str, enum.Enum):
    """What became of looking for one variable in one view: exactly one of these."""

    VALUE = "value"
    ABSENT = "absent"
    UNREADABLE = "unreadable"
    CHANGING = "changing"
    NOT_APPLICABLE = "not_applicable"
    NOT_ASKED = "not_asked"


class View(str, enum.Enum):
    """An environment seen at one place."""

    DECLARED = "declared"
    EXEC = "exec"
    LIBC = "libc"
    PYTHON = "python"
    NCCL = "nccl"


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """One variable in one view of one process.

    `value` is set only in state VALUE; `reason` and `remedy` explain UNREADABLE, CHANGING and
    NOT_APPLICABLE. `source` names what was read; `at` is the time for which the reading speaks.
    """

    state: State
    value: Value | None = None
    source: str = ""
    at: float | None = None
    confidence: Confidence = Confidence.PROVED
    reason: str = ""
    remedy: str = ""

    @property
    def known(self) -> bool:
        """Whether the variable was really looked for: a value, or absent."""
        return self.state in (State.VALUE, State.ABSENT)


class BlockState(str, enum.Enum):
    """What a process has done to the kernel's block behind /proc/PID/environ."""

    INTACT = "intact"
    WIPED = "wiped"
    PARTLY_WIPED = "partly_wiped"
    SPILLED = "spilled"
    UNREADABLE = "unreadable"


class EnvironmentStatus(str, enum.Enum):
    """How far one view of one process could be read.

    COMPLETE: a name not in `entries` is absent. PARTIAL: entries are valid at the view's time (or,
    for a partly wiped block, were at exec), a missing name is unreadable. The rest: no entries.
    """

    COMPLETE = "complete"
    PARTIAL = "partial"
    UNREADABLE = "unreadable"
    CHANGING = "changing"
    NOT_APPLICABLE = "not_applicable"
    NOT_ASKED = "not_asked"


@dataclasses.dataclass(frozen=True, slots=True)
class Environment:
    """One view of one process's environment.

    `entries` maps each name to its first value, or to None when the name is there but its value was
    not asked for. `duplicates` holds the later values of names that occur more than once;
    `oddities` the entries without `=` (or with an empty name), cut at 4 KiB. Where another
    process's block stands in for the view, `own` is what the process's own one still shows:
    `reading` prefers its entries.
    """

    view: View
    status: EnvironmentStatus
    entries: dict[str, Value | None] = dataclasses.field(default_factory=dict)
    duplicates: dict[str, tuple[Value | None, ...]] = dataclasses.field(default_factory=dict)
    oddities: tuple[Value, ...] = ()
    block: BlockState | None = None
    source: str = ""
    at: float | None = None
    confidence: Confidence = Confidence.PROVED
    reason: str = ""
    remedy: str = ""
    own: Environment | None = None

    def reading(self, name: str) -> Reading:
        """Return what this view says of `name`; a missing name is ABSENT only if COMPLETE."""
        if self.own is not None and name in self.own.entries:
            return self.own.reading(name)
        if name in self.entries:
            value = self.entries[name]
            state = State.NOT_ASKED if value is None else State.VALUE
            return Reading(state, value, self.source, self.at, self.confidence)
        state = _STATE_OF_MISSING[self.status]
        if state is State.ABSENT:
            return Reading(state, None, self.source, self.at, self.confidence)
        return Reading(state, None, self.source, self.at, self.confidence, self.reason, self.remedy)


_STATE_OF_MISSING: Final = {
    EnvironmentStatus.COMPLETE: State.ABSENT,
    EnvironmentStatus.PARTIAL: State.UNREADABLE,
    EnvironmentStatus.UNREADABLE: State.UNREADABLE,
    EnvironmentStatus.CHANGING: State.CHANGING,
    EnvironmentStatus.NOT_APPLICABLE: State.NOT_APPLICABLE,
    EnvironmentStatus.NOT_ASKED: State.NOT_ASKED,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """What names one process image: it changes when the number is reused and when it execs.

    `start_ticks` is field 22 of /proc/PID/stat (clock ticks since boot); `random` the hex of the
    16 bytes at AT_RANDOM (getauxval(3)), "" when it could not be read; in a snapshot a digest of
    them, as the stack protector's secret is made of these bytes. A fork child shares its parent's
    `random`; after an exec it is new.
    """

    pid: int
    start_ticks: int
    boot_id: str = ""
    pid_namespace: int | None = None
    random: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Role:
    """What a process is, from the table of roles.

    `name` is a row's name ("scheduler", "worker", "detokenizer", ...); `ranks` what its title says,
    such as {"dp": 0, "tp": 1}. `worker` is true for processes that hold ranks. `final` is false for
    a spawn child that has no title yet: it may still become something else.
    """

    name: str
    framework: str = ""
    ranks: dict[str, int] = dataclasses.field(default_factory=dict)
    worker: bool = False
    final: bool = True
    evidence: str = ""

    @property
    def label(self) -> str:
        """The role with its ranks, such as `scheduler DP0 TP1`."""
        ranks = " ".join(f"{kind.upper()}{rank}" for kind, rank in self.ranks.items())
        return f"{self.name} {ranks}".strip()


class EdgeKind(str, enum.Enum):
    """How a process came from the one before it."""

    ROOT = "root"
    EXEC = "exec"
    SPAWN = "spawn"
    FORK = "fork"
    FORKSERVER = "forkserver"
    UNKNOWN = "unknown"


class Carries(str, enum.Enum):
    """What an edge hands over to the child.

    The parent's C environ at that time, a block that the parent built by its own rules, the
    parent's memory, or what is not known.
    """

    C_ENVIRON = "c_environ"
    BUILT_BLOCK = "built_block"
    MEMORY = "memory"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class Edge:
    """The step from `parent` to a process, with its evidence, one sentence each.

    `parent` is the pid of the process before it on the route (for FORKSERVER: the server); None for
    the root of the scan. `launcher` is the name of the parent's row in the table of launchers.
    """

    kind: EdgeKind
    parent: int | None
    carries: Carries = Carries.UNKNOWN
    evidence: tuple[str, ...] = ()
    launcher: str = ""
    confidence: Confidence = Confidence.PROVED


@dataclasses.dataclass(frozen=True, slots=True)
class Interpreter:
    """The language runtime found in a process's memory; `version` is "" when it is not known."""

    kind: str
    version: str = ""
    source: str = ""


class Death(str, enum.Enum):
    """When a process died that its parent has not collected (a zombie): before the scan, or in it.

    Not for one whose main thread alone has ended: that one lives.
    """

    BEFORE = "before"
    DURING = "during"


@dataclasses.dataclass(frozen=True, slots=True)
class Process:
    """One process of the scan, with everything read of it.

    `state` is the letter of /proc/PID/stat; `title` the whole of /proc/PID/cmdline, NULs kept as
    separators; `inner_pid` its number in its own pid namespace (NSpid). `secure` is AT_SECURE
    (None: not read). `image_owner` is the pid of the nearest ancestor or self that was exec'd into
    this image: another pid for fork children, 0 if that process is gone. `run_id` is SGLANG_RUN_ID,
    if any. `matched` is true when it was added by a pattern and hangs outside the root's tree;
    `children` counts nothing outside the scan. `ended` is true if it was gone, or another image,
    when its reads finished. `death` is set for the dead: their role is never a worker's, and
    `was_worker` says whether they held ranks (None: what is left does not tell). `inside` is what
    was read of its Python interpreter, None if that was not asked for. `libraries` are its shared
    objects that count, `nccl` is its part of NCCL's log; None: not looked for.
    """

    pid: int
    identity: Identity
    ppid: int
    state: str
    start_time: float
    uid: int
    comm: str
    title: tuple[str, ...]
    exe: str | None
    role: Role
    edge: Edge
    image_owner: int
    inner_pid: int | None = None
    exe_deleted: bool = False
    cwd: str | None = None
    secure: bool | None = None
    interpreter: Interpreter | None = None
    run_id: str = ""
    cgroup: str = ""
    same_user_namespace: bool | None = None
    same_mount_namespace: bool | None = None
    matched: bool = False
    orphan: bool = False
    ended: bool = False
    death: Death | None = None
    was_worker: bool | None = False
    environments: dict[View, Environment] = dataclasses.field(default_factory=dict)
    inside: Inside | None = None
    libraries: Libraries | None = None
    nccl: NcclLog | None = None
    notes: tuple[str, ...] = ()

    @property
    def named(self) -> str:
        """The process in words, such as `scheduler TP0 (PID 8001)`; without a role by its name."""
        return f"{self.role.label or self.comm} (PID {self.pid})"

    def environment(self, view: View) -> Environment:
        """Return the process's environment in `view`; NOT_ASKED if it was not read."""
        found = self.environments.get(view)
        return found or Environment(view, EnvironmentStatus.NOT_ASKED)


@dataclasses.dataclass(frozen=True, slots=True)
class Vanished:
    """A process that was listed but gone before it could be read."""

    pid: int
    role: Role
    title: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """All facts of one scan of one host, with no verdicts.

    `roots` are the pids that the user named (or the members' tops of a cgroup); `wanted` the
    patterns (fnmatch) of names whose values were read. `stable` is false if the set of pids still
    changed after `scans` scans. `reader_uid` and `yama_scope` (None: no Yama) say what the reader
    was allowed to do. `unit` is the unit whose main process is a root, if its manager could be
    asked: that process then has a DECLARED view.
    """

    host: str
    boot_id: str
    started: float
    ended: float
    roots: tuple[int, ...]
    processes: tuple[Process, ...]
    wanted: tuple[str, ...] = ()
    vanished: tuple[Vanished, ...] = ()
    stable: bool = True
    scans: int = 1
    yama_scope: int | None = None
    reader_uid: int = 0
    notes: tuple[str, ...] = ()
    unit: UnitFacts | None = None
    tool_version: str = ""
    schema_version: int = SCHEMA_VERSION

    def process(self, pid: int) -> Process | None:
        """Return the process with this number, or None."""
        for process in self.processes:
            if process.pid == pid:
                return process
        return None
