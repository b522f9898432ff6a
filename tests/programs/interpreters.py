"""The CPython interpreters of this machine that the tests run target programs with."""

from __future__ import annotations

import functools
import glob
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

OLDEST, NEWEST = (3, 9), (3, 15)
_NAME = re.compile(r"python3(\.\d+)?t?")
_QUESTION = (
    "import sys; "
    "print(sys.implementation.name, *sys.version_info[:2], sys.prefix == sys.base_prefix)"
)
_SECONDS = 20


class Interpreter(NamedTuple):
    """One interpreter: its real path and (major, minor)."""

    path: str
    version: tuple[int, int]

    def __str__(self) -> str:
        """Return the name that a parametrised test gets."""
        return f"{self.version[0]}.{self.version[1]}:{self.path}"


def _folders() -> Iterator[str]:
    """The places to look in; ENVPROBE_INTERPRETERS adds folders, or interpreters themselves."""
    for extra in os.environ.get("ENVPROBE_INTERPRETERS", "").split(":"):
        if extra:
            yield from (extra, f"{extra}/bin", *glob.glob(f"{glob.escape(extra)}/*/bin"))
    yield from filter(None, os.environ.get("PATH", "").split(":"))
    yield "/usr/bin"
    root = os.environ.get("PYENV_ROOT") or str(Path.home() / ".pyenv")
    yield from glob.glob(f"{glob.escape(root)}/versions/*/bin")


def _candidates() -> Iterator[str]:
    for place in _folders():
        if os.path.isfile(place):
            yield place
        paths = sorted(glob.glob(f"{glob.escape(place)}/python3*"))
        yield from (path for path in paths if _NAME.fullmatch(os.path.basename(path)))


def _ask(path: str) -> tuple[int, int] | None:
    """Return the version of a CPython that is no virtual environment, else None."""
    try:
        done = subprocess.run(
            [path, "-I", "-S", "-c", _QUESTION], capture_output=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    name, *version = done.stdout.decode("ascii", "replace").split() or [""]
    if name != "cpython" or version[2:] != ["True"]:
        return None
    return int(version[0]), int(version[1])


@functools.cache
def found() -> list[Interpreter]:
    """Return CPython 3.9 to 3.15 of this machine, oldest first, each real file once."""
    interpreters = []
    seen: set[str] = set()
    for candidate in _candidates():
        real = os.path.realpath(candidate)
        if real in seen or not os.access(real, os.X_OK) or _is_script(real):
            continue
        seen.add(real)
        version = _ask(real)
        if version and OLDEST <= version <= NEWEST:
            interpreters.append(Interpreter(real, version))
    return sorted(interpreters, key=lambda interpreter: (interpreter.version, interpreter.path))


def _is_script(path: str) -> bool:
    """Whether it is a shim: a wrapper script around some other interpreter."""
    try:
        with open(path, "rb") as file:
            return file.read(4) != b"\x7fELF"
    except OSError:
        return True
