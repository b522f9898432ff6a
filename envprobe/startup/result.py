"""What became of the hooks of one start, and of their effects: plain and frozen, no verdicts.

Times of hooks are microseconds, those of starts milliseconds.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from envprobe.startup.types import Kind, Launch, Raised, Walk
from envprobe.values import Value


class Outcome(str, enum.Enum):
    """What became of one hook."""

    RAN = "ran"
    RAISED = "raised"
    SILENT = "silent"
    NAMESPACE = "namespace"
    ENDED = "ended"
    STOPPED = "stopped"
    DISABLED = "disabled"
    SUPPRESSED = "suppressed"
    ABSENT = "absent"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class Hook:
    """One hook in the order in which they run.

    `name` is the module, or the path of a startup file; `path` the file that runs; `line` and
    `text` the line of a startup file. `reason` explains DISABLED, SUPPRESSED, SILENT, UNKNOWN,
    ENDED and STOPPED. `confirmed`: after start-up the interpreter had the module in sys.modules.
    `files` are those of the modules that a startup file's line imports and that were loaded then,
    as named and without links. `chained_raised` is what chained hooks raised, by path.
    """

    name: str
    outcome: Outcome
    path: str = ""
    kind: Kind | None = None
    code: str = ""
    line: int = 0
    text: str = ""
    self_us: int | None = None
    cumulative_us: int | None = None
    raised: Raised | None = None
    reason: str = ""
    confirmed: bool = False
    owner: str = ""
    agent: str = ""
    chained: tuple[str, ...] = ()
    chained_raised: Mapping[str, Raised] = dataclasses.field(default_factory=dict)
    files: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A variable before and after the hooks ran; None: absent."""

    name: str
    before: Value | None
    after: Value | None


@dataclasses.dataclass(frozen=True, slots=True)
class Replaced:
    """An attribute of a foreign module that holds code of a hook."""

    where: str
    file: str
    line: int


@dataclasses.dataclass(frozen=True, slots=True)
class Attribute:
    """What an attribute holds, or why it could not be looked at (`error`)."""

    type: str = ""
    module: str = ""
    qualname: str = ""
    file: str = ""
    line: int = 0
    error: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Effects:
    """What the interpreter says of itself after its hooks ran; None: it could not tell.

    `loaded` maps each hook in sys.modules to its origin and `names` to what it defined. `streams`
    are the standard streams that were replaced; `path` is sys.path (None: no list any more).
    `modules` maps modules that startup files import to their file, as named and without links.
    `chained` and `recorded` are what hooks of `envprobe init-hook` say of each hook that they have
    run and of each patch that was asked for.
    """

    loaded: Mapping[str, str]
    names: Mapping[str, tuple[str, ...]]
    namespaces: tuple[str, ...]
    changes: tuple[Change, ...]
    replaced: tuple[Replaced, ...]
    streams: tuple[str, ...]
    path: tuple[str, ...] | None
    torch_imported: bool
    cuda_initialised: bool | None
    gpu_files: tuple[str, ...]
    threads: int | None
    children: tuple[str, ...] | None
    waited_for_children: bool
    python_path: str | None
    flags: Mapping[str, int]
    patches: Mapping[str, Attribute] = dataclasses.field(default_factory=dict)
    modules: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    chained: Mapping[str, str] = dataclasses.field(default_factory=dict)
    recorded: Mapping[str, str] = dataclasses.field(default_factory=dict)


class Reached(str, enum.Enum):
    """What became of a hook in a child.

    FAILED: it is loaded neither in the child nor in its parent.
    """

    RAN = "ran"
    INHERITED = "inherited"
    ANOTHER_RAN = "another_ran"
    NOT_RUN = "not_run"
    FAILED = "failed"
    UNKNOWN = "unknown"


class PatchState(str, enum.Enum):
    """Whether an attribute holds in a process what the hooks put there.

    UNTOUCHED: the hooks have not changed it in the first place.
    """

    PRESENT = "present"
    ABSENT = "absent"
    UNTOUCHED = "untouched"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class Child:
    """One real child: what runs there of the hook `module`, and why.

    `method` is spawn, fork, forkserver, subprocess, or subprocess-env (with another environment).
    `origin` is what the child has loaded as that module. `importable`: the child could import the
    parent's hook by its sys.path, which came with it, although site did not.
    """

    method: str
    module: str
    reached: Reached
    origin: str = ""
    reason: str = ""
    importable: bool = False
    patches: Mapping[str, PatchState] = dataclasses.field(default_factory=dict)
    error: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of a whole start with the hooks and without, each the median of `runs`."""

    with_hooks: float
    without: float
    runs: int

    @property
    def added(self) -> float:
        """What the hooks add to each start, never below 0."""
        return max(self.with_hooks - self.without, 0.0)


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """How one run of the interpreter ended: `stopped` is "" by itself, else "time" or "processes".

    `stopped_by` is the variable with which the interpreter does not start, "" if none is known;
    not `is_python`: it has said nothing of what Python says.
    """

    code: int
    stopped: str = ""
    seconds: float = 0.0
    answered: bool = True
    cut: bool = False
    said: str = ""
    started: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    printed: int = 0
    stopped_by: str = ""
    is_python: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Startup:
    """All facts about the start of one interpreter.

    None: that part was not asked for, or could not be found out; `run` and `problems` say why.
    `patches` says for each asked attribute whether the hooks have changed it.
    """

    launch: Launch
    run: Run
    hooks: tuple[Hook, ...]
    walk: Walk | None = None
    effects: Effects | None = None
    children: tuple[Child, ...] = ()
    patches: Mapping[str, PatchState] = dataclasses.field(default_factory=dict)
    cost: Cost | None = None
    problems: tuple[str, ...] = ()

    def hook(self, module: str) -> Hook:
        """Return what became of sitecustomize or usercustomize."""
        return next(one for one in self.hooks if one.name == module)
