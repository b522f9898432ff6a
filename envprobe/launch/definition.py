"""A launch definition as a whole: from a name, a file or a command line to what it starts."""

from __future__ import annotations

import dataclasses
import enum
import os
import posixpath
import pwd
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from envprobe import inputfile
from envprobe.errors import UndeterminedError, UsageError
from envprobe.launch import dropins, environment, execline, live, unit, unitfile
from envprobe.launch.declared import Builder, Declared, setting
from envprobe.launch.identity import Identity
from envprobe.launch.live import Live
from envprobe.launch.manager import Manager, local_version
from envprobe.launch.peel import peel
from envprobe.launch.presence import looked_for
from envprobe.launch.sandbox import Property
from envprobe.launch.specifiers import Scope
from envprobe.launch.steps import Launch
from envprobe.launch.types import Entry, Kind, Place, Remark, Source
from envprobe.launch.unit import Text, Unit
from envprobe.redact import DEFAULT_WANTED, is_wanted

_REMEDY: Final = "Name a unit, a unit file with its drop-ins (*.conf), or `-- COMMAND`."
_NOT_THERE: Final = {
    "not-found": (
        "does not exist",
        "Look for its name with `systemctl {user}list-unit-files`, or"
        " ask another manager ({other} --user).",
    ),
    "masked": (
        "is masked: its file is empty or leads to /dev/null, and it cannot be started",
        "Take that away, for one with `systemctl {user}unmask {name}`.",
    ),
}
"""States of a unit in which there is nothing to look at, what is said of them, and a remedy."""


class Origin(str, enum.Enum):
    """What kind of definition it is."""

    UNIT = "unit"
    UNIT_FILE = "unit-file"
    COMMAND = "command"
    ENV_FILE = "env-file"
    COMPOSE = "compose"
    POD = "pod"


@dataclasses.dataclass(frozen=True, slots=True)
class Definition:
    """What is declared, and what it starts.

    `declared` is handed to the first program of each launch. `live` is what the manager says, for a
    unit that was asked by name. `modified` says when its files were changed, in Unix seconds.
    `sandbox` is what changes which files are seen by what is started (`sandbox.concerning`), except
    by a launch that is not `confined`.
    """

    subject: str
    origin: Origin
    files: tuple[str, ...]
    declared: Declared
    launches: tuple[Launch, ...]
    remarks: tuple[Remark, ...]
    live: Live | None = None
    user_manager: bool = False
    env_files: tuple[str, ...] = ()
    modified: Mapping[str, float] = dataclasses.field(default_factory=dict)
    sandbox: tuple[Property, ...] = ()

    @property
    def of_system(self) -> bool:
        """Whether the manager of the system starts it, as root where no user is named."""
        return self.origin in (Origin.UNIT, Origin.UNIT_FILE) and not self.user_manager

    @property
    def final(self) -> tuple[Declared, ...]:
        """What each launch hands to its interpreter; without a launch what is declared."""
        return tuple(one.handed for one in self.launches) or (self.declared,)

    @property
    def relevant(self) -> tuple[str, ...]:
        """The names that matter: those that the definition speaks of, else those that are read."""
        if self.origin is not Origin.COMMAND:
            return self.declared.names
        names = (one.setting.name for one in self.declared.entries)
        return tuple(name for name in names if is_wanted(name, DEFAULT_WANTED))

    @property
    def relevant_entries(self) -> tuple[Entry, ...]:
        """The entries of the names that matter."""
        names = frozenset(self.relevant)
        return tuple(one for one in self.declared.entries if one.setting.name in names)


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """What definitions are read with: the caller's environment, which manager, the image's ENV."""

    variables: Mapping[str, str]
    user: bool = False
    image: tuple[str, ...] | None = None


# --- a unit --------------------------------------------------------------------------------------


def of_name(name: str, context: Context) -> Definition:
    """Return what a unit of a running manager declares, as its files say now.

    Raises UndeterminedError if the manager cannot be asked, UsageError if it has no such unit.
    """
    manager = Manager(context.user, context.variables)
    found = live.ask(manager, name)
    if found.load_state in _NOT_THERE:
        told, remedy = _NOT_THERE[found.load_state]
        options = {"name": found.name, "user": "--user " if context.user else ""}
        remedy = remedy.format(**options, other="without" if context.user else "with")
        raise UsageError(f"the unit {found.name} {told} in the {manager.named}", remedy)
    base = manager.environment
    if not found.fragment:
        raise UndeterminedError(f"the unit {found.name} has no file", _REMEDY)
    scope = Scope(
        unit=found.name,
        path=found.fragment,
        user_manager=context.user,
        uid=os.geteuid(),
        variables=base,
        version=manager.version,
    )
    directories = dropins.search_path(user=context.user, variables=base)
    drops = dropins.find((found.name, *found.names), directories)
    return _of_files(scope, (found.fragment, *drops.paths), drops.remarks, base, context, found)


def of_file(path: str, extra: Sequence[str], context: Context) -> Definition:
    """Return what a unit file declares, with its drop-ins; no manager is asked.

    `extra` are drop-ins that are named beside it. Those of its own directories count as well: in
    systemd's directories all of its search path, elsewhere those beside the file.
    """
    full = os.path.abspath(path)
    folder, name = os.path.split(full)
    user, directories = _directories(folder, context)
    installed = folder in directories
    scope = Scope(
        unit=name,
        path=full if installed else "",
        user_manager=user,
        uid=os.geteuid(),
        variables=context.variables,
        version=local_version(context.variables),
    )
    drops = dropins.find((name,), directories if installed else (folder,))
    given = [os.path.abspath(one) for one in extra]
    named = sorted({*drops.paths, *given}, key=posixpath.basename)
    remarks = (*drops.remarks, *_elsewhere(name, full, installed, directories))
    return _of_files(scope, (full, *named), remarks, None, context, None)


def _directories(folder: str, context: Context) -> tuple[bool, tuple[str, ...]]:
    """Return whether a directory is one of a user's manager, and the whole search path."""
    for user in (False, True):
        directories = dropins.search_path(user=user, variables=context.variables)
        if folder in directories:
            return user, directories
    return context.user, dropins.search_path(user=context.user, variables=context.variables)


def _elsewhere(
    name: str, full: str, installed: bool, directories: tuple[str, ...]
) -> Iterable[Remark]:
    """Remark on what this machine has of the same unit that decides with or instead of the file."""
    for directory in directories if installed else ():
        other = posixpath.join(directory, name)
        if other == full:
            break
        if os.path.lexists(other):
            about = f"the file is not read: {other} counts instead"
            yield Remark(Kind.DROP_IN_IGNORED, Place(full), about)
            break
    if not installed:
        there = dropins.find((name,), directories).paths
        if there:
            about = f"once it is installed here, {', '.join(there)} would count too"
            yield Remark(Kind.DROP_IN_ELSEWHERE, Place(full), about)


def _of_files(
    scope: Scope,
    paths: Sequence[str],
    remarks: Iterable[Remark],
    base: Mapping[str, str] | None,
    context: Context,
    found: Live | None,
) -> Definition:
    parsed = [unitfile.parse(one, _read(one)) for one in paths if not dropins.is_mask(one)]
    made = unit.read(scope, parsed)
    now = time.time()
    declared, odd = environment.declare(
        made, base, version=scope.version, source=scope.unit, at=now
    )
    launches, from_lines = _launches(made, declared, scope, context)
    env_files = tuple(one.path for one in made.env_files if not one.unknown)
    return Definition(
        subject=scope.unit,
        origin=Origin.UNIT_FILE if found is None else Origin.UNIT,
        files=tuple(paths),
        declared=declared,
        launches=tuple(looked_for(one, made.sandbox) for one in launches),
        remarks=(*remarks, *made.remarks, *odd, *from_lines),
        live=found,
        user_manager=scope.user_manager,
        env_files=env_files,
        modified={
            one: at for one in (*paths, *env_files) if (at := live.modified(one)) is not None
        },
        sandbox=made.sandbox,
    )


def _read(path: str) -> bytes:
    try:
        return inputfile.read(path, unitfile.MAX_BYTES, remedy=_REMEDY)
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist", _REMEDY) from None


def _launches(
    made: Unit, declared: Declared, scope: Scope, context: Context
) -> tuple[tuple[Launch, ...], list[Remark]]:
    remarks: list[Remark] = []
    launches = []
    known = {
        one.setting.name: (
            None
            if one.setting.value is None or not one.known
            else one.setting.value.reveal().decode("utf-8", "surrogateescape")
        )
        for one in declared.entries
        if one.removed is None
    }
    cwd = _folder(made, scope)
    search = made.text("ExecSearchPath") or execline.SEARCHED
    for line in made.execs:
        replaced = execline.replaced(line, known, complete=not declared.open)
        remarks += replaced.remarks
        argv = list(replaced.argv)
        remarks += _by_path(line, known, search)
        if "@" in line.prefixes and argv:
            # The program is the first word; what it is told is its name does not matter here.
            argv[0] = line.program
        launch = peel(
            declared,
            argv,
            line.place,
            cwd=cwd,
            identity=_identity(made, line.prefixes),
            search=search,
            image=context.image,
        )
        unknown = line.unknown or ", ".join(f"${{{name}}}" for name in replaced.unknown)
        why = f"a word cannot be told: {unknown}" if unknown else ""
        if "|" in line.prefixes:
            why = "the prefix | hands the line to a shell"
        if why and not launch.opaque:
            launch = dataclasses.replace(launch, opaque=why, opaque_at=line.place)
        launches.append(dataclasses.replace(launch, confined="+" not in line.prefixes))
    return tuple(launches), remarks


def _by_path(
    line: execline.ExecLine, known: Mapping[str, str | None], search: str
) -> Iterable[Remark]:
    """Remark on a program without a slash where a declared PATH would find another one."""
    import shutil

    program, path = line.program, known.get("PATH")
    if not program or "/" in program or path is None:
        return
    first, second = shutil.which(program, path=search), shutil.which(program, path=path)
    if second is not None and first != second:
        about = f"systemd does not look for {program} in the declared PATH, where {second} is:"
        about += f" it takes {first}" if first else " it finds none"
        yield Remark(Kind.EXEC_NOT_ON_PATH, line.place, about, "PATH")


def _folder(made: Unit, scope: Scope) -> str:
    """Return the working directory, "" where it is not known."""
    given = made.texts.get("WorkingDirectory")
    if given is None or not (given.value or given.unknown):
        return scope.variables.get("HOME", "") if scope.user_manager else "/"
    folder = given.value.removeprefix("-")
    if folder != given.value and not scope.user_manager and not os.path.isdir(folder):
        return "/"
    if folder != "~":
        return folder
    if scope.user_manager:
        return scope.variables.get("HOME", "")
    try:
        return pwd.getpwnam(made.text("User") or "root").pw_dir
    except KeyError:
        return ""


def _identity(made: Unit, prefixes: str) -> Identity:
    """Return as whom a command is started: `+` and `!` leave User= and its kin out of account."""
    if set(prefixes) & set("+!"):
        return Identity()
    user, group = made.texts.get("User", Text()), made.texts.get("Group", Text())
    return Identity(
        user=user.value,
        group=group.value,
        groups=made.groups,
        place=user.place if user.value or user.unknown else group.place,
        dynamic=any(one.key == "DynamicUser" for one in made.sandbox),
        unknown=user.unknown or group.unknown,
    )


# --- a command -----------------------------------------------------------------------------------


def of_command(argv: Sequence[str], context: Context, cwd: str) -> Definition:
    """Return what a command line declares when it is started from the caller's environment."""
    builder = Builder()
    for name, value in context.variables.items():
        builder.set(setting(name, value, Source.CALLER))
    declared = builder.made(source="the caller's environment", at=time.time())
    place = Place("the command line")
    launch = peel(declared, argv, place, cwd=cwd, image=context.image)
    return Definition(
        subject="the command line",
        origin=Origin.COMMAND,
        files=(),
        declared=declared,
        launches=(looked_for(launch, ()),),
        remarks=(),
    )
