"""Why an interpreter does not come as far as its first imports: by trying without a variable."""

from __future__ import annotations

import dataclasses
from typing import Final

from envprobe.runner.started import Bounds
from envprobe.startup import interpreter
from envprobe.startup.result import Run
from envprobe.startup.types import Launch

_ANSWERS: Final = "import os, sys; os.write(int(sys.argv[1]), b'1')"
_NO_SITE: Final = ("-S",)
_OF_PYTHON: Final = (b"_frozen_importlib", b"Fatal Python error")
_MAX_TRIED: Final = 12


def found(launch: Launch, run: Run, stderr: bytes, bounds: Bounds) -> Run:
    """Return how a run ended, with the variable that stops it, or that the program is no Python.

    `stderr` is what it said when it was run with -v.
    """
    if not any(word in stderr for word in _OF_PYTHON):
        return dataclasses.replace(run, is_python=False)
    return dataclasses.replace(run, stopped_by=_variable(launch, bounds))


def _variable(launch: Launch, bounds: Bounds) -> str:
    """Return the one variable without which the interpreter starts, "" if there is none such."""
    names = [name for name in launch.environment if name.startswith("PYTHON")]
    if launch.ignores_variables or not names or not _starts(launch, bounds, "-E"):
        return ""
    for name in sorted(names)[:_MAX_TRIED]:
        environment = {key: value for key, value in launch.environment.items() if key != name}
        if _starts(dataclasses.replace(launch, environment=environment), bounds):
            return name
    return ""


def _starts(launch: Launch, bounds: Bounds, *options: str) -> bool:
    ended = interpreter.run(launch, _ANSWERS, bounds, options=(*options, *_NO_SITE))
    return bool(ended.answer)
