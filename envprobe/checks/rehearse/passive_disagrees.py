"""The check `passive-reading-disagrees`."""

from __future__ import annotations

import os
from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.rehearse.about import RehearseContext, Rehearsed, found
from envprobe.checks.who import some
from envprobe.model import EnvironmentStatus, Process, Snapshot, View
from envprobe.pythonfacts import AnswerState, PythonState
from envprobe.rehearsal.types import Member, Rehearsal
from envprobe.startup.types import MODULES

_BUG = "This is a fault of envprobe: please report it, with both reports."


def _run(context: RehearseContext) -> Iterator[Finding]:
    for rehearsed, one in context.told():
        if one.snapshot is None:
            if one.unread:
                told = f"The same processes could not be read from outside: {one.unread}."
                yield found(CHECK, rehearsed, told, undetermined=True)
            continue
        for member in one.members:
            process = one.snapshot.process(member.pid)
            said = list(_differences(member, process, one))
            if said:
                told = f"What {member.name} says of itself and what is read from outside differ:"
                yield found(
                    CHECK, rehearsed, f"{told} {some(said, 6)}.", members=[member], remedy=_BUG
                )
        yield from _strangers(rehearsed, one, one.snapshot)


def _differences(member: Member, process: Process | None, one: Rehearsal) -> Iterator[str]:
    if process is None:
        yield "it is not in the tree"
        return
    if member.titled and member.node is not None:
        label, own = process.role.label, member.name
        if label != own:
            yield f"its role is {label}, and it stands for {own}"
    yield from _variables(member, process)
    yield from _hooks(member, process)


def _variables(member: Member, process: Process) -> Iterator[str]:
    """Yield the variables of os.environ that the reading of the same mapping shows otherwise."""
    view = process.environment(View.PYTHON)
    if view.status is not EnvironmentStatus.COMPLETE:
        return
    for name in sorted({*view.entries, *member.environment}):
        there = name in view.entries
        value = view.entries.get(name)
        if there != (name in member.environment):
            yield f"{name} is {'only read' if there else 'not read'}"
        elif value is not None and not value.truncated and value != member.environment[name]:
            yield f"{name} has another value"


def _hooks(member: Member, process: Process) -> Iterator[str]:
    inside = process.inside
    if inside is None or inside.state is not PythonState.READ:
        return
    for module in MODULES:
        answer = inside.answer(module)
        told = member.effects.loaded.get(module)
        if answer is None or answer.state in (AnswerState.UNREADABLE, AnswerState.CHANGING):
            continue
        found = answer.found_module
        read = None if found is None else found.origin or found.file or ""
        if (read is None) != (told is None) or (read and told and not _same(read, told)):
            yield f"{module} is {told or 'not loaded'}, read is {read or 'none'}"


def _same(one: str, other: str) -> bool:
    return os.path.normpath(one) == os.path.normpath(other)


def _strangers(rehearsed: Rehearsed, one: Rehearsal, snapshot: Snapshot) -> Iterator[Finding]:
    """Yield workers that are read where the rehearsal has started none."""
    workers = {each.pid for each in one.workers}
    others = [each for each in snapshot.processes if each.role.worker and each.pid not in workers]
    ours = {each.pid for each in one.members}
    for process in others:
        if process.pid in ours:
            told = f"{process.named} is taken for a worker, and the rehearsal started it as none"
            yield found(CHECK, rehearsed, f"{told}.", remedy=_BUG)


CHECK = Check(
    id="EP514",
    slug="passive-reading-disagrees",
    severity=Severity.ERROR,
    summary="What rehearsed processes say of themselves is not what envprobe reads from outside.",
    why="Both look at the same processes at the same time, and the verdicts on a running server"
    " hang on the reading from outside: if they differ, one of them is wrong.",
    mend="Run envprobe as root or as the user of the definition, and again. If they still differ,"
    " report it as a fault of envprobe.",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
