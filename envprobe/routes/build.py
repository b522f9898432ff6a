"""From a snapshot to its routes: the one entry to the routing layer."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable

from envprobe.model import Process, Reading, Snapshot, State, View
from envprobe.routes.breaks import breaks
from envprobe.routes.hops import Place, way_to
from envprobe.routes.intime import in_time
from envprobe.routes.peers import groups, launches
from envprobe.routes.types import Launch, NcclHop, Route, Routing, Stop
from envprobe.routes.variables import read_time
from envprobe.routes.witnesses import Family


def build(
    snapshot: Snapshot, expected_names: Iterable[str] = (), roles: Iterable[str] = ()
) -> Routing:
    """Return all routes of a snapshot: of each relevant variable to each counted worker.

    `expected_names` are routed though nobody has them; processes of the named `roles` get routes
    too. Reads nothing and judges nothing.
    """
    family = Family(snapshot)
    found = launches(family)
    names = _names(snapshot, expected_names)
    return Routing(
        snapshot=snapshot,
        launches=found,
        groups=groups(found, family),
        names=names,
        routes=_routes(_ends(family, found, roles), names, family),
    )


def _names(snapshot: Snapshot, expected: Iterable[str]) -> tuple[str, ...]:
    """Return the wanted names that occur in any view, those expected and those declared, sorted."""
    patterns = "|".join(fnmatch.translate(pattern) for pattern in snapshot.wanted)
    present = {
        name
        for process in snapshot.processes
        for view in process.environments.values()
        for name in view.entries
    }
    wanted = filter(re.compile(patterns).match, present) if patterns else ()
    logs = (process.nccl for process in snapshot.processes if process.nccl is not None)
    read = {one.name for log in logs for one in log.reads}
    declared = snapshot.unit.names if snapshot.unit is not None else ()
    return tuple(sorted({*wanted, *expected, *read, *declared}))


def _ends(family: Family, found: Iterable[Launch], roles: Iterable[str]) -> list[Process]:
    """Return the processes to which routes lead: the workers, then those of the named roles.

    The main process of a unit is the last one: what is declared has to reach it first.
    """
    counted = dict.fromkeys(pid for launch in found for pid in launch.workers)
    named = set(roles)
    others = (one for one in family.by_pid.values() if one.role.name in named and not one.orphan)
    counted.update(dict.fromkeys(one.pid for one in others))
    if family.unit is not None and family.unit.main_pid in family.by_pid:
        counted.setdefault(family.unit.main_pid)
    return [family.by_pid[pid] for pid in counted]


def _routes(
    ends: list[Process], names: tuple[str, ...], family: Family
) -> dict[tuple[int, str], Route]:
    made: dict[tuple[int, str], Route] = {}
    shared: dict[tuple[int, View, str], list[Stop]] = {}
    for process in ends:
        way = way_to(process, family.by_pid)
        edges = tuple(one.edge for one in way.processes)
        columns = [_column(place, names, family, shared) for place in way.places]
        for name, stops in zip(names, zip(*columns, strict=True), strict=True):
            made[process.pid, name] = Route(
                name=name,
                pid=process.pid,
                stops=stops,
                edges=edges,
                breaks=breaks(name, stops, way, family),
                in_time=in_time(name, process, family),
                read_time=read_time(name),
                nccl=_into_nccl(name, process, family),
            )
    return made


def _into_nccl(name: str, process: Process, family: Family) -> tuple[NcclHop, ...]:
    if process.nccl is None:
        return ()
    # Slow to import: a server without NCCL is spared that.
    from envprobe.routes.nccl import hops_into

    return hops_into(name, process, family)


def _column(
    place: Place,
    names: tuple[str, ...],
    family: Family,
    shared: dict[tuple[int, View, str], list[Stop]],
) -> list[Stop]:
    """Return the stops of all variables at one place; `shared` keeps them for other routes."""
    process, view = place.process, place.view
    key = (process.pid, view, place.skipped)
    if key not in shared:
        skipped = Reading(State.NOT_APPLICABLE, reason=place.skipped) if place.skipped else None
        shared[key] = [
            Stop(process.pid, view, skipped or family.reading(process, view, name))
            for name in names
        ]
    return shared[key]
