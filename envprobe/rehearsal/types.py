"""What is found in a rehearsal: plain and frozen, with no verdicts. Times are seconds."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping
from typing import Final

from envprobe.launch.sandbox import Property
from envprobe.model import Snapshot
from envprobe.startup.declared import Start
from envprobe.startup.reach import Told
from envprobe.startup.result import Attribute, Child, Effects
from envprobe.values import Value

FIRST: Final = "the first process"
"""What the process is called that the definition itself starts."""


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """One process to start below the first: what it stands for, and its title ("" for none)."""

    id: int
    role: str
    title: str = ""
    worker: bool = False
    ranks: Mapping[str, int] = dataclasses.field(default_factory=dict)
    children: tuple[Node, ...] = ()

    @property
    def name(self) -> str:
        """The process in words, such as `scheduler TP1`."""
        ranks = " ".join(f"{kind.upper()}{rank}" for kind, rank in self.ranks.items())
        return f"{self.role} {ranks}".strip()

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """Something that was chosen, and what it was told from."""

    value: str
    told_by: str


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What is rehearsed: framework ("none" for no known one), start method, workers and tree.

    `shell` is the file of a shell script that stands in for the interpreter, "" for none. `limits`
    are sentences without their end on what of the framework is not rehearsed.
    """

    framework: Choice
    method: Choice
    workers: Choice
    nodes: tuple[Node, ...]
    shell: str = ""
    limits: tuple[str, ...] = ()

    def walk(self) -> Iterator[Node]:
        """Yield every process below the first."""
        for node in self.nodes:
            yield from node.walk()

    @property
    def count(self) -> int:
        """How many workers are started."""
        return sum(node.worker for node in self.walk())


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """A variable that the framework sets itself, None: removes; `source` is where it does so."""

    name: str
    value: Value | None
    before: Value | None
    condition: str
    source: str
    in_workers: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """Whether the module of a patched attribute can be imported in one process.

    `origin` is its file; `missing` the first part of its name that is not found, "" if all are;
    `imported`: it was there without a rehearsal's doing. `error`: the search raised this.
    """

    origin: str = ""
    missing: str = ""
    error: str = ""
    imported: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """What a patched attribute holds after a real import of its module.

    `own` is the file of that module, `runs_in` the `__name__` of the namespace of its code, and
    `recorded` what a hook of `envprobe init-hook` says of it.
    """

    attribute: Attribute
    own: str = ""
    runs_in: str = ""
    recorded: str = ""
    seconds: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """One process, as it told from inside. `node` is None for the first one.

    `hooks` says what became of each hook that ran in the first process. `environment` is os.environ
    when it was ready (for the first process: as its children got it). `said` is what it wrote to
    stderr until then, `seconds` how long its start took. `cuda_after`: CUDA was initialised after
    the import of the targets.
    """

    node: Node | None
    pid: int
    parent: int
    told: Told
    flags: Mapping[str, int]
    environment: Mapping[str, Value]
    hooks: tuple[Child, ...] = ()
    targets: Mapping[str, Target] = dataclasses.field(default_factory=dict)
    held: Mapping[str, Held] = dataclasses.field(default_factory=dict)
    recorded: Mapping[str, str] = dataclasses.field(default_factory=dict)
    titled: bool = False
    cuda_after: bool | None = False
    said: str = ""
    seconds: float = 0.0

    @property
    def effects(self) -> Effects:
        """What the hooks have made of this process."""
        return self.told.facts

    @property
    def worker(self) -> bool:
        """Whether it stands for a process that holds ranks."""
        return self.node is not None and self.node.worker

    @property
    def name(self) -> str:
        """The process in words, such as `scheduler TP1`."""
        return FIRST if self.node is None else self.node.name


_OWN_LINES: Final = ('File "<envprobe>", line ', '/rehearse_tree.py", line ')
"""What a traceback says that leads through rehearse_tree.py, or a payload compiled by it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Failed:
    """A process that did not come up: why ("ended", "silent"), its exit code, what it said."""

    name: str
    why: str
    code: int | None = None
    said: str = ""
    worker: bool = False

    @property
    def of_rehearsal(self) -> bool:
        """Whether it failed in the rehearsal's own program, which no server has."""
        return any(line in self.said for line in _OWN_LINES)


class Stopped(str, enum.Enum):
    """Which bound ended a rehearsal; NO: none did."""

    NO = ""
    TIME = "time"
    PROCESSES = "processes"
    MEMORY = "memory"


@dataclasses.dataclass(frozen=True, slots=True)
class End:
    """How the first process ended: its code, which bound did it, and what else was running.

    `seen` are command lines of processes that are none of the rehearsal's own; `said` is what was
    written to stderr; `seconds` from start to end.
    """

    code: int
    stopped: Stopped
    seconds: float
    seen: tuple[str, ...] = ()
    said: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Rehearsal:
    """All facts of one rehearsal.

    `members` are the processes that told of themselves, the first one first, `helpers` what
    multiprocessing's own helpers wrote to stderr, by name. `snapshot` is what was read of the same
    processes from outside, None with the reason in `unread`, or in `end` if that stopped it.
    `hidden` are variables that hide the GPUs from it. `sandbox` are properties that were not
    reproduced, and `unconfined` says why.
    """

    start: Start
    plan: Plan
    end: End
    members: tuple[Member, ...] = ()
    failed: tuple[Failed, ...] = ()
    helpers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    written: tuple[Written, ...] = ()
    version: str = ""
    own_forkserver: bool = False
    snapshot: Snapshot | None = None
    unread: str = ""
    hidden: tuple[str, ...] = ()
    sandbox: tuple[Property, ...] = ()
    unconfined: str = ""
    imported: bool = False

    @property
    def first(self) -> Member | None:
        """The first process, None if it never told anything."""
        return next((one for one in self.members if one.node is None), None)

    @property
    def workers(self) -> tuple[Member, ...]:
        """The workers that told of themselves."""
        return tuple(one for one in self.members if one.worker)

    @property
    def whole(self) -> bool:
        """Whether every process came up."""
        return len(self.members) == 1 + sum(1 for _ in self.plan.walk())
