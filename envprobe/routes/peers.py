"""Which workers belong together: launches, and the peer groups inside them."""

from __future__ import annotations

import functools
from typing import Final

from envprobe import tables
from envprobe.model import Process
from envprobe.routes.hops import way_to
from envprobe.routes.types import Launch, PeerGroup
from envprobe.routes.witnesses import Family

IN_BETWEEN: Final = frozenset({"shell", "wrapper", "init", "container runtime", "container client"})
"""Roles of programs that only start something else."""

DP_ATTENTION: Final = "--enable-dp-attention"
"""With it SGLang's data-parallel ranks share one tensor-parallel communicator (server_args.py)."""

_RANK_ORDER: Final = ("dp", "pp", "tp")


def launches(family: Family) -> tuple[Launch, ...]:
    """Return every launch that has workers, in the order of their launchers' start.

    A launch is what one launcher started, and of that what has the same SGLANG_RUN_ID. Orphans
    belong to none. A worker whose SGLANG_RUN_ID could not be read goes with the others of its
    launcher if those have but one.
    """
    members: dict[int, dict[str, list[Process]]] = {}
    for process in family.by_pid.values():
        if process.role.worker and not process.orphan:
            by_run = members.setdefault(_launcher(process, family), {})
            by_run.setdefault(process.run_id, []).append(process)
    found = [
        Launch(launcher, run_id, tuple(one.pid for one in sorted(workers, key=_order)))
        for launcher, by_run in members.items()
        for run_id, workers in _without_unread(by_run).items()
    ]
    return tuple(sorted(found, key=lambda launch: _age(launch, family)))


def groups(found: tuple[Launch, ...], family: Family) -> tuple[PeerGroup, ...]:
    """Return the workers that must agree: of one launch, one role and one replica.

    The replica is the data-parallel rank, but for SGLang's data-parallel attention, whose ranks
    share a communicator. A rank of `moe_dp` makes no replica.
    """
    made: dict[tuple[int, str, str, str], list[int]] = {}
    for launch in found:
        shared = _shares_communicator(launch, family)
        for pid in launch.workers:
            role = family.by_pid[pid].role
            replica = "" if shared else str(role.ranks.get("dp", ""))
            made.setdefault((launch.launcher, launch.run_id, role.name, replica), []).append(pid)
    return tuple(
        PeerGroup(launcher, role, replica, tuple(pids))
        for (launcher, _, role, replica), pids in made.items()
    )


def _launcher(worker: Process, family: Family) -> int:
    """Return the process that stands for a worker's launch.

    The nearest server or launcher above it, else the highest process above that does more than
    start something else; for a worker that a pattern added to the scan, its parent.
    """
    above = way_to(worker, family.by_pid).processes[:-1]
    for process in reversed(above):
        if process.role.name in _launch_roles():
            return process.pid
    if worker.matched and not above:
        return worker.edge.parent or worker.ppid
    own = (one for one in above if one.role.name not in IN_BETWEEN)
    return next(own, worker).pid


@functools.cache
def _launch_roles() -> frozenset[str]:
    return frozenset(row["role"] for row in tables.load("roles")["rows"] if row.get("launch"))


def _without_unread(by_run: dict[str, list[Process]]) -> dict[str, list[Process]]:
    known = [run_id for run_id in by_run if run_id]
    if len(known) != 1 or "" not in by_run:
        return by_run
    return {known[0]: by_run[known[0]] + by_run[""]}


def _order(process: Process) -> tuple[object, ...]:
    ranks = process.role.ranks
    first = tuple(ranks.get(kind, -1) for kind in _RANK_ORDER)
    others = tuple(sorted((kind, rank) for kind, rank in ranks.items() if kind not in _RANK_ORDER))
    return (process.role.name, first, others, process.identity.start_ticks, process.pid)


def _age(launch: Launch, family: Family) -> tuple[int, int, str]:
    launcher = family.by_pid.get(launch.launcher)
    first = family.by_pid[launch.workers[0]]
    ticks = (launcher or first).identity.start_ticks
    return (ticks, launch.launcher, launch.run_id)


def _shares_communicator(launch: Launch, family: Family) -> bool:
    launcher = family.by_pid.get(launch.launcher)
    return launcher is not None and DP_ATTENTION in launcher.title
