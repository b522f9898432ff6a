"""What the routing layer makes of a snapshot: routes, breaks, causes, peer groups."""

from __future__ import annotations

import dataclasses
import enum

from envprobe.model import SILENCE, Confidence, Edge, Reading, Role, Sentence, Snapshot, View


@dataclasses.dataclass(frozen=True, slots=True)
class Stop:
    """One reading on a route: which process, which view, what it says."""

    pid: int
    view: View
    reading: Reading


class CauseId(str, enum.Enum):
    """Every way in which a variable can be lost or altered between two stops."""

    NEVER_SET = "never-set"
    SET_LATE_IN_PARENT = "set-late-in-parent"
    DROPPED_AROUND_SPAWN = "dropped-around-spawn"
    CHANGED_IN_PARENT = "changed-in-parent"
    CHANGED_IN_WORKER = "changed-in-worker"
    REWRITTEN_BY_PROGRAM = "rewritten-by-program"
    BUILT_BY_LAUNCHER = "built-by-launcher"
    FROZEN_IN_FORKSERVER = "frozen-in-forkserver"
    FORK_CHILD = "fork-child"
    AT_SECURE = "at-secure"
    SET_AFTER_START = "set-after-start"
    C_LEVEL_SETENV = "c-level-setenv"
    OS_PUTENV = "os-putenv"
    NCCL_CONF_FILE = "nccl-conf-file"
    OS_ENVIRON_EDITED = "os-environ-edited"
    DEFINITION_CHANGED = "definition-changed"
    ENVIRONMENT_FILE = "environment-file"
    EXEC_START_WRAPPER = "exec-start-wrapper"
    MANAGER_CHANGED = "manager-environment-changed"
    PAM = "pam"
    SET_BY_MANAGER = "set-by-manager"
    EXEC_AGAIN = "exec-again"


class NcclCauseId(str, enum.Enum):
    """Every way in which NCCL comes to another value than the C environ holds now."""

    CHANGED_AFTER_READ = "changed-after-nccl-read"
    CONF_FILE = "conf-file-then-changed"
    NET_PLUGIN = "nccl-net-plugin"
    ENV_PLUGIN = "nccl-env-plugin"
    SECOND_COPY = "second-nccl"


@dataclasses.dataclass(frozen=True, slots=True)
class Cause:
    """One cause with the evidence for and against it; `sentence` says it in words."""

    id: CauseId | NcclCauseId
    sentence: Sentence
    evidence_for: tuple[Sentence, ...] = ()
    evidence_against: tuple[Sentence, ...] = ()
    remedy: Sentence = SILENCE


class Change(str, enum.Enum):
    """What happens to a variable across a break."""

    NEVER_THERE = "never_there"
    LOST = "lost"
    CHANGED = "changed"
    APPEARED = "appeared"


@dataclasses.dataclass(frozen=True, slots=True)
class Break:
    """The span of a route between the last reading with the old state and the first with the new.

    `before` and `after` index `Route.stops`; the stops between them are unreadable or not asked.
    `causes` are all that fit, the likeliest first; `excluded` those that evidence rules out.
    One cause left is PROVED, several INFERRED. `writer` names the known framework code that
    explains the change, if any (a sentence with its source), which makes it no surprise.
    """

    before: int
    after: int
    change: Change
    causes: tuple[Cause, ...]
    excluded: tuple[Cause, ...] = ()
    confidence: Confidence = Confidence.INFERRED
    writer: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class NcclHop:
    """The hop from a process's C environ to what its NCCL has read, for one communicator.

    `communicator` is NCCL's commId and `rank` the process's number in it; "" and None where the
    variable counts for the whole process. `reading` is in view NCCL and never ABSENT: what a log
    does not show is UNREADABLE, with the reasons. `printed_as` names the variable of NCCL's line if
    it is another one. `change` is None unless NCCL read something else than the C environ says now,
    which is later; then `causes` are all that fit. `origin` says where the value is from if not
    from the environment at the start. `writer` is as in a `Break`.
    """

    communicator: str
    rank: int | None
    reading: Reading
    printed_as: str = ""
    change: Change | None = None
    causes: tuple[Cause, ...] = ()
    excluded: tuple[Cause, ...] = ()
    confidence: Confidence = Confidence.INFERRED
    origin: tuple[Sentence, ...] = ()
    writer: str = ""


class InTime(str, enum.Enum):
    """Whether the worker's live value was there when the variable is read."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not_applicable"


class ReadTime(str, enum.Enum):
    """When a variable is read; after that, setting it has no effect."""

    EXEC = "exec"
    LIBRARY_LOAD = "library_load"
    FIRST_USE = "first_use"
    EACH_COMMUNICATOR = "each_communicator"
    EACH_USE = "each_use"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """One variable's readings on the way from the root to one process.

    The stops run exec(root), libc(root), ... exec(process), libc(process), and python(process)
    where that view was read; in front of a unit's main process stands its declaration. `edges[i]`
    is the edge into the process of the i-th pid on the way. `breaks` are in the order of the stops.
    `nccl` are the hops from there into NCCL, if its log was joined to the process.
    """

    name: str
    pid: int
    stops: tuple[Stop, ...]
    edges: tuple[Edge, ...]
    breaks: tuple[Break, ...] = ()
    in_time: InTime = InTime.NOT_APPLICABLE
    read_time: ReadTime = ReadTime.UNKNOWN
    nccl: tuple[NcclHop, ...] = ()

    @property
    def arriving(self) -> tuple[Break, ...]:
        """The breaks on the way to the C environ, which is what libraries read."""
        return self.breaks[:-1] if self.mirrored else self.breaks

    @property
    def mirrored(self) -> Break | None:
        """The break in front of the process's `os.environ`, if any."""
        last = self.breaks[-1] if self.breaks else None
        return last if last and self.stops[last.after].view is View.PYTHON else None

    def final(self, view: View = View.LIBC) -> Reading:
        """Return the reading of the route's own process in `view`."""
        for stop in reversed(self.stops):
            if stop.pid == self.pid and stop.view is view:
                return stop.reading
        raise KeyError(view)


@dataclasses.dataclass(frozen=True, slots=True)
class Launch:
    """One started server: its launcher's pid, its SGLANG_RUN_ID if any, its workers."""

    launcher: int
    run_id: str
    workers: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class PeerGroup:
    """Workers whose values must agree: same launch, role and data-parallel or replica index."""

    launcher: int
    role: str
    replica: str
    workers: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Routing:
    """All routes of a snapshot: of every relevant variable, to every worker and named helper.

    `names` are the relevant variables that occur anywhere or were expected, sorted.
    """

    snapshot: Snapshot
    launches: tuple[Launch, ...]
    groups: tuple[PeerGroup, ...]
    names: tuple[str, ...]
    routes: dict[tuple[int, str], Route]

    def workers(self) -> tuple[int, ...]:
        """Return the pids of all counted workers, in launch order."""
        return tuple(pid for launch in self.launches for pid in launch.workers)

    def role(self, pid: int) -> Role:
        """Return the role of a process of the snapshot; KeyError if it is not there."""
        process = self.snapshot.process(pid)
        if process is None:
            raise KeyError(pid)
        return process.role
