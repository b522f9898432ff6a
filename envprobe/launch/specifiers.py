"""The `%` specifiers of a unit (systemd.unit(5), "SPECIFIERS"), resolved without a manager.

Measured with systemd 252: where a letter or digit is no specifier, or one cannot be resolved, the
whole word is dropped; `%` before anything else stays.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import posixpath
import pwd
import re
from collections.abc import Mapping
from typing import Final

_SPECIFIER: Final = re.compile(r"%(.)", re.DOTALL)
KNOWN: Final = "aAbBcCdDEfgGhHiIjJlLmMnNopPqrRsStTuUvVwWyY"
_SINCE: Final = {"D": 256}
"""Specifiers of later versions than 252, by the first version that has them."""

_NAMES: Final = "nNpPiIjJf"
_MACHINE: Final = {"m": "/etc/machine-id", "b": "/proc/sys/kernel/random/boot_id"}
_ESCAPED: Final = re.compile(r"\\x([0-9a-fA-F]{2})")
_RELEASE: Final = {
    "o": "ID",
    "w": "VERSION_ID",
    "W": "VARIANT_ID",
    "B": "BUILD_ID",
    "M": "IMAGE_ID",
    "A": "IMAGE_VERSION",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """For whom units are read: a unit's name and path, the manager's user, systemd's version.

    `home` and the rest of `directories` are what a manager uses for %h, %t, %S, ...; None marks
    what is not known. `here` says that the unit will run on this machine.
    """

    unit: str
    path: str = ""
    user_manager: bool = False
    uid: int | None = 0
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    version: int | None = None
    here: bool = True


class UnknownError(Exception):
    """A specifier's value cannot be told from here."""


class RefusedError(Exception):
    """systemd does not resolve it either: the word is dropped."""


def expand(text: str, scope: Scope) -> str:
    """Return the text with its specifiers resolved; UnknownError, RefusedError."""

    def resolved(match: re.Match[str]) -> str:
        letter = match[1]
        if letter == "%":
            return "%"
        if not (letter.isascii() and letter.isalnum()):
            return match[0]
        return resolve(letter, scope)

    return _SPECIFIER.sub(resolved, text)


def used(text: str) -> list[str]:
    """Return the specifiers in a text, such as `%h`, each once; `%%` is none."""
    found = [one[0] for one in _SPECIFIER.finditer(text) if one[1].isascii() and one[1].isalnum()]
    return list(dict.fromkeys(found))


def resolve(letter: str, scope: Scope) -> str:
    """Return what one specifier stands for; UnknownError, RefusedError."""
    _check(letter, scope)
    if letter in _NAMES:
        return _of_name(letter, scope)
    if letter in "yY":
        if not scope.path:
            raise UnknownError(f"where the unit will be installed decides %{letter}")
        return scope.path if letter == "y" else posixpath.dirname(scope.path)
    if letter in "crRd":
        raise UnknownError(f"%{letter} is known to the manager only")
    if letter in "CELSTVtD":
        return _directory(letter, scope)
    if letter in "uUgGhs":
        return _of_user(letter, scope)
    if not scope.here:
        raise UnknownError(f"%{letter} depends on the machine")
    return _of_machine(letter)


def _check(letter: str, scope: Scope) -> None:
    if letter not in KNOWN:
        raise RefusedError(f"%{letter} is no specifier")
    since = _SINCE.get(letter, 0)
    if since and scope.version is None:
        raise UnknownError(f"%{letter} is a specifier since systemd {since} only")
    if since and scope.version is not None and scope.version < since:
        raise RefusedError(f"%{letter} is a specifier since systemd {since} only")


def _of_name(letter: str, scope: Scope) -> str:
    stem, _, _ = scope.unit.rpartition(".")
    prefix, at, instance = stem.partition("@")
    last = prefix.rpartition("-")[2]
    if at and not instance and letter in "nNiIf":
        raise UnknownError(f"the unit is a template, and %{letter} depends on the instance")
    plain = {"n": scope.unit, "N": stem, "p": prefix, "i": instance, "j": last}
    if letter in plain:
        return plain[letter]
    if letter == "f":
        return "/" + _unescaped(instance if at else prefix).lstrip("/")
    return _unescaped({"P": prefix, "I": instance, "J": last}[letter])


def _unescaped(text: str) -> str:
    raw = _ESCAPED.sub(lambda one: chr(int(one[1], 16)), text.replace("-", "/"))
    return raw.encode("latin-1", "replace").decode("utf-8", "surrogateescape")


_SYSTEM: Final = {
    "t": "/run",
    "S": "/var/lib",
    "C": "/var/cache",
    "L": "/var/log",
    "E": "/etc",
    "T": "/tmp",
    "V": "/var/tmp",
    "D": "/usr/share",
}


def _directory(letter: str, scope: Scope) -> str:
    if letter in "TV":
        if scope.user_manager:
            given = (scope.variables.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
            return next((one for one in given if one), _SYSTEM[letter])
        return _SYSTEM[letter]
    if not scope.user_manager:
        return _SYSTEM[letter]
    if letter == "t":
        found = scope.variables.get("XDG_RUNTIME_DIR", "")
        if not found:
            raise UnknownError("%t is the manager's XDG_RUNTIME_DIR")
        return found
    return _of_home(letter, scope)


def _of_home(letter: str, scope: Scope) -> str:
    """Return a directory below the home of the manager's user; 254 moved state and logs."""
    old = scope.version is not None and scope.version < 254
    if letter in "SL" and scope.version is None:
        raise UnknownError(f"%{letter} of a user's manager depends on the version of systemd")
    state = ("XDG_CONFIG_HOME", ".config") if old else ("XDG_STATE_HOME", ".local/state")
    places = {
        "E": ("XDG_CONFIG_HOME", ".config"),
        "C": ("XDG_CACHE_HOME", ".cache"),
        "D": ("XDG_DATA_HOME", ".local/share"),
        "S": state,
        "L": state,
    }
    name, below = places[letter]
    base = scope.variables.get(name) or posixpath.join(_of_user("h", scope), below)
    return posixpath.join(base, "log") if letter == "L" else base


def _of_user(letter: str, scope: Scope) -> str:
    uid = scope.uid if scope.user_manager else 0
    if uid is None:
        raise UnknownError(f"%{letter} depends on the manager's user")
    if letter == "U":
        return str(uid)
    if letter == "h" and scope.user_manager and scope.variables.get("HOME"):
        return scope.variables["HOME"]
    if letter == "s" and scope.user_manager and scope.variables.get("SHELL"):
        return scope.variables["SHELL"]
    try:
        entry = pwd.getpwuid(uid)
        if letter in "gG":
            return str(entry.pw_gid) if letter == "G" else _group(entry.pw_gid)
        return {"u": entry.pw_name, "h": entry.pw_dir, "s": entry.pw_shell}[letter]
    except KeyError:
        raise UnknownError(f"%{letter}: user {uid} is not known on this machine") from None


def _group(gid: int) -> str:
    import grp

    return grp.getgrgid(gid).gr_name


def _of_machine(letter: str) -> str:
    if letter in _MACHINE:
        try:
            with open(_MACHINE[letter], encoding="ascii") as file:
                return file.read().strip().replace("-", "")
        except OSError:
            raise UnknownError(f"%{letter} cannot be read here") from None
    if letter in _RELEASE:
        return _os_release().get(_RELEASE[letter], "")
    name = os.uname()
    host = name.nodename
    if letter == "q":
        return _pretty_host(host)
    architecture = {"x86_64": "x86-64", "aarch64": "arm64"}.get(name.machine, name.machine)
    found = {"H": host, "l": host.split(".")[0], "v": name.release, "a": architecture}
    return found[letter]


@functools.cache
def _os_release() -> dict[str, str]:
    import platform

    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}


def _pretty_host(host: str) -> str:
    from envprobe.launch import envfile

    try:
        with open("/etc/machine-info", "rb") as file:
            lines = envfile.parse("/etc/machine-info", file.read()).lines
    except OSError:
        return host
    for line in lines:
        if line.name == "PRETTY_HOSTNAME":
            return os.fsdecode(line.value.reveal())
    return host
