"""A unit and its drop-ins put together: what it hands over, and what it starts.

Environment=, PassEnvironment= and UnsetEnvironment= are lists that an empty assignment resets; the
same name counts the last time it is given (systemd.exec(5)).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from envprobe.launch import envlines, sandbox, specifiers
from envprobe.launch.execline import ExecLine, parse_exec
from envprobe.launch.specifiers import Scope
from envprobe.launch.types import NOWHERE, Kind, Place, Remark, Setting
from envprobe.launch.unitfile import Assignment, UnitFile
from envprobe.values import Value


@dataclasses.dataclass(frozen=True, slots=True)
class Removal:
    """One word of UnsetEnvironment=: with `value` only that assignment is removed."""

    name: str
    value: Value | None
    place: Place


@dataclasses.dataclass(frozen=True, slots=True)
class FileSource:
    """One EnvironmentFile=: a path or pattern; `unknown` says why the path cannot be told."""

    path: str
    optional: bool
    place: Place
    unknown: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Text:
    """A setting of one line, such as User=; `unknown` says why it cannot be told."""

    value: str = ""
    place: Place = NOWHERE
    unknown: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Unit:
    """All that the files of one unit say about what is started and with which environment."""

    name: str
    files: tuple[str, ...]
    settings: tuple[Setting, ...]
    env_files: tuple[FileSource, ...]
    passed: tuple[tuple[str, Place], ...]
    removals: tuple[Removal, ...]
    execs: tuple[ExecLine, ...]
    texts: dict[str, Text]
    remarks: tuple[Remark, ...]
    sandbox: tuple[sandbox.Property, ...] = ()
    groups: tuple[str, ...] = ()

    def text(self, key: str) -> str:
        """Return a setting of one line, "" if it is not given or cannot be told."""
        return self.texts.get(key, Text()).value


_ONE_LINE = (
    "Type",
    "User",
    "Group",
    "WorkingDirectory",
    "RootDirectory",
    "PAMName",
    "ExecSearchPath",
)


def read(scope: Scope, files: Iterable[UnitFile]) -> Unit:
    """Put the fragment and its drop-ins together, in the order in which systemd reads them."""
    reader = _Reader(scope)
    parsed = tuple(files)
    for file in parsed:
        reader.remarks += file.remarks
        for one in file.assignments:
            if one.section == "Service":
                reader.take(one)
    return reader.unit(tuple(file.path for file in parsed))


class _Reader:
    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.settings: list[Setting] = []
        self.files: list[FileSource] = []
        self.passed: list[tuple[str, Place]] = []
        self.removals: list[Removal] = []
        self.execs: list[ExecLine] = []
        self.texts: dict[str, Text] = {}
        self.confined: list[Assignment] = []
        self.groups: list[str] = []
        self.remarks: list[Remark] = []

    def take(self, one: Assignment) -> None:
        if one.key == "Environment":
            self.environment(one)
        elif one.key == "EnvironmentFile":
            self.file(one)
        elif one.key == "PassEnvironment":
            self.passing(one)
        elif one.key == "UnsetEnvironment":
            self.unsetting(one)
        elif one.key == "ExecStart":
            self.exec(one)
        elif one.key in _ONE_LINE:
            self.texts[one.key] = self.text(one)
        elif one.key == "SupplementaryGroups":
            self.groups = [*self.groups, *one.value.split()] if one.value else []
        if one.key in sandbox.KEYS:
            self.confined.append(one)

    def reset(self, one: Assignment, listed: list[Setting] | list[FileSource]) -> bool:
        """Empty a list where the assignment is empty; say so where something was in it."""
        if one.value:
            return False
        if listed:
            names = [item.name if isinstance(item, Setting) else item.path for item in listed]
            about = f"the empty {one.key}= resets the list: what was given before counts no more"
            text = Value(" ".join(dict.fromkeys(names)).encode("utf-8", "surrogateescape"))
            self.remarks.append(Remark(Kind.LIST_RESET, one.place, about, text=text))
            listed.clear()
        return True

    def environment(self, one: Assignment) -> None:
        if self.reset(one, self.settings):
            return
        found, remarks = envlines.assignments(one, self.scope)
        self.settings += found
        self.remarks += remarks

    def file(self, one: Assignment) -> None:
        if self.reset(one, self.files):
            return
        path = one.value.removeprefix("-")
        optional = one.value.startswith("-")
        try:
            path = specifiers.expand(path, self.scope)
        except specifiers.UnknownError as unknown:
            self.files.append(FileSource(path, optional, one.place, str(unknown)))
            return
        except specifiers.RefusedError as refused:
            self.ignored(one, f"{refused}: the line is ignored")
            return
        if not path.startswith("/"):
            quoted = "quotes are part of it; " if path.startswith(("'", '"')) else ""
            self.ignored(one, f"the path is not absolute ({quoted}so the line is ignored)")
            return
        if " " in path:
            about = "the whole line is one path: several files need a line each"
            raw = Value(path.encode("utf-8", "surrogateescape"))
            self.remarks.append(Remark(Kind.PATH_WITH_BLANK, one.place, about, text=raw))
        self.files.append(FileSource(path, optional, one.place))

    def ignored(self, one: Assignment, about: str) -> None:
        text = Value(one.value.encode("utf-8", "surrogateescape"))
        self.remarks.append(Remark(Kind.PATH_IGNORED, one.place, about, text=text))

    def passing(self, one: Assignment) -> None:
        if not one.value:
            self.passed.clear()
        names, remarks = envlines.names(one, self.scope)
        self.passed += [(name, one.place) for name in names]
        self.remarks += remarks

    def unsetting(self, one: Assignment) -> None:
        if not one.value:
            self.removals.clear()
        found, remarks = envlines.removals(one, self.scope)
        self.removals += [Removal(name, value, one.place) for name, value in found]
        self.remarks += remarks

    def exec(self, one: Assignment) -> None:
        if not one.value:
            self.execs.clear()
            return
        found, remarks = parse_exec(one, self.scope)
        self.execs += found
        self.remarks += remarks

    def text(self, one: Assignment) -> Text:
        try:
            return Text(specifiers.expand(one.value, self.scope), one.place)
        except (specifiers.UnknownError, specifiers.RefusedError) as error:
            return Text("", one.place, str(error))

    def unit(self, files: tuple[str, ...]) -> Unit:
        if len(self.execs) > 1 and self.texts.get("Type", Text()).value != "oneshot":
            about = "there is more than one ExecStart=, which only Type=oneshot may have: systemd"
            about += " refuses the unit; reset the first with an empty ExecStart="
            self.remarks.append(Remark(Kind.EXEC_SEVERAL, self.execs[-1].place, about))
        if not self.execs:
            place = Place(files[0] if files else self.scope.unit)
            about = "no ExecStart= is left: there is nothing to start"
            self.remarks.append(Remark(Kind.EXEC_MISSING, place, about))
        return Unit(
            name=self.scope.unit,
            files=files,
            settings=tuple(self.settings),
            env_files=tuple(self.files),
            passed=tuple(self.passed),
            removals=tuple(self.removals),
            execs=tuple(self.execs),
            texts=self.texts,
            remarks=tuple(self.remarks),
            sandbox=sandbox.of(self.confined, self.scope),
            groups=tuple(self.groups),
        )
