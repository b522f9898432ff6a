"""What a launch is made of: hops from one program to the next, up to the interpreter."""

from __future__ import annotations

import dataclasses
import enum
import posixpath
import re
from typing import Final

from envprobe.launch.declared import Builder, Declared, setting
from envprobe.launch.identity import NO_ONE, Identity
from envprobe.launch.types import NOWHERE, Place, Remark, Setting, Source

_PYTHON: Final = re.compile(r"python(?:3(?:\.\d+)?t?)?(?:d|-dbg)?|pypy3?(?:\.\d+)?")
_WITH_VALUE: Final = ("-X", "-W", "--check-hash-based-pycs")


@dataclasses.dataclass(frozen=True, slots=True)
class Hop:
    """One program that hands over to the next: how it is called, and what it does on the way.

    `told` is a sentence without its end that holds no value; `child` says that it stays and starts
    the next one as its child.
    """

    program: str
    place: Place
    told: str
    child: bool = False


class Mode(str, enum.Enum):
    """What an interpreter is told to run."""

    SCRIPT = "script"
    MODULE = "module"
    COMMAND = "command"
    STDIN = "stdin"


@dataclasses.dataclass(frozen=True, slots=True)
class Python:
    """A call of an interpreter: its path, options such as `-I`, what it runs and the arguments.

    `target` is the path of a script, the name of a module, or the text of `-c`.
    """

    interpreter: str
    flags: tuple[str, ...]
    mode: Mode
    target: str
    arguments: tuple[str, ...]

    def isolated(self, letter: str) -> bool:
        """Return whether an option of one letter is among the flags, alone or with others."""
        return any(letter in one[1:] for one in self.flags if one[1:2] not in "XW-")

    @property
    def ignores_variables(self) -> bool:
        """Whether PYTHON* variables do not count (-E, -I)."""
        return self.isolated("E") or self.isolated("I")


@dataclasses.dataclass(frozen=True, slots=True)
class Container:
    """A container that is started: what its own environment is given by the command line.

    `passed` are settings of `-e` and `--env-file`; `image_known` says whether the image's own ENV
    is among them. `declared` is what all of it makes. `place` is where it is started.
    """

    runtime: str
    image: str
    place: Place
    passed: tuple[Setting, ...]
    image_known: bool
    words: tuple[str, ...]
    declared: Declared


@dataclasses.dataclass(frozen=True, slots=True)
class Launch:
    """One command of a definition, followed to the interpreter that it ends in.

    `declared` is what that interpreter is handed; `python` is None where none was found, and
    `missing` says that its file is not there. `opaque` says what could not be taken apart, at
    `opaque_at`. `cwd` is "" if it is not known. With `confined` false the sandbox of the definition
    does not count for it.
    """

    argv: tuple[str, ...]
    place: Place
    hops: tuple[Hop, ...]
    declared: Declared
    python: Python | None
    cwd: str
    identity: Identity = NO_ONE
    opaque: str = ""
    opaque_at: Place = NOWHERE
    container: Container | None = None
    remarks: tuple[Remark, ...] = ()
    confined: bool = True
    missing: str = ""

    @property
    def handed(self) -> Declared:
        """What the last program that is known is handed: in a container nothing but its own."""
        return self.declared if self.container is None else self.container.declared

    @property
    def user(self) -> str:
        """The user that it is started as, "" where none is named."""
        return self.identity.user


class State:
    """What is known while a command line is taken apart, one program after the other."""

    def __init__(
        self, builder: Builder, place: Place, *, open: str, cwd: str, identity: Identity
    ) -> None:
        self.builder = builder
        self.place = place
        self.open = open
        self.cwd = cwd
        self.identity = identity
        self.hops: list[Hop] = []
        self.remarks: list[Remark] = []
        self.container: Container | None = None
        self.python: Python | None = None

    def hop(self, program: str, told: str, *, child: bool = False) -> None:
        """Add a hop at the current place."""
        self.hops.append(Hop(program, self.place, told, child))

    def put(self, name: str, value: str | None, reason: str) -> None:
        """Set a variable on the way; None: to a value that cannot be told, for `reason`."""
        if value is None:
            self.builder.set(Setting(name, None, Source.COMMAND, self.place, reason))
        else:
            self.builder.set(setting(name, value, Source.COMMAND, self.place))

    def unsure(self, reason: str) -> None:
        """Say that any variable may have been set or changed here."""
        self.more(reason)
        self.builder.doubt(reason)

    def more(self, reason: str) -> None:
        """Say that further variables may have been set here."""
        self.open = "; ".join(filter(None, (self.open, reason)))

    def become(self, user: str) -> None:
        """Go on as another user."""
        self.identity = Identity(user, place=self.place)

    def enter(self, folder: str) -> None:
        """Change the working directory; below one that is not known, it stays so."""
        if self.cwd or folder.startswith("/"):
            self.cwd = self.path(folder)

    def path(self, path: str) -> str:
        """Return a path as seen from the working directory."""
        return posixpath.normpath(posixpath.join(self.cwd or "/", path))

    def look(self, name: str) -> str | None:
        """Return a variable's value, "" if it is not set, None if that cannot be told."""
        value = self.builder.value(name)
        if value is not None:
            return value.reveal().decode("utf-8", "surrogateescape")
        if self.builder.has(name) or (self.open and not self.builder.removed(name)):
            return None
        return ""


def is_python(program: str) -> bool:
    """Return whether a program is an interpreter of Python by its name."""
    return _PYTHON.fullmatch(posixpath.basename(program)) is not None


def python_of(argv: tuple[str, ...]) -> Python:
    """Take the command line of an interpreter apart (Doc/using/cmdline.rst)."""
    flags: list[str] = []
    rest = list(argv[1:])
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word in _WITH_VALUE and rest:
            flags.append(word)
            flags.append(rest.pop(0))
            continue
        mode, found, given = _program_in(word)
        if mode is None:
            flags.append(word)
            continue
        if found:
            flags.append(f"-{found}")
        target = given or (rest.pop(0) if rest else "")
        return Python(argv[0], tuple(flags), mode, target, tuple(rest))
    if not rest or rest[0] == "-":
        return Python(argv[0], tuple(flags), Mode.STDIN, "", tuple(rest[1:]))
    return Python(argv[0], tuple(flags), Mode.SCRIPT, rest[0], tuple(rest[1:]))


def _program_in(word: str) -> tuple[Mode | None, str, str]:
    """Return whether `c` or `m` ends the options in one word, those before it, and what follows."""
    if word.startswith("--") or word[1:2] in "XW":
        return None, "", ""
    for number, letter in enumerate(word[1:], 1):
        if letter in "XW":
            break
        if letter in "cm":
            mode = Mode.COMMAND if letter == "c" else Mode.MODULE
            return mode, word[1:number], word[number + 1 :]
    return None, "", ""
