"""What can go wrong while objects are read; each turns into a state of an answer."""

from __future__ import annotations

from typing import Final

CALIBRATE: Final = (
    "Let envprobe measure this build: `envprobe inspect --calibrate` runs the interpreter of the "
    "process once more, with the rights of the process, for that."
)


class CannotAttach(Exception):  # noqa: N818 - an outcome of looking, not a fault of the run
    """No interpreter can be read in this process: why, and what to do about it."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


class NoPython(CannotAttach):
    """No CPython is found in the process's memory."""


class UnknownBuild(CannotAttach):
    """A CPython is there, but no known layout fits what its memory holds."""


class NotRunning(CannotAttach):
    """The interpreter has not started yet, or is shutting down."""


class Unreadable(Exception):  # noqa: N818 - an outcome of looking, not a fault of the run
    """An object cannot be decoded, for a lasting reason."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


class Torn(Exception):  # noqa: N818 - an outcome of looking, not a fault of the run
    """What was read does not fit together: the process changed it meanwhile, or it is damaged."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
