"""Why a variable may not be shown although it is set: what applies in this very log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.nccl import cells
from envprobe.checks.nccl.context import Context, version
from envprobe.nccl import params
from envprobe.nccl.facts import DamageKind, Process, Rank
from envprobe.nccl.params import Naming

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


def reasons(context: Context, rank: Rank, name: str) -> tuple[str, ...]:
    """Return why this rank may not show the variable; never empty."""
    return tuple(_reasons(context, rank, name)) or (
        "it is not set, or the code that reads it was not reached",
    )


def _reasons(context: Context, rank: Rank, name: str) -> Iterator[str]:
    process = context.process(rank)
    naming = params.naming(name, version(process))
    if naming in _NO_NAME:
        yield _NO_NAME[naming]
    parameter = params.find(name)
    if parameter is not None:
        yield from _by_parameter(parameter, process, rank)
    yield from _by_log(context, process, rank)


def _by_parameter(parameter: params.Parameter, process: Process, rank: Rank) -> Iterator[str]:
    if parameter.is_silent(version(process)):
        yield "NCCL reads it without printing anything"
    if parameter.prints == "level":
        yield "a level that NCCL does not know is ignored without a line"
    if parameter.prints == "number":
        yield "an empty value prints nothing"
    if parameter.printed_by in _PRINTERS:
        yield _PRINTERS[parameter.printed_by]
    if parameter.printed_by == "every rank" and rank.nranks == 1:
        yield "a communicator of one rank never reads it"
    networks = set(rank.outcome.networks) | set(process.outcome.networks)
    if parameter.name.startswith("NCCL_IB_") and networks and "IB" not in networks:
        used = ", ".join(sorted(networks))
        yield f"the InfiniBand transport is not in use (the network is {used})"


def _by_log(context: Context, process: Process, rank: Rank) -> Iterator[str]:
    if not process.levels.get("INFO"):
        yield "this process logged no INFO line (NCCL_DEBUG=INFO shows variables)"
    elif not cells.logs_environment(process):
        yield "this process shows no variable at all (NCCL_DEBUG_SUBSYS may leave ENV out)"
    if context.log.damage_counts.get(DamageKind.DEDUPLICATED):
        yield "Ray left out equal lines of other processes (RAY_DEDUP_LOGS=0 keeps them)"
    elif cells.is_damaged(context, process):
        yield "lines of this process were cut (PYTHONUNBUFFERED=1 keeps them whole)"
    if rank.completed is None:
        yield "the log ends, for this rank, before the communicator was made"
