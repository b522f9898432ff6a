"""Whether the interpreter that a launch ends in is there, as far as that is seen from here."""

from __future__ import annotations

import dataclasses
import os
import posixpath
from collections.abc import Sequence

from envprobe.launch import sandbox
from envprobe.launch.sandbox import Property
from envprobe.launch.steps import Launch


def looked_for(launch: Launch, properties: Sequence[Property]) -> Launch:
    """Return a launch that says whether its interpreter is not there, as far as that is seen."""
    python = launch.python
    if python is None or launch.container is not None:
        return launch
    if "/" not in python.interpreter:
        return dataclasses.replace(launch, missing="on no PATH that is known here")
    path = posixpath.join(launch.cwd, python.interpreter)
    if not path.startswith("/"):
        return dataclasses.replace(launch, missing="in a directory that is not known")
    if launch.confined and sandbox.concerning(properties, path) is not None:
        return launch
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return dataclasses.replace(launch, missing="not on this machine")
    except OSError:
        pass
    return launch
