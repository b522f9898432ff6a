"""Which frame of a traceback is the user's own."""

from __future__ import annotations

import re
from typing import Final

from envprobe.triage.facts import Frame, Raised

_PACKAGES: Final = re.compile(r"/(?:site|dist)-packages/")
_STANDARD: Final = re.compile(r"/lib(?:64)?/python\d[\d.]*t?/|python\d+\.zip/")

_PROGRAM: Final = re.compile(r"/bin/[^/.]+$")


def is_own(frame: Frame) -> bool:
    """Return whether a frame is of code that is neither Python's nor installed.

    A program without a suffix in a `bin`, such as `vllm` or `torchrun`, is what pip made.
    """
    return not any(one.search(frame.file) for one in (_PACKAGES, _STANDARD, _PROGRAM))


def place(raised: Raised, *, outermost: bool = False) -> Frame | None:
    """Return the innermost or outermost frame of code that is neither Python's nor installed.

    Where there is none it is the innermost one of an installed package, else of any file. None
    where the lines of several tracebacks are mixed, or there are no frames.
    """
    if raised.mixed:
        return None
    files = [one for one in raised.frames if not one.file.startswith("<")]
    foreign = [one for one in files if _PACKAGES.search(one.file)]
    own = list(filter(is_own, files))
    if own:
        return own[0] if outermost else own[-1]
    return next((found[-1] for found in (foreign, files) if found), None)
