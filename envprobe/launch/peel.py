"""From a command line to the interpreter that it ends in, through all wrappers; none is run."""

from __future__ import annotations

import posixpath
import shutil
from collections.abc import Iterable, Sequence
from typing import Final

from envprobe import inputfile
from envprobe.errors import UsageError
from envprobe.launch import containers, jobs, options, shell, wrappers
from envprobe.launch.declared import Builder, Declared
from envprobe.launch.identity import NO_ONE, Identity
from envprobe.launch.options import OpaqueError
from envprobe.launch.scripts import ShellRun
from envprobe.launch.steps import Launch, Mode, State, is_python, python_of
from envprobe.launch.types import NOWHERE, Place, Setting, Source

_SHELLS: Final = ("sh", "bash", "dash", "ash", "busybox")
_SET_BY_SHELLS: Final = ("PWD", "OLDPWD", "SHLVL", "_")
_MAX_HOPS: Final = 32
_MAX_SCRIPT: Final = 1 << 20


def peel(
    declared: Declared,
    argv: Sequence[str],
    place: Place,
    *,
    cwd: str = "",
    identity: Identity = NO_ONE,
    search: str = "",
    image: Iterable[str] | None = None,
) -> Launch:
    """Follow a command line to the interpreter that it ends in.

    `search` is where a first word without a slash is looked for, PATH if "". `image` is the ENV of
    the image, for a container; None: not known.
    """
    builder = Builder.of(declared.entries)
    state = State(builder, place, open=declared.open, cwd=cwd, identity=identity)
    opaque, opaque_at = "", NOWHERE
    try:
        _Peeler(state, None if image is None else tuple(image)).follow(list(argv), search)
    except shell.ShellOpaqueError as error:
        opaque, opaque_at = error.reason, Place(state.place.file, error.line)
    except OpaqueError as error:
        opaque, opaque_at = error.reason, state.place
    made = builder.made(open=state.open, source=declared.source, at=declared.at)
    return Launch(
        argv=tuple(argv),
        place=place,
        hops=tuple(state.hops),
        declared=made,
        python=state.python,
        cwd=state.cwd,
        identity=state.identity,
        opaque=opaque,
        opaque_at=opaque_at,
        container=state.container,
        remarks=tuple(state.remarks),
    )


class _Peeler:
    def __init__(self, state: State, image: tuple[str, ...] | None) -> None:
        self.state = state
        self.image = image

    def follow(self, argv: list[str], search: str) -> None:
        for _ in range(_MAX_HOPS):
            if not argv:
                raise OpaqueError("no command is left to run")
            following = self.next(argv, search)
            if following is None:
                return
            argv, search = following, ""
        raise OpaqueError("there are too many wrappers around each other")

    def next(self, argv: list[str], search: str) -> list[str] | None:
        """Return the words of the next program; None where this one is the last."""
        program = posixpath.basename(argv[0])
        if program in containers.RUNTIMES:
            self.state.container = containers.peel(self.state, argv, self.image)
            told = "starts a container, which gets only what it is told to pass"
            self.state.hop(f"{program} run", told, child=True)
            return None
        if is_python(argv[0]):
            python = python_of((self.found(argv[0], search), *argv[1:]))
            if python.mode is Mode.MODULE and python.target == jobs.AS_MODULE:
                words = ("torchrun", *python.arguments)
                return list(jobs.torchrun(self.state, words, python.interpreter))
            self.state.python = python
            return None
        if program in _SHELLS:
            return self.shell(argv, program)
        if program == "torchrun":
            return list(jobs.torchrun(self.state, argv, self.behind(argv, search)))
        if program == "ray":
            found = self.found(argv[0], search)
            return list(jobs.ray(self.state, argv, self.behind(argv, search), found))
        if program in wrappers.BY_NAME:
            return list(wrappers.BY_NAME[program](self.state, argv))
        if wrappers.is_plain(program):
            return list(wrappers.plain(self.state, argv))
        return self.file(argv, search)

    def found(self, program: str, search: str) -> str:
        """Return the path of a program: by PATH where it holds no slash."""
        if "/" in program:
            return self.state.path(program) if self.state.cwd or program[0] == "/" else program
        path = search or self.state.look("PATH")
        if path is None:
            return program
        return shutil.which(program, path=path) or program

    def behind(self, argv: list[str], search: str) -> str:
        """Return the interpreter of a console script such as torchrun, by its first line."""
        words = self.first_line(self.found(argv[0], search))
        return words[0] if words and is_python(words[0]) else "python"

    def first_line(self, path: str) -> list[str]:
        """Return the words of the `#!` line of a script; OpaqueError for what is none."""
        raw = self.read(path)
        if not raw.startswith(b"#!"):
            name = posixpath.basename(path)
            raise OpaqueError(f"{name} is a program that envprobe does not know")
        line = raw[2:].partition(b"\n")[0].decode("utf-8", "surrogateescape").strip()
        interpreter, _, argument = line.partition(" ")
        return [interpreter, *filter(None, (argument.strip(),))]

    def read(self, path: str) -> bytes:
        if "/" not in path:
            raise OpaqueError(f"{path} is not found on this machine")
        try:
            with open(path, "rb") as file:
                if file.read(2) != b"#!":
                    return b""
            return inputfile.read(path, _MAX_SCRIPT, remedy="")
        except (OSError, UsageError):
            raise OpaqueError(f"{path} cannot be read on this machine") from None

    def file(self, argv: list[str], search: str) -> list[str] | None:
        """Follow the first line of a script; a script of Python is what the interpreter runs."""
        path = self.found(argv[0], search)
        words = self.first_line(path)
        if posixpath.basename(words[0]) == "env" and len(words) > 1:
            rest = words[1].removeprefix("-S").split() if words[1].startswith("-S") else [words[1]]
            words = [self.found(rest[0], ""), *rest[1:]]
        return [*words, path, *argv[1:]]

    def shell(self, argv: list[str], program: str) -> list[str] | None:
        """Follow shell text, of `-c` or of a file."""
        given = argv[1:]
        if program == "busybox":
            given = given[1:] if given[:1] in (["sh"], ["ash"]) else []
        taken = options.of("sh", given)
        if not taken.rest:
            raise OpaqueError(f"{program} reads its commands from its input")
        if taken.has("-i"):
            raise OpaqueError(f"{program} -i reads start-up files that may do anything")
        login = taken.has("-l", "--login") and not taken.has("--noprofile")
        if login:
            self.state.unsure(f"{program} -l reads profiles, which may set variables")
        self.state.hop(
            program, "reads the user's profiles first" if login else "runs shell text", child=False
        )
        for name in _SET_BY_SHELLS:
            reason = "the shell sets it"
            self.state.builder.set(Setting(name, None, Source.COMMAND, self.state.place, reason))
        run = ShellRun(self.state, every=taken.has("-a"))
        if taken.has("-c"):
            return run.text(taken.rest[0], taken.rest[1:] or (program,), self.state.place)
        path = self.state.path(taken.rest[0])
        try:
            raw = inputfile.read(path, _MAX_SCRIPT, remedy="")
        except (OSError, UsageError):
            raise OpaqueError(f"{path} cannot be read on this machine") from None
        text = raw.decode("utf-8", "surrogateescape")
        return run.text(text, taken.rest, Place(path, 1))
