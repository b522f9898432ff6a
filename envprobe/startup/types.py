"""The facts about the start of one interpreter: plain and frozen, with no verdicts.

Paths are as the interpreter sees them. Times of hooks are microseconds, those of files Unix
seconds.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Final

from envprobe.model import Confidence
from envprobe.runner.rights import Rights

SITECUSTOMIZE: Final = "sitecustomize"
USERCUSTOMIZE: Final = "usercustomize"
MODULES: Final = (SITECUSTOMIZE, USERCUSTOMIZE)
"""The modules that site imports at each start, in this order (Lib/site.py)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Launch:
    """How an interpreter is started: what decides which hooks run.

    `python` is its path, `flags` its options before the program, such as `-I`. `path0` is what the
    program puts first on sys.path once site is done, None for nothing. `root` is a directory
    descriptor of its root directory and `rights` those it is started with; None: envprobe's own.
    """

    python: str
    environment: Mapping[str, str]
    flags: tuple[str, ...] = ()
    cwd: str = "/"
    path0: str | None = ""
    root: int | None = None
    rights: Rights | None = None

    def has_flag(self, letter: str) -> bool:
        """Return whether an option of one letter is among the flags, alone or with others."""
        short = (flag for flag in self.flags if flag[:1] == "-" and flag[1:2] not in "-XW")
        return any(letter in flag[1:] for flag in short)

    @property
    def ignores_variables(self) -> bool:
        """Whether PYTHON* variables do not count (-E, -I)."""
        return self.has_flag("E") or self.has_flag("I")

    @property
    def python_path(self) -> str | None:
        """The value of PYTHONPATH if it counts, else None."""
        return None if self.ignores_variables else self.environment.get("PYTHONPATH")


class Asked(str, enum.Enum):
    """Which question a launch answers: DECLARED is what a unit or a command line would start.

    AGAIN stands for RAN where the memory of the process holds other hooks than a start would load
    today: what the trace shows is then no answer to RAN.
    """

    GIVEN = "given"
    DECLARED = "declared"
    RAN = "ran"
    NEXT = "next"
    AGAIN = "again"


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """One launch to examine; `reason` says why the answer is inferred, "" if it is not."""

    asked: Asked
    launch: Launch
    confidence: Confidence = Confidence.PROVED
    reason: str = ""


class Kind(str, enum.Enum):
    """What a candidate is made of, which is what loads it."""

    SOURCE = "source"
    PACKAGE = "package"
    SOURCELESS = "sourceless"
    EXTENSION = "extension"
    ZIP = "zip"
    NAMESPACE = "namespace"
    OTHER = "other"


class Bytecode(str, enum.Enum):
    """The state of the cached bytecode beside a source, as importlib judges it (PEP 552).

    AGREES_BUT_DIFFERS: modification time and size match, and the code is another. CORRUPT: they
    match, and the rest is no code.
    """

    ABSENT = "absent"
    FRESH = "fresh"
    STALE = "stale"
    UNCHECKED = "unchecked"
    UNCHECKED_STALE = "unchecked-stale"
    AGREES_BUT_DIFFERS = "agrees-but-differs"
    OTHER_VERSION = "other-version"
    CORRUPT = "corrupt"
    UNREADABLE = "unreadable"


@dataclasses.dataclass(frozen=True, slots=True)
class FileFacts:
    """A file: `real` is its path without links, `owner` the distribution that brought it, or ""."""

    path: str
    real: str = ""
    uid: int | None = None
    mode: int | None = None
    size: int | None = None
    modified: float | None = None
    changed: float | None = None
    readable: bool = True
    owner: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """Something that could be the hook `module`, at place `entry` of sys.path (None: a finder's).

    `reason` says why it loses, "" for the one that the walk takes for the winner. `rank` is its
    place among all candidates.
    """

    module: str
    file: FileFacts
    kind: Kind
    rank: int
    entry: int | None = None
    finder: str = ""
    cached: str = ""
    bytecode: Bytecode = Bytecode.ABSENT
    reason: str = ""

    @property
    def wins(self) -> bool:
        """Whether the walk takes it for the winner."""
        return not self.reason


class Origin(str, enum.Enum):
    """Where an entry of sys.path comes from."""

    PYTHONPATH = "PYTHONPATH"
    STDLIB_ZIP = "zip of the standard library"
    STDLIB = "standard library"
    DYNLOAD = "lib-dynload"
    USER_SITE = "user site"
    SITE = "site-packages"
    ADDED = "added at start-up"


class EntryState(str, enum.Enum):
    """What is at an entry of sys.path."""

    DIRECTORY = "directory"
    ARCHIVE = "archive"
    IN_ARCHIVE = "in-file"
    FILE = "file"
    MISSING = "missing"
    UNREADABLE = "unreadable"


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One entry of sys.path as it stands when site imports sitecustomize."""

    path: str
    origin: Origin
    state: EntryState


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """What is at the path that was expected to win; `real` is the path without links."""

    path: str
    state: EntryState
    real: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class StartupFile:
    """A .pth file or, from CPython 3.15 on, a .start file: the lines that are executed.

    `suppressed`: a .start file of the same name takes the place of its lines (PEP 829).
    """

    file: FileFacts
    lines: tuple[tuple[int, str], ...]
    suppressed: bool = False
    unreadable: str = ""

    @property
    def entry_points(self) -> bool:
        """Whether it is a .start file."""
        return self.file.path.endswith(".start")


@dataclasses.dataclass(frozen=True, slots=True)
class Walk:
    """What the interpreter says of its search for hooks, without running the two modules.

    `user_site_enabled` is site.ENABLE_USER_SITE: None where user and effective user differ.
    `loaded` are the modules that startup files had imported before site would have. `wanted` is
    None where no winner was expected.
    """

    version: tuple[int, int, int]
    implementation: str
    executable: str
    prefix: str
    base_prefix: str
    stdlib: str
    entries: tuple[Entry, ...]
    candidates: tuple[Candidate, ...]
    files: tuple[StartupFile, ...]
    user_site: str
    user_site_enabled: bool | None
    site_directories: tuple[str, ...]
    loaded: tuple[str, ...] = ()
    wanted: Wanted | None = None

    @property
    def in_venv(self) -> bool:
        """Whether the interpreter is that of a virtual environment."""
        return self.prefix != self.base_prefix

    def of(self, module: str) -> tuple[Candidate, ...]:
        """Return the candidates of one hook, in the order of the search."""
        return tuple(one for one in self.candidates if one.module == module)

    def winner(self, module: str) -> Candidate | None:
        """Return the candidate that the walk takes for the winner."""
        return next((one for one in self.of(module) if one.wins), None)


@dataclasses.dataclass(frozen=True, slots=True)
class Raised:
    """An exception: its type, its message, and the innermost place that is told."""

    type: str
    message: str
    file: str = ""
    line: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Imported:
    """What the trace says of the import of one hook.

    `path` is the file whose code ran, "" if none is named; `code` the file that the code was read
    from, such as cached bytecode. `finished`: the import came to its end without an exception.
    `chained` are other files named sitecustomize that ran inside it, `chained_raised` what some of
    them raised, by path. None: no time was told.
    """

    module: str
    path: str = ""
    code: str = ""
    kind: Kind = Kind.OTHER
    finished: bool = False
    ended: bool = False
    self_us: int | None = None
    cumulative_us: int | None = None
    raised: Raised | None = None
    chained: tuple[str, ...] = ()
    chained_raised: Mapping[str, Raised] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class FileRun:
    """What the trace says of one .pth or .start file: time of its imports, and what it raised."""

    path: str
    cumulative_us: int = 0
    line: int = 0
    text: str = ""
    raised: Raised | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Trace:
    """What `python -v -X importtime` said.

    `site_done`: the import of site came to its end. `fatal` is the exception that ended the
    interpreter in site.
    """

    imports: Mapping[str, Imported]
    files: Mapping[str, FileRun]
    site_done: bool
    fatal: Raised | None = None
