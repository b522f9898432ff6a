"""From a unit to what it hands over: all sources in their order, files read."""

from __future__ import annotations

import glob
import os
import pwd
from collections.abc import Callable, Mapping
from typing import Final

from envprobe import inputfile
from envprobe.errors import UsageError
from envprobe.launch import envfile
from envprobe.launch.declared import Builder, Declared, setting
from envprobe.launch.types import Kind, Remark, Setting, Source
from envprobe.launch.unit import FileSource, Unit
from envprobe.model import Confidence
from envprobe.values import Value

_MAGIC: Final = "*?["
FROM_FILE_ONLY: Final = "what the manager itself hands over is not known from files"
_PAM: Final = "PAM modules may add and change variables"

Read = Callable[[str], bytes]


def read_file(path: str) -> bytes:
    """Return an environment file's bytes; OSError where it cannot be read, with a reason."""
    try:
        return inputfile.read(path, envfile.MAX_BYTES, remedy="")
    except UsageError as error:
        raise PermissionError(None, error.message) from None


def declare(
    unit: Unit,
    manager: Mapping[str, str] | None,
    *,
    version: int | None = None,
    read: Read = read_file,
    source: str = "",
    at: float | None = None,
) -> tuple[Declared, tuple[Remark, ...]]:
    """Return what a unit hands over, and what its environment files hold that is odd.

    `manager` is the manager's own environment block, None where no manager was asked. `version` is
    that of systemd, which decides what a comment with a backslash at its end does.
    """
    builder = Builder()
    remarks: list[Remark] = []
    for name, text in (manager or {}).items():
        builder.set(setting(name, text, Source.MANAGER))
    _of_user(unit, builder)
    _pass_on(unit, manager, builder, remarks)
    search = unit.texts.get("ExecSearchPath")
    if search is not None and search.value:
        builder.set(setting("PATH", search.value, Source.SYSTEMD, search.place))
    for one in unit.settings:
        builder.set(one)
    reasons = [FROM_FILE_ONLY] if manager is None else []
    for file in unit.env_files:
        reasons += _take_file(file, builder, remarks, version, read)
    if unit.text("PAMName"):
        reasons.append(_PAM)
        builder.doubt(_PAM)
    for removal in unit.removals:
        builder.remove(removal.name, removal.place, removal.value)
    return builder.made(open="; ".join(reasons), source=source, at=at), tuple(remarks)


def _pass_on(
    unit: Unit, manager: Mapping[str, str] | None, builder: Builder, remarks: list[Remark]
) -> None:
    """Set what PassEnvironment= takes from the manager."""
    for name, place in unit.passed:
        text = None if manager is None else manager.get(name)
        if text is not None:
            builder.set(setting(name, text, Source.PASSED, place))
        elif manager is None:
            reason = "its value is that of the manager, which was not asked"
            builder.set(Setting(name, None, Source.PASSED, place, reason))
        else:
            about = "the manager has no such variable: nothing is passed on"
            remarks.append(Remark(Kind.PASSED_UNSET, place, about, name))


def _of_user(unit: Unit, builder: Builder) -> None:
    """Set what systemd sets for User=: HOME, LOGNAME, USER and SHELL."""
    user = unit.texts.get("User")
    if user is None or not user.value:
        reason = "the user is made when the unit is started"
        for made in (one for one in unit.sandbox if one.key == "DynamicUser"):
            for name in ("USER", "LOGNAME"):
                builder.set(Setting(name, None, Source.SYSTEMD, made.place, reason))
        return
    try:
        entry = (
            pwd.getpwuid(int(user.value)) if user.value.isdecimal() else pwd.getpwnam(user.value)
        )
        known = {"HOME": entry.pw_dir, "LOGNAME": entry.pw_name, "USER": entry.pw_name}
        known["SHELL"] = entry.pw_shell
    except KeyError:
        known = {}
    for name in ("HOME", "LOGNAME", "USER", "SHELL"):
        value = Value(os.fsencode(known[name])) if name in known else None
        reason = "" if name in known else "the user is not known on this machine"
        builder.set(Setting(name, value, Source.SYSTEMD, user.place, reason, Confidence.INFERRED))


def _take_file(
    file: FileSource, builder: Builder, remarks: list[Remark], version: int | None, read: Read
) -> list[str]:
    """Let an environment file's lines count; return why other names may be set by it."""
    if file.unknown:
        reason = f"which file {file.place} names is not known: {file.unknown}"
        builder.doubt(reason)
        remarks.append(Remark(Kind.FILE_UNREADABLE, file.place, reason))
        return [reason]
    doubts = []
    paths = sorted(glob.glob(file.path)) if set(file.path) & set(_MAGIC) else [file.path]
    if not paths:
        remarks.append(_missing(file, file.path))
    for path in paths:
        try:
            parsed = envfile.parse(path, read(path), version)
        except (FileNotFoundError, NotADirectoryError):
            remarks.append(_missing(file, path))
            continue
        except OSError as error:
            why = error.strerror or "for no reason that is known"
            why = why.removeprefix(f"{path} ").removeprefix("cannot be read: ")
            reason = f"{path} cannot be read here: {why}"
            builder.doubt(reason)
            remarks.append(Remark(Kind.FILE_UNREADABLE, file.place, reason))
            doubts.append(reason)
            continue
        remarks += parsed.remarks
        if parsed.refused:
            told = "is passed over" if file.optional else "makes the start fail"
            about = f"{path} {told}: {parsed.refused}"
            remarks.append(Remark(Kind.FILE_REFUSED, file.place, about))
            continue
        for line in parsed.lines:
            builder.set(Setting(line.name, line.value, Source.FILE, line.place))
        if parsed.unsure:
            builder.doubt(parsed.unsure, [line.name for line in parsed.lines])
            doubts.append(parsed.unsure)
    return doubts


def _missing(file: FileSource, path: str) -> Remark:
    if file.optional:
        about = f"{path} does not exist, which its `-` allows: nothing comes from it"
        return Remark(Kind.FILE_OPTIONAL, file.place, about)
    about = f"{path} does not exist: the unit cannot be started"
    return Remark(Kind.FILE_MISSING, file.place, about)
