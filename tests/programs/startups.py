"""Starts of real interpreters with hooks of a test's own, and what envprobe finds about them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import shutil
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envprobe.startup.examine import Questions, examine
from envprobe.startup.result import Hook, Startup
from envprobe.startup.types import Launch
from tests.programs import interpreters
from tests.programs.pytarget import sid_tree

_OF_SID = ((3, 14), (3, 15))


@dataclasses.dataclass(frozen=True)
class Python:
    """An interpreter; `tree` is the root directory it lives in, None for this machine's."""

    path: str
    version: tuple[int, int]
    tree: Path | None = None

    def __str__(self) -> str:
        """Return the name that a parametrised test gets."""
        return f"{self.version[0]}.{self.version[1]}:{'sid:' if self.tree else ''}{self.path}"


@functools.cache
def pythons() -> list[Python]:
    """Return the interpreters of this machine, and 3.14 and 3.15 of Debian sid if they can be."""
    found = [Python(*one) for one in interpreters.found()]
    have = {one.version for one in found}
    wanted = [version for version in _OF_SID if version not in have]
    tree = sid_tree() if wanted and os.geteuid() == 0 and shutil.which("debootstrap") else None
    if tree is not None:
        found += [Python(f"/usr/bin/python3.{minor}", (3, minor), tree) for _, minor in wanted]
    return found


class Place:
    """A directory of its own for one interpreter: `path` as the interpreter sees it."""

    def __init__(self, python: Python, folder: Path) -> None:
        self.python = python
        self._folder = folder
        root = str(python.tree) if python.tree is not None else ""
        self.path = str(folder).removeprefix(root)

    def write(self, name: str, text: str | bytes = "") -> str:
        """Write a file, with its directories, and return its path as the interpreter sees it."""
        place = self._folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode())
        return f"{self.path}/{name}"

    def outside(self, name: str) -> Path:
        """Return the path of a file as this test sees it."""
        return self._folder / name

    def examine(
        self,
        *flags: str,
        python_path: str | None = None,
        cwd: str | None = None,
        environment: dict[str, str] | None = None,
        questions: Questions | None = None,
        python: str | None = None,
    ) -> Startup:
        """Examine a start in this place; without `questions` neither children nor the cost."""
        given = {"HOME": self.path, **(environment or {})}
        if python_path is not None:
            given["PYTHONPATH"] = python_path
        with contextlib.ExitStack() as stack:
            root = None
            if self.python.tree is not None:
                root = os.open(self.python.tree, os.O_PATH | os.O_DIRECTORY)
                stack.callback(os.close, root)
            launch = Launch(
                python or self.python.path, given, flags, cwd=cwd or self.path, root=root
            )
            return examine(launch, questions or quick())

    def sitecustomize(self, **how: Any) -> Hook:
        """Examine a start and return what became of sitecustomize."""
        return self.examine(**how).hook("sitecustomize")


@contextlib.contextmanager
def place(python: Python) -> Iterator[Place]:
    """Yield a new directory in the interpreter's root, and remove it."""
    parent = (python.tree / "tmp") if python.tree is not None else Path(tempfile.gettempdir())
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        yield Place(python, Path(folder).resolve())


def quick(**more: Any) -> Questions:
    """Return questions that start no children and measure nothing, unless asked to."""
    return Questions(**{"methods": (), "cost_runs": 0, "seconds": 30.0, **more})
