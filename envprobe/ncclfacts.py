"""What a scan finds of NCCL in one process: its libraries and its part of a log; plain facts.

Paths and names are text as the process or the log holds it. A variable that a log does not show is
in no list here: that proves nothing of it.
"""

from __future__ import annotations

import dataclasses
import enum

from envprobe.values import Value


@dataclasses.dataclass(frozen=True, slots=True)
class Library:
    """One copy of libnccl in a process.

    `path` is where the kernel says that its file is; `device` (major, minor) and `inode` tell files
    apart; `base` is the address of its image. `deleted` says that the file has no name any more,
    `replaced` that another file has it (None: not known). `version` is the library's own text, such
    as `2.28.9+cuda13.0`, "" if it was not found, with the `reason`.
    """

    path: str
    device: tuple[int, int]
    inode: int
    base: int
    deleted: bool = False
    replaced: bool | None = None
    version: str = ""
    reason: str = ""

    @property
    def identity(self) -> tuple[tuple[int, int], int]:
        """What tells its file from others on this host while anybody maps it."""
        return self.device, self.inode

    @property
    def words(self) -> str:
        """The library in words: its version, if that is known, and its path."""
        return f"{self.version or 'of unknown version'} ({self.path})"


@dataclasses.dataclass(frozen=True, slots=True)
class Libraries:
    """The shared objects of a process that count, by the loader's own list.

    `nccl` are the copies of libnccl, `plugins` the paths of NCCL's plugins (`libnccl-net.so`, ...),
    `named` maps each pattern that was asked for to the paths that match it. `whole` is false where
    the list could not be read to its end, for the `reason`: then what is not in it may be there.
    """

    nccl: tuple[Library, ...] = ()
    plugins: tuple[str, ...] = ()
    named: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    whole: bool = True
    reason: str = ""
    remedy: str = ""


class LogState(str, enum.Enum):
    """What became of looking for a process in NCCL's logs: exactly one of these.

    JOINED: one process of a log is this one. AMBIGUOUS: several may be. OLDER: the log was last
    written before the process started. NOT_IN_LOG: nothing in the log is its. NO_LOG: nothing tells
    that there is a log, or that it would show anything. UNREADABLE: the log could not be read.
    """

    JOINED = "joined"
    AMBIGUOUS = "ambiguous"
    OLDER = "older"
    NOT_IN_LOG = "not_in_log"
    NO_LOG = "no_log"
    UNREADABLE = "unreadable"


@dataclasses.dataclass(frozen=True, slots=True)
class Membership:
    """One rank of a process in one communicator; `communicator` is NCCL's commId, "" if unknown."""

    communicator: str
    rank: int
    nranks: int


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """One variable that NCCL said it read, with one value.

    `wording` is one of `nccl.facts.Wording`, `meaning` what NCCL made of the value if the line says
    so. `member` is the index in `NcclLog.members` of the communicator that was being made, None
    outside of that. `whole` is false where the line was cut. `source` is the line's own word for
    where the value is from.
    """

    name: str
    value: Value
    wording: str
    source: str
    file: str
    line: int
    meaning: str = ""
    member: int | None = None
    whole: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """A line of a configuration file of NCCL in the process's own root directory."""

    name: str
    value: Value
    path: str
    line: int


@dataclasses.dataclass(frozen=True, slots=True)
class NcclLog:
    """A process's part of NCCL's log, and what else tells where its values are from.

    `files` are the logs that were looked into; `asked` whether the user named them. `candidates`
    name the processes of the log that may be this one (AMBIGUOUS). `host`, `pid` and `versions` are
    as the log has them; `shows` is false where it has no INFO line of this process, `damaged` true
    where lines of it were cut or left out. `plugins` are its ENV/Plugin lines. `settings` are what
    the configuration files hold now. `written` is the time of the log's last write, None if it is
    not known. `evidence` says by what the two were matched; `sure` is false where that leaves room
    for another process.
    """

    state: LogState
    files: tuple[str, ...] = ()
    asked: bool = False
    reason: str = ""
    remedy: str = ""
    candidates: tuple[str, ...] = ()
    host: str = ""
    pid: int | None = None
    versions: tuple[str, ...] = ()
    members: tuple[Membership, ...] = ()
    reads: tuple[Read, ...] = ()
    plugins: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    shows: bool = True
    damaged: bool = False
    written: float | None = None
    evidence: str = ""
    sure: bool = True
