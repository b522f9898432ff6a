"""Where the payload of a rehearsal lies: a directory that its user can read, and nobody else write.

It must be a file with a path: multiprocessing reads the main module anew in each spawned child.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import shutil
import stat
import tempfile
from collections.abc import Iterator
from typing import Final

from envprobe.errors import UndeterminedError
from envprobe.startup import interpreter

_FILES: Final = (
    *("rehearse_tree", "rehearse_member", "rehearse_enter"),
    *("startup_probe", "startup_reach"),
)
_READABLE: Final = 0o444
_EXECUTABLE: Final = 0o555
_ENTERED: Final = 0o755


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """The directory; `tree` is the program of the first process, `shell` the script or ""."""

    folder: str
    tree: str
    shell: str = ""


@contextlib.contextmanager
def placed(python: str, *, shell: bool, for_others: bool) -> Iterator[Place]:
    """Write the payload, with `shell` also a script that execs `python`; removed afterwards.

    `for_others`: other users must be able to get there. Raises UndeterminedError if there is no
    directory for it.
    """
    try:
        folder = tempfile.mkdtemp(prefix="envprobe-", dir=_parent() if for_others else None)
    except OSError as error:
        raise UndeterminedError(
            f"there is no directory for the rehearsal's own files: {error.strerror}",
            "Name one that can be written with TMPDIR.",
        ) from None
    try:
        for name in _FILES:
            _write(f"{folder}/{name}.py", interpreter.payload(name), _READABLE)
        script = ""
        if shell:
            script = f"{folder}/hop.sh"
            _write(script, f'#!/bin/sh\nexec {shlex.quote(python)} "$@"\n', _EXECUTABLE)
        os.chmod(folder, _ENTERED)
        yield Place(folder, f"{folder}/rehearse_tree.py", script)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _parent() -> str | None:
    """Return a directory for temporary files that every user may enter, None if none is known."""
    known = (tempfile.gettempdir(), "/tmp", "/var/tmp")
    return next((one for one in known if _is_open(one)), None)


def _is_open(path: str) -> bool:
    """Return whether every user may enter a directory and all above it."""
    while True:
        try:
            if not os.stat(path).st_mode & stat.S_IXOTH:
                return False
        except OSError:
            return False
        if path == "/":
            return True
        path = os.path.dirname(os.path.abspath(path))


def _write(path: str, text: str, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        os.fchmod(descriptor, mode)
