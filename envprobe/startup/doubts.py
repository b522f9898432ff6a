"""What an answer about a declared start hangs on and could not be told or reproduced here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from envprobe.launch import sandbox
from envprobe.startup.declared import Start
from envprobe.startup.result import Startup
from envprobe.startup.types import SITECUSTOMIZE, Walk

_OF_USER_SITE = ("HOME", "PYTHONUSERBASE")


def undecided(start: Start, startup: Startup) -> Mapping[str, str]:
    """Return the variables that decide which hooks run and are not known, each with the reason.

    Those that decide the user site do not count where the interpreter takes none.
    """
    walk = startup.walk
    without = walk is not None and walk.user_site_enabled is False
    return {
        name: reason
        for name, reason in start.undecided.items()
        if not (without and name in _OF_USER_SITE)
    }


def unseen(start: Start, startup: Startup) -> dict[sandbox.Property, tuple[str, ...]]:
    """Return the paths that decide which hooks run and that the unit sees otherwise than envprobe.

    They are mapped from the property of the unit that is the cause.
    """
    found: dict[sandbox.Property, list[str]] = {}
    for path in dict.fromkeys(_deciding(startup)):
        for one in dict.fromkeys((path, os.path.realpath(path))):
            by = sandbox.concerning(start.sandbox, one)
            if by is not None:
                found.setdefault(by, []).append(path)
                break
    return {by: tuple(paths) for by, paths in found.items()}


def _deciding(startup: Startup) -> Iterator[str]:
    yield startup.launch.python
    walk = startup.walk
    for hook in startup.hooks:
        yield from filter(None, (hook.path, *hook.files, *hook.chained))
    if walk is None:
        return
    yield walk.prefix
    yield walk.stdlib
    yield from walk.site_directories
    yield from _entries(walk)
    yield from (one.file.path for one in walk.files)
    if walk.wanted is not None:
        yield walk.wanted.path


def _entries(walk: Walk) -> Iterator[str]:
    """Yield the entries of sys.path up to the one that sitecustomize is found in."""
    winner = walk.winner(SITECUSTOMIZE)
    last = winner.entry if winner is not None else None
    for number, entry in enumerate(walk.entries):
        yield entry.path
        if number == last:
            return
