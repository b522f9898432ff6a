"""What a scan of a rehearsed tree is told besides: who plays which role, and what was declared."""

from __future__ import annotations

import dataclasses
import fnmatch
import re

from envprobe.model import Environment, Process, Role, Snapshot, View
from envprobe.rehearsal import frameworks
from envprobe.rehearsal.types import Member, Plan
from envprobe.startup.declared import Start


def completed(
    snapshot: Snapshot, plan: Plan, start: Start, members: tuple[Member, ...]
) -> Snapshot:
    """Return a snapshot with the roles that are played, and the declared view in front of it all.

    A process that has the title of its role is told by that, as in a real tree.
    """
    framework = plan.framework.value if plan.framework.value != frameworks.NONE else ""
    nodes = {one.pid: one.node for one in members if one.node is not None and not one.titled}
    first = {one.pid for one in members if one.node is None}
    declared = _declared(start, snapshot.wanted)

    def played(process: Process) -> Process:
        if process.pid in first:
            views = {View.DECLARED: declared, **process.environments}
            return dataclasses.replace(process, environments=views)
        node = nodes.get(process.pid)
        if node is None:
            return process
        told = "the rehearsal has started it as that"
        role = Role(node.role, framework, dict(node.ranks), node.worker, evidence=told)
        return dataclasses.replace(process, role=role)

    return dataclasses.replace(snapshot, processes=tuple(map(played, snapshot.processes)))


def _declared(start: Start, wanted: tuple[str, ...]) -> Environment:
    """Return what the interpreter is handed, behind all wrappers; values where they are wanted."""
    view = start.declared.declared.environment
    matches = re.compile("|".join(map(fnmatch.translate, wanted))).match
    kept = {name: value if matches(name) else None for name, value in view.entries.items()}
    return dataclasses.replace(view, entries=kept)
