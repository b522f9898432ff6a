"""Why a variable may not be shown although it is set: what applies in this very log."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.nccl import cells
from envprobe.checks.nccl.context import Context, version
from envprobe.nccl import params, silence
from envprobe.nccl.facts import DamageKind, Process, Rank


def reasons(context: Context, rank: Rank, name: str) -> tuple[str, ...]:
    """Return why this rank may not show the variable; never empty."""
    return tuple(_reasons(context, rank, name)) or (
        "it is not set, or the code that reads it was not reached",
    )


def _reasons(context: Context, rank: Rank, name: str) -> Iterator[str]:
    process = context.process(rank)
    yield from silence.of_name(name, version(process))
    parameter = params.find(name)
    if parameter is not None:
        yield from _by_parameter(parameter, process, rank)
    yield from _by_log(context, process, rank)


def _by_parameter(parameter: params.Parameter, process: Process, rank: Rank) -> Iterator[str]:
    yield from silence.of_parameter(parameter, version(process))
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
