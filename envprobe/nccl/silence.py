"""Why a log may not show a variable that is set: what follows from the table of variables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.nccl import params
from envprobe.nccl.params import Naming, Parameter, Version

_PRINTERS: Final = {
    "senders": "it is printed by ranks that send over InfiniBand only",
    "inter-node": "it is printed by ranks with a connection to another node only",
    "one rank": "one rank of the communicator prints it",
    "first local rank": "the first rank of the process prints it",
    "maker of the id": "the process that makes the communicator's id prints it",
}
_NO_NAME: Final = {
    Naming.NOT_YET: "this version of NCCL does not read it yet",
    Naming.REMOVED: "this version of NCCL reads it no longer",
    Naming.DEAD: "no version of NCCL from 2.17 on reads it",
    Naming.TORCH: "PyTorch reads it, and NCCL does not",
    Naming.OTHER: "not NCCL itself but a plugin or tool reads it",
    Naming.MADE_UP: "nothing in NCCL reads it",
    Naming.UNKNOWN: "no version of NCCL is known to read it",
    Naming.UNCERTAIN: "whether this version reads it is not known",
}


def of_name(name: str, version: Version | None) -> Iterator[str]:
    """Yield why this version reads no variable of this name, or nothing."""
    naming = params.naming(name, version)
    if naming in _NO_NAME:
        yield _NO_NAME[naming]


def of_parameter(parameter: Parameter, version: Version | None) -> Iterator[str]:
    """Yield why this version may read a variable without a line that shows it."""
    if parameter.is_silent(version):
        yield "NCCL reads it without printing anything"
    if parameter.prints == "level":
        yield "a level that NCCL does not know is ignored without a line"
    if parameter.prints == "number":
        yield "an empty value prints nothing"
    if parameter.printed_by in _PRINTERS:
        yield _PRINTERS[parameter.printed_by]
