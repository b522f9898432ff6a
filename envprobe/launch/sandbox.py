"""What a unit changes of the file system for what it starts (systemd.exec(5), "SANDBOXING").

Only what decides which files are seen is read. What systemd ignores, such as a value that is no
boolean, is not in force.
"""

from __future__ import annotations

import dataclasses
import enum
import posixpath
from collections.abc import Iterable, Iterator
from typing import Final

from envprobe.launch import specifiers, words
from envprobe.launch.specifiers import Scope
from envprobe.launch.types import Place
from envprobe.launch.unitfile import Assignment

_TRUE: Final = ("1", "yes", "y", "true", "t", "on")
_FALSE: Final = ("0", "no", "n", "false", "f", "off")
_HOMES: Final = ("/home", "/root", "/run/user")
_TEMPORARY: Final = ("/tmp", "/var/tmp")
_SWITCHES: Final = ("ProtectHome", "PrivateTmp", "PrivateMounts", "ProtectSystem", "DynamicUser")
_ROOTS: Final = ("RootDirectory", "RootImage")
_BINDS: Final = ("BindPaths", "BindReadOnlyPaths")
_PATHS: Final = ("InaccessiblePaths", "TemporaryFileSystem")
_LAYERS: Final = ("MountImages", "ExtensionImages", "ExtensionDirectories")
KEYS: Final = (*_SWITCHES, *_ROOTS, *_BINDS, *_PATHS, *_LAYERS)
"""The keys of [Service] that are read here."""


class Sees(str, enum.Enum):
    """What is seen at the paths that a property names: what is there here, or something else."""

    SAME = "same"
    OTHER = "other"


@dataclasses.dataclass(frozen=True, slots=True)
class Property:
    """One property in force: its text as written, the paths it concerns, and what is seen there.

    `text` is one word of a list. `unknown` says why it cannot be told what it means; it then
    concerns every path.
    """

    key: str
    text: str
    place: Place
    paths: tuple[str, ...] = ()
    sees: Sees = Sees.OTHER
    unknown: str = ""

    def __str__(self) -> str:
        return f"{self.key}={self.text}"


def concerning(properties: Iterable[Property], path: str) -> Property | None:
    """Return the property that decides what is seen at an absolute path, None if it is as here.

    The innermost counts: a path that is bound to itself below one that is hidden is as it is here.
    """
    best: tuple[int, bool] = (0, False)
    found = None
    for one in properties:
        for parent in one.paths:
            if not _is_below(path, parent):
                continue
            rank = (len(parent.rstrip("/")) + 1, one.sees is Sees.OTHER)
            if rank > best:
                best, found = rank, one
    return found if found is not None and found.sees is Sees.OTHER else None


def _is_below(path: str, parent: str) -> bool:
    return parent == "/" or path == parent or path.startswith(parent.rstrip("/") + "/")


def of(assignments: Iterable[Assignment], scope: Scope) -> tuple[Property, ...]:
    """Return the properties in force, from all assignments of `KEYS` in their order."""
    single: dict[str, Property | None] = {}
    listed: list[Property] = []
    for one in assignments:
        if one.key in _SWITCHES:
            found = _switch(one)
            if found is not None:
                single[one.key] = found
        elif one.key in _ROOTS:
            single[one.key] = _root(one, scope) if one.value else None
        elif not one.value:
            # One empty line of either empties the list that both fill (systemd.exec(5)).
            reset = _BINDS if one.key in _BINDS else (one.key,)
            listed = [each for each in listed if each.key not in reset]
        else:
            listed += _words(one, scope)
    kept = [one for one in single.values() if one is not None and one.text not in _FALSE]
    return (*kept, *listed)


def _switch(one: Assignment) -> Property | None:
    """Return what a boolean or one of its other words does; None where systemd ignores the line."""
    value = one.value.lower()
    if value in _FALSE:
        return Property(one.key, _FALSE[0], one.place)
    modes: dict[str, tuple[tuple[str, ...], dict[str, Sees]]] = {
        "ProtectHome": (_HOMES, {"read-only": Sees.SAME, "tmpfs": Sees.OTHER}),
        "PrivateTmp": (_TEMPORARY, {"disconnected": Sees.OTHER}),
        "ProtectSystem": (("/usr", "/boot", "/efi"), {"full": Sees.SAME, "strict": Sees.SAME}),
        "PrivateMounts": ((), {}),
        # It implies PrivateTmp=, and makes what it protects read-only.
        "DynamicUser": (_TEMPORARY, {}),
    }
    paths, more = modes[one.key]
    if value in _TRUE:
        same = one.key in ("ProtectSystem", "PrivateMounts")
        return Property(one.key, one.value, one.place, paths, Sees.SAME if same else Sees.OTHER)
    if value in more:
        return Property(one.key, one.value, one.place, paths, more[value])
    return None


def _root(one: Assignment, scope: Scope) -> Property | None:
    text = one.value.removeprefix("-")
    try:
        text = specifiers.expand(text, scope)
    except specifiers.UnknownError as unknown:
        return Property(one.key, one.value, one.place, ("/",), unknown=str(unknown))
    except specifiers.RefusedError:
        return None
    sees = Sees.SAME if posixpath.normpath(text) == "/" else Sees.OTHER
    return Property(one.key, one.value, one.place, ("/",), sees)


def _words(one: Assignment, scope: Scope) -> Iterator[Property]:
    if one.key == "ExtensionImages":
        yield Property(one.key, one.value, one.place, ("/usr", "/opt"))
        return
    for word in words.split(one.value).words:
        try:
            text = specifiers.expand(word.text, scope)
        except specifiers.UnknownError as unknown:
            yield Property(one.key, word.text, one.place, ("/",), unknown=str(unknown))
            continue
        except specifiers.RefusedError:
            continue
        path, sees = _path(one.key, text)
        if path:
            yield Property(one.key, text, one.place, path, sees)


def _path(key: str, text: str) -> tuple[tuple[str, ...], Sees]:
    """Return the paths that one word of a list changes, and what is seen there; () for none."""
    if key == "ExtensionDirectories":
        return ("/usr", "/opt"), Sees.OTHER
    parts = [part.replace("\0", ":") for part in text.replace("\\:", "\0").split(":")]
    source = parts[0].lstrip("-+")
    where = source
    if key in (*_BINDS, "MountImages") and len(parts) > 1 and parts[1]:
        where = parts[1]
    if not where.startswith("/"):
        return (), Sees.SAME
    same = key in _BINDS and posixpath.normpath(source) == posixpath.normpath(where)
    return (posixpath.normpath(where),), Sees.SAME if same else Sees.OTHER
