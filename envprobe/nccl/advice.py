"""What can be said of a process whose NCCL has no log: what it would read, and how to get one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Final

from envprobe.nccl import params, silence
from envprobe.nccl.params import Version

_BOOTSTRAP: Final = (2, 23, 4)
"""From here on BOOTSTRAP is in the default of NCCL_DEBUG_SUBSYS, and shows variables too."""

_STAMPS: Final = (2, 26, 2)


@dataclasses.dataclass(frozen=True, slots=True)
class Unread:
    """A name that this version of NCCL does not read: why, and what may be meant."""

    name: str
    reason: str
    suggestions: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Advice:
    """Which of the variables that are set one version would read, and what to set to see it.

    `to_log` are the variables, with their values, under which this version logs what it reads, each
    process to a file of its own.
    """

    read: tuple[str, ...]
    unread: tuple[Unread, ...]
    to_log: dict[str, str]


def advice(names: Iterable[str], version: Version | None) -> Advice:
    """Return what a version makes of these names; those that are not NCCL's are left out."""
    ours = sorted(name for name in names if name.startswith("NCCL_"))
    reasons = {name: next(silence.of_name(name, version), "") for name in ours}
    return Advice(
        read=tuple(name for name in ours if not reasons[name]),
        unread=tuple(
            Unread(name, reason, params.suggestions(name, version))
            for name, reason in reasons.items()
            if reason
        ),
        to_log=to_log(version),
    )


def to_log(version: Version | None) -> dict[str, str]:
    """Return the variables under which a version logs what it reads; without one, any from 2.14."""
    bootstrap = version is not None and version >= _BOOTSTRAP
    found = {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,ENV" if bootstrap else "INIT,ENV",
        "NCCL_DEBUG_FILE": "/tmp/nccl.%h.%p",
    }
    if version is not None and version >= _STAMPS:
        found["NCCL_DEBUG_TIMESTAMP_LEVELS"] = "ALL"
    return found
