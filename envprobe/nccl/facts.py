"""The facts that a log of NCCL holds: plain and frozen. Nothing here judges, prints or reads.

Terms: a *process* is one image of a program with its copy of NCCL; a *communicator* joins ranks; a
*rank* is one membership of a process in a communicator, so that a process has as many as it made
communicators (times the GPUs that it drives). Line numbers start at 1 and count the lines of the
decompressed file. Texts from the log are `str` made with `os.fsdecode`; values are `Value`s.
"""

from __future__ import annotations

import dataclasses
import enum

from envprobe.nccl.outcomefacts import Outcome
from envprobe.nccl.place import Place
from envprobe.values import Value


@dataclasses.dataclass(frozen=True, slots=True)
class Witness:
    """What a launcher wrote in front of a process's lines, such as `[1,0]<stdout>:`.

    `launcher` is a row of data/nccl-prefixes.json; `fields` what the row's pattern names, such as
    (("job", "1"), ("rank", "0")). A launcher's number is never NCCL's rank.
    """

    launcher: str
    fields: tuple[tuple[str, str], ...] = ()


class Wording(str, enum.Enum):
    """How a line says that a variable was read (facts of NCCL 2.14 to 2.32).

    INTEGER: `NAME set by environment to N.`; N is the integer that NCCL made of the text
    (misc/param.cc ncclLoadParam, strtoll with base 0). TEXT: `NAME set by environment to TEXT`,
    `NAME set to TEXT`, `Plugin name set by env to TEXT`; for the levels NCCL_P2P_LEVEL,
    NCCL_P2P_DISABLE and NCCL_NET_GDR_LEVEL TEXT is NCCL's name of the level, not the given text.
    REFUSED: read and not used. OVERRIDE: `Comm config FIELD reset to NAME=V`: it replaced what the
    application had asked for. PARSED: `Parsed environment variable NAME=TEXT to N`. WRITTEN: a
    plugin of NCCL wrote it (`NET/OFI Adding NAME=V to environment`). UNCACHED: `Disabling caching
    for environment variable NAME.`, which shows no value.
    """

    INTEGER = "integer"
    TEXT = "text"
    REFUSED = "refused"
    OVERRIDE = "override"
    PARSED = "parsed"
    WRITTEN = "written"
    UNCACHED = "uncached"


@dataclasses.dataclass(frozen=True, slots=True)
class VariableRead:
    """One variable that one process read, with one value, in one communicator or in none.

    `value` is the text in the line without its final full stop. `meaning` is what NCCL made of it:
    the integer for INTEGER and PARSED, the value used instead for REFUSED; None where the line does
    not say it. `source` is what the line names: "environment" (which for NCCL includes its
    configuration files and plugins), "env", or the plugin, as "NET/OFI". `rank` is the index in
    `Process.ranks` of the communicator that the same thread was making, None outside of that.
    Equal lines are one object: `times` counts them, `place` is the first, `last` the last. `whole`
    is false where the line was cut, so that the value may be longer. `repeated` is the number of
    equal lines of other processes that Ray left out. `tid` and `device` are of the first line.
    """

    name: str
    value: Value
    meaning: int | str | None
    wording: Wording
    source: str
    place: Place
    last: Place
    times: int = 1
    tid: int | None = None
    device: int | None = None
    rank: int | None = None
    whole: bool = True
    repeated: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class ConfigField:
    """`Comm config FIELD set to V`: given by the application (ncclConfig_t), no variable."""

    field: str
    value: str
    place: Place
    times: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class WarnLine:
    """A WARN line: `where` is NCCL's file and line, `function` its function (2.30.7 and later).

    `level` is "WARN", or from 2.32 on also "ATTN" (such as `Invalid value abc for NAME, using
    default 0.`, which is a VariableRead too). `stamp` is its time stamp as written (2.26.2 and
    later), with the blanks around it removed.
    """

    text: str
    place: Place
    tid: int | None
    where: str = ""
    function: str = ""
    stamp: str = ""
    times: int = 1
    level: str = "WARN"


@dataclasses.dataclass(frozen=True, slots=True)
class Rank:
    """One rank: a process's membership in a communicator, from its Init lines.

    `process` and `communicator` are indices in `Log`. `pointer` is the address in `comm 0x...`,
    which is the process's own. `device` is the CUDA number (renumbered by CUDA_VISIBLE_DEVICES),
    `nvml_device` and `bus_id` name the GPU. `started`, `completed`, `ended` are the places of `Init
    START` (2.18.3 and later), `Init COMPLETE` and `Destroy` or `Abort COMPLETE`, None if not seen;
    `end` is that word. `repaired` says that `completed` was put together from a cut line.
    `outcome` holds the lines of threads that were making or using this communicator: proved where
    the process has one communicator only (`attributed` "proved"), else the latest one of the thread
    ("inferred").
    """

    process: int
    communicator: int
    rank: int
    nranks: int
    pointer: str
    function: str = ""
    device: int | None = None
    nvml_device: int | None = None
    bus_id: str = ""
    tid: int | None = None
    started: Place | None = None
    completed: Place | None = None
    ended: Place | None = None
    end: str = ""
    repaired: bool = False
    nodes: int | None = None
    local_ranks: int | None = None
    local_rank: int | None = None
    mnnvl: int | None = None
    outcome: Outcome = dataclasses.field(default_factory=Outcome)
    attributed: str = "proved"


@dataclasses.dataclass(frozen=True, slots=True)
class Communicator:
    """The ranks of one communicator that the log shows, in order of rank.

    `joined` says by what they were put together: "commId"; "split" (the parent communicator, the
    number of the split and its colour, for lines without a commId); "order" (neither was printed:
    the n-th communicator of this size of each process), which is inferred. `comm_id` is "" if it
    was not printed. `parent` is an index in `Log.communicators`.
    """

    comm_id: str
    nranks: int
    ranks: tuple[Rank, ...]
    joined: str = "commId"
    function: str = ""
    parent: int | None = None
    color: int | None = None

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks of which the log shows no line."""
        seen = {rank.rank for rank in self.ranks}
        return tuple(rank for rank in range(self.nranks) if rank not in seen)


@dataclasses.dataclass(frozen=True, slots=True)
class Thread:
    """A thread that logged: `devices` are the numbers in its prefixes, `lines` its messages."""

    tid: int
    devices: tuple[int, ...]
    lines: int


@dataclasses.dataclass(frozen=True, slots=True)
class Process:
    """A process that logged, told apart by more than its host and pid.

    `host` is NCCL's (cut at the first dot), "" with `pid` None for lines that had no prefix left.
    `generation` counts the processes with this host and pid (1: the first); `told_apart_by` says
    how a later one was recognised. `family` is "nccl" or "rccl". `versions` are those of its
    banners, as `2.28.9+cuda13.0`: two mean two copies of the library. `levels` and `subsystems` map
    what was seen to a number of lines; a subsystem is known for known lines only.
    `outcome` holds lines that belong to no rank. `first_stamp` and `last_stamp` are time stamps of
    NCCL or of the launcher as written, "" if its lines have none. `env_plugin` holds the texts of
    its ENV/Plugin lines. `messages` counts NCCL's messages.
    """

    index: int
    host: str
    pid: int | None
    messages: int
    first: Place
    last: Place
    generation: int = 1
    told_apart_by: str = ""
    family: str = "nccl"
    versions: tuple[str, ...] = ()
    git_version: str = ""
    threads: tuple[Thread, ...] = ()
    ranks: tuple[Rank, ...] = ()
    variables: tuple[VariableRead, ...] = ()
    config: tuple[ConfigField, ...] = ()
    warnings: tuple[WarnLine, ...] = ()
    env_plugin: tuple[str, ...] = ()
    outcome: Outcome = dataclasses.field(default_factory=Outcome)
    witnesses: tuple[Witness, ...] = ()
    levels: dict[str, int] = dataclasses.field(default_factory=dict)
    subsystems: dict[str, int] = dataclasses.field(default_factory=dict)
    first_stamp: str = ""
    last_stamp: str = ""

    @property
    def devices(self) -> tuple[int, ...]:
        """The device numbers in its prefixes, in order."""
        return tuple(sorted({device for thread in self.threads for device in thread.devices}))


class DamageKind(str, enum.Enum):
    """What happened to lines on their way to the file.

    GLUED: several messages in one line (they were split). CUT: a message lost its end. LONG: cut at
    NCCL's own buffer of 1024 bytes. TAIL: the end of a message without its beginning. REPAIRED: a
    cut message and its tail were joined. NO_PREFIX: a message without host, pid and tid.
    DEDUPLICATED: Ray left out equal lines of other processes. INCOMPLETE: the file ends inside a
    message.
    """

    GLUED = "glued"
    CUT = "cut"
    LONG = "long"
    TAIL = "tail"
    REPAIRED = "repaired"
    NO_PREFIX = "no_prefix"
    DEDUPLICATED = "deduplicated"
    INCOMPLETE = "incomplete"


@dataclasses.dataclass(frozen=True, slots=True)
class Damage:
    """One damaged line: `process` is an index in `Log`, None where it is not known."""

    kind: DamageKind
    place: Place
    text: str = ""
    process: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class LogFile:
    """One file that was read: its length in bytes as stored, its lines, and its wrapping.

    `compression` is "gzip", "zstd", "xz", "bzip2" or ""; `envelope` "docker json-file", "JSON",
    "CRI" or "". `broken` says why the file could not be read to its end, "" if it could.
    """

    name: str
    size: int
    lines: int
    messages: int
    compression: str = ""
    envelope: str = ""
    broken: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Log:
    """Everything that the files say.

    `damage` holds the first lines of each kind, `damage_counts` all. `banners` are versions printed
    without a prefix, which belong to no process. `launchers` names the rows of
    data/nccl-prefixes.json whose words were found. `left_out` counts, by kind ("processes",
    "ranks", "variables", "warnings", ...), what was seen but not kept, as there was too much.
    """

    files: tuple[LogFile, ...]
    processes: tuple[Process, ...]
    communicators: tuple[Communicator, ...]
    messages: int = 0
    banners: dict[str, int] = dataclasses.field(default_factory=dict)
    damage: tuple[Damage, ...] = ()
    damage_counts: dict[DamageKind, int] = dataclasses.field(default_factory=dict)
    launchers: tuple[str, ...] = ()
    left_out: dict[str, int] = dataclasses.field(default_factory=dict)
