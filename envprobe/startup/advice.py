"""What makes a hook run in an interpreter: the ways that are open for this very launch."""

from __future__ import annotations

import dataclasses
import enum
import posixpath
from collections.abc import Iterator

from envprobe.startup.types import Launch, Origin, Walk

_BETTER_NAME = "site_hook"


class Way(str, enum.Enum):
    """How a hook can be made to run."""

    PYTHONPATH = "pythonpath"
    STARTUP_FILE = "startup-file"
    CHAIN = "chain"


@dataclasses.dataclass(frozen=True, slots=True)
class Mend:
    """One way, in a sentence that names the paths."""

    way: Way
    text: str


def mends(walk: Walk, launch: Launch, hook: str) -> tuple[Mend, ...]:
    """Return the ways in which the shadowed file `hook` can be made to run, the shortest first.

    -S leaves none; -E and -I leave only startup files, as PYTHONPATH does not count.
    """
    return () if launch.has_flag("S") else tuple(_mends(walk, launch, hook))


def _mends(walk: Walk, launch: Launch, hook: str) -> Iterator[Mend]:
    folder = folder_of(hook)
    if not launch.ignores_variables:
        yield Mend(
            Way.PYTHONPATH,
            f"put its directory first: Environment=PYTHONPATH={_python_path(folder, launch)} in the"
            " unit, or the same exported before the command; it then runs instead of the winner",
        )
    if (place := _site_directory(walk)) is not None:
        yield Mend(Way.STARTUP_FILE, _startup_file(walk, place))
    if not launch.ignores_variables:
        yield Mend(
            Way.CHAIN,
            "`envprobe init-hook DIR --patch TARGET=REPLACEMENT` writes a sitecustomize.py that"
            " runs the one that it hides and patches when a module is first imported; with DIR"
            " first on PYTHONPATH both run",
        )


def folder_of(hook: str) -> str:
    """Return the directory that must be on sys.path for a hook to be found."""
    folder = posixpath.dirname(hook)
    # Of a package it is the directory that holds it.
    return posixpath.dirname(folder) if posixpath.basename(hook).startswith("__init__.") else folder


def _python_path(folder: str, launch: Launch) -> str:
    before = [one for one in (launch.python_path or "").split(":") if one and one != folder]
    return ":".join([folder, *before])


def _site_directory(walk: Walk) -> str | None:
    """Return the site-packages directory whose startup files are read first."""
    on_path = {entry.path for entry in walk.entries if entry.origin is Origin.SITE}
    return next((one for one in walk.site_directories if one in on_path), None)


def _startup_file(walk: Walk, place: str) -> str:
    line = _line(walk, _BETTER_NAME)
    return (
        f"give it a name of its own, such as {_BETTER_NAME}.py, in {place}, and put a file {line}"
        " beside it: each site-packages directory may have any number of these, and all run;"
        f" --expect-winner {place}/{_BETTER_NAME}.py confirms it"
    )


def importing(walk: Walk, hook: str) -> Iterator[str]:
    """Yield the way in which a hook under a name of its own can be made to run, if there is one."""
    place = _site_directory(walk)
    folder, name = folder_of(hook), posixpath.basename(hook).partition(".")[0]
    if place is not None:
        near = "" if folder == place else f"move it to {place} and "
        yield f"{near}put a file {_line(walk, name)} in {place}"


def _line(walk: Walk, module: str) -> str:
    if walk.version >= (3, 15):
        return f"{module}.start with the line `{module}:main`"
    return f"{module}.pth with the line `import {module}`"
