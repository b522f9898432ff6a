"""What is found in the log of a start; nothing here says which of it is the cause."""

from __future__ import annotations

import dataclasses
import enum

from envprobe.launch.live import Live
from envprobe.triage.table import Row, State


class Kind(str, enum.Enum):
    """Where a log was read from. FILE may hold several starts, JOURNAL holds exactly one."""

    FILE = "file"
    STDIN = "stdin"
    JOURNAL = "journal"


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """One line without its prefixes.

    `number` counts from 1, 0 where it is not known: then `offset`, in bytes, says where it begins.
    `order` grows along the log. `stream` tells the processes apart that share the log, as far as
    prefixes do; `label` names the process in words; `manager` marks lines of systemd itself.
    `level` is what its logger calls it, "" where none does.
    """

    text: str
    number: int
    offset: int
    order: int
    stamp: str = ""
    stream: tuple[str, ...] = ()
    label: str = ""
    manager: bool = False
    level: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a Python traceback."""

    file: str
    line: int
    function: str


@dataclasses.dataclass(frozen=True, slots=True)
class Raised:
    """A Python exception with its traceback, outermost frame first.

    `type` is "" where the log breaks off before the exception's own line. `mixed` says that another
    traceback stands between its lines, so that the frames may be those of another process.
    """

    type: str
    message: str
    frames: tuple[Frame, ...]
    line: Line
    mixed: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Occurrence:
    """A line that a row of data/causes.json fits, with the exception that it belongs to, if any.

    `what` is what the line says of the cause; `more` are further lines about the same exception.
    """

    row: Row
    what: str
    line: Line
    raised: Raised | None = None
    more: tuple[str, ...] = ()


class MarkKind(str, enum.Enum):
    """What a line says of the whole server."""

    START = "start"
    READY = "ready"


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """A line at which a server began to start, or was ready."""

    kind: MarkKind
    line: Line


@dataclasses.dataclass(frozen=True, slots=True)
class Log:
    """One log. `size` and `left_out` are in bytes; what was left out lies before `gap` lines.

    `gap` is the order of the first line behind what was left out, 0 if nothing was. `broken` says
    why the log could not be read to its end. `strange` are exceptions that no row explains, of the
    last start only.
    `counts` has how many lines each cause has, those beyond the first ones too.
    """

    name: str
    kind: Kind
    lines: int
    size: int
    occurrences: tuple[Occurrence, ...]
    marks: tuple[Mark, ...]
    strange: tuple[Raised, ...]
    counts: dict[str, int]
    left_out: int = 0
    gap: int = 0
    binary: bool = False
    envelope: str = ""
    broken: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """Why a log that belongs to the start could not be read, and what to do about it."""

    reason: str
    remedy: str


@dataclasses.dataclass(frozen=True, slots=True)
class Unit:
    """What the manager says of a unit; `invocation` is the id of its last start, "" if none.

    `began` is when its last main process was started, in microseconds of CLOCK_MONOTONIC, 0 if
    there was none.
    `states` are the rows that its result and exit status fit; `files` is where it writes its log.
    """

    live: Live
    user: bool
    invocation: str
    began: int = 0
    states: tuple[State, ...] = ()
    files: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Triage:
    """Everything that was looked at: the unit, if one was named, its logs, and what lacks."""

    logs: tuple[Log, ...]
    unit: Unit | None = None
    problems: tuple[Problem, ...] = ()
