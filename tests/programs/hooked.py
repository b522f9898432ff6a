"""A made-up engine, replacements for parts of it, and programs that run under a written hook."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import textwrap
from typing import Any

from envprobe import inithook
from tests.programs.startups import Place

SECONDS = 180  # the import of SGLang's backend takes 30 on two busy cores
ENGINE = """
    import sys


    class Counting(type):
        def __setattr__(cls, name, value):
            sys.replaced = getattr(sys, "replaced", 0) + 1
            super().__setattr__(name, value)


    class Base:
        def inherited(self):
            return "original"


    class Backend(Base, metaclass=Counting):
        def forward(self):
            return "original"

        @staticmethod
        def static(one):
            return "original"

        @classmethod
        def klass(cls, one):
            return "original"


    def function():
        return "original"


    import serving.helper

    during = Backend().forward()
"""
KERNELS = """
    import sys

    sys.kernels = getattr(sys, "kernels", 0) + 1


    def forward(self):
        return "patched"


    inherited = forward


    def static(one):
        return "patched " + one


    def klass(cls, one):
        return "patched " + cls.__name__ + one


    def function():
        return "patched"
"""
FORWARD = "serving.engine:Backend.forward=kernels:forward"
"""The patch that most tests use."""


@dataclasses.dataclass(frozen=True)
class Ran:
    """What one run of an interpreter has said."""

    code: int
    stdout: str
    stderr: str

    @property
    def said(self) -> Any:
        """The JSON that the program printed, which must be all that was printed."""
        assert (self.code, self.stderr) == (0, ""), self
        return json.loads(self.stdout)


def prepare(place: Place, *patches: str, directory: str = "hooks", name: str | None = None) -> str:
    """Write engine, replacements and the hook; return the value of PYTHONPATH."""
    place.write("app/serving/__init__.py")
    place.write("app/serving/helper.py")
    place.write("app/serving/engine.py", ENGINE)
    place.write("app/kernels.py", KERNELS)
    parsed = tuple(map(inithook.parse_patch, patches))
    inithook.write(inithook.Request(str(place.outside(directory)), parsed, name))
    return f"{place.path}/{directory}:{place.path}/app"


def run(
    place: Place, program: str, path: str | None, *flags: str, python: str = "", **env: str
) -> Ran:
    """Run `python FLAGS -c PROGRAM` to its end in a place, with this PYTHONPATH."""
    path_variable = {} if path is None else {"PYTHONPATH": path}
    command = [python or place.python.path]
    if place.python.tree is not None:
        command = ["chroot", str(place.python.tree), *command]
    done = subprocess.run(
        [*command, *flags, "-c", textwrap.dedent(program)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", **path_variable, **env},
        cwd="/",
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
