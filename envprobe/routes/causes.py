"""The causes of a break: one rule for each, in one ordered list, the likeliest first.

A rule looks at a case and says of its cause that it fits, that the evidence rules it out, or
nothing. Every hop has at least one rule that fits, so a break never stays without a cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from envprobe.model import EdgeKind, Process, Sentence, View
from envprobe.routes.case import Case, Verdict, cause, had, who
from envprobe.routes.hops import FORKED, HopKind
from envprobe.routes.programs import FILTERS, runs_code
from envprobe.routes.suspects import (
    is_forkserver,
    loaded,
    passed,
    ran,
    started_by_launcher,
    through_program,
)
from envprobe.routes.timing import Timing, timing
from envprobe.routes.types import CauseId, Change
from envprobe.routes.variables import removed_when_secure
from envprobe.routes.witnesses import from_multiprocessing, same, unread

Rule = Callable[[Case], Iterator[Verdict]]

_TAKEN: Final = {Change.CHANGED: "changed", Change.APPEARED: "set"}
"""What somebody did to the variable; for what was lost, or never there, `removed`."""

_NUMA_WRAPPER: Final = "SGLANG_NUMA_BIND_V2"


def never_set(case: Case) -> Iterator[Verdict]:
    """Judge whether it was absent from the first stop on, wherever it could be read."""
    if case.change is not Change.NEVER_THERE:
        return
    known = sum(1 for stop in case.stops if stop.reading.known)
    unknown = [index for index, stop in enumerate(case.stops) if unread(stop.reading)]
    head = case.way.processes[0]
    against = [had(case, index) for index in unknown]
    if head.edge.kind is EdgeKind.UNKNOWN:
        against.append(Sentence.of(f"Whatever started {who(head)} is gone and tells nothing."))
    yield Verdict(
        cause(
            CauseId.NEVER_SET,
            f"{case.name} was never set for {who(case.way.end)}.",
            (Sentence.of(f"It is absent at all {known} stops of the route that could be read."),),
            tuple(against),
            f"Set {case.name} where {who(head)} is started: its command, container or unit.",
        )
    )


def at_secure(case: Case) -> Iterator[Verdict]:
    """Judge whether the loader removed it: in secure mode, before any code of the program runs."""
    removed = removed_when_secure(case.name)
    if removed is False or case.change in (Change.APPEARED, Change.CHANGED):
        return
    for process in loaded(case):
        sentence = f"The loader removed {case.name} from {who(process)}, which is in secure mode."
        if process.secure is False:
            excluded = Sentence.of(f"AT_SECURE is 0 in {who(process)}.")
            yield Verdict(cause(CauseId.AT_SECURE, sentence, (), (excluded,)), fits=False)
            continue
        read = "is 1" if process.secure else "could not be read"
        yield Verdict(
            cause(
                CauseId.AT_SECURE,
                sentence,
                (Sentence.of(f"AT_SECURE {read} in {who(process)} (ld.so(8))."),),
                (),
                "Run the program without file capabilities and without the set-user-ID bit, or"
                f" set {case.name} again in its own code.",
            )
        )


def built_by_launcher(case: Case) -> Iterator[Verdict]:
    """Judge whether a service manager, container runtime or the like made the environment."""
    for process in started_by_launcher(case):
        maker = process.edge.launcher or "its launcher"
        yield Verdict(
            cause(
                CauseId.BUILT_BY_LAUNCHER,
                f"{who(process)} got an environment that {maker} made:"
                f" {case.name} was {_lost_or(case, 'left out')} there.",
                _evidence(process),
                (),
                f"Set {case.name} in what {maker} reads: the unit, the container or job"
                " definition, not in the shell that starts it.",
            )
        )


def frozen_in_forkserver(case: Case) -> Iterator[Verdict]:
    """Judge whether it came after a forkserver, which keeps the environment of its own start."""
    for hop, parent in passed(case):
        if is_forkserver(case, hop.process) and case.old_at(hop.first):
            yield _timed(
                timing(case, hop),
                CauseId.FROZEN_IN_FORKSERVER,
                f"The forkserver {who(hop.process)} was started before {who(parent)} {_late(case)};"
                " it and its children keep what was there then.",
                f"{_do(case)} before the forkserver is started: in the launch environment, or"
                " before the first process of a forkserver context is made.",
            )


def set_late_in_parent(case: Case) -> Iterator[Verdict]:
    """Judge whether the parent changed it only after it had started this child."""
    for hop, parent in passed(case):
        if not is_forkserver(case, hop.process) and case.old_at(hop.first):
            yield _timed(
                timing(case, hop),
                CauseId.SET_LATE_IN_PARENT,
                f"{who(parent)} {_late(case)} only after {who(hop.process)} had been started.",
                f"{_do(case)} before the children are started, at best in the launch environment.",
            )


def fork_child(case: Case) -> Iterator[Verdict]:
    """Judge whether the parent changed it after a fork: the child keeps the memory of that time."""
    for hop in case.of(HopKind.FORK):
        if hop.parent is None or not case.old_at(hop.first):
            continue
        owner = case.family.by_pid.get(hop.process.image_owner)
        whose = who(owner) if owner else "an ancestor that is gone"
        seen = timing(case, hop)
        block = Sentence.of(
            f"{who(hop.process)} was forked and has not been exec'd: its exec block is that of"
            f" {whose} and shows nothing of this."
        )
        yield _timed(
            Timing((*seen.late, block), seen.in_time, seen.excluded),
            CauseId.FORK_CHILD,
            f"{who(hop.process)} was forked before {who(hop.parent)} {_late(case)}, and keeps the"
            " memory of that time.",
            f"{_do(case)} before the fork.",
        )


def dropped_around_spawn(case: Case) -> Iterator[Verdict]:
    """Judge whether the parent gave this child another environment than its own."""
    for hop, parent in passed(case):
        if not runs_code(hop.process.edge):
            continue
        seen = timing(case, hop)
        done = {Change.CHANGED: "another value of", Change.APPEARED: "its own"}
        what = done.get(case.change)
        given = f"with {what} {case.name}" if what else f"without {case.name}"
        yield Verdict(
            cause(
                CauseId.DROPPED_AROUND_SPAWN,
                f"{_starter(hop.process, parent)} started {who(hop.process)} {given}: by env=, or"
                " by a change of its own environment for that moment.",
                (*seen.in_time, *_mapping(case, hop.process, parent)),
                (*seen.same_before, *seen.doubt),
                f"Look in the code that starts {who(hop.process)} for env= and for changes of"
                f" os.environ around it, and let {case.name} through.",
            )
        )


def rewritten_by_program(case: Case) -> Iterator[Verdict]:
    """Judge whether a shell, sudo or another program that ran in between changed it."""
    for process, parent in through_program(case):
        edge = process.edge
        between = f"{edge.launcher} ({who(parent)})" if parent else edge.launcher
        yield Verdict(
            cause(
                CauseId.REWRITTEN_BY_PROGRAM,
                f"{between}, which started {who(process)}, {_taken(case)} {case.name}.",
                (*_evidence(process), *_filter(edge.launcher), *_duplicate(case, parent)),
                (),
                f"Look at the script or the options of {edge.launcher}, and pass {case.name} on.",
            )
        )
    for hop, parent in passed(case):
        if runs_code(hop.process.edge):
            yield _hidden_program(case, hop.process, parent)


def _hidden_program(case: Case, child: Process, parent: Process) -> Verdict:
    """Judge a program that exec'd in place between parent and child, and left no process."""
    sentence = (
        f"A program that exec'd between {who(parent)} and {who(child)} (a shell, env, sudo, a"
        f" wrapper) {_taken(case)} {case.name}."
    )
    hints = tuple(_program_hints(case, child, parent))
    if from_multiprocessing(child) and not hints:
        reason = "multiprocessing starts the interpreter itself, and both run the same executable."
        excluded = cause(CauseId.REWRITTEN_BY_PROGRAM, sentence, (), (Sentence.of(reason),))
        return Verdict(excluded, fits=False)
    if child.edge.kind is EdgeKind.UNKNOWN:
        hints += (Sentence.of("What started it is gone: " + "; ".join(child.edge.evidence) + "."),)
    remedy = f"Look at what wraps the start of {who(child)}, and pass {case.name} on."
    return Verdict(cause(CauseId.REWRITTEN_BY_PROGRAM, sentence, hints, (), remedy))


def changed_in_parent(case: Case) -> Iterator[Verdict]:
    """Judge whether code of a process above changed or removed it, and passed that on."""
    if case.change is Change.APPEARED:
        return
    for process in ran(case):
        if not case.own(process):
            yield _changed(case, process, CauseId.CHANGED_IN_PARENT)


def changed_in_worker(case: Case) -> Iterator[Verdict]:
    """Judge whether code of the process itself changed or removed it."""
    if case.change is Change.APPEARED:
        return
    for process in ran(case):
        if case.own(process):
            yield _changed(case, process, CauseId.CHANGED_IN_WORKER)


def set_after_start(case: Case) -> Iterator[Verdict]:
    """Judge whether code or a library in a process set it, which had not got it at its exec."""
    if case.change is not Change.APPEARED:
        return
    for process in ran(case):
        remedy = f"Set {case.name} in the launch environment if it must be there from the start."
        if case.name.startswith("NCCL_"):
            remedy += " NCCL itself applies /etc/nccl.conf and ~/.nccl.conf in this way."
        yield Verdict(
            cause(
                CauseId.SET_AFTER_START,
                f"Code in {_actor(case, process)} set {case.name} after its start.",
                _both(case),
                (),
                remedy,
            )
        )


RULES: list[tuple[CauseId, Rule]] = [
    (CauseId.NEVER_SET, never_set),
    (CauseId.AT_SECURE, at_secure),
    (CauseId.BUILT_BY_LAUNCHER, built_by_launcher),
    (CauseId.FROZEN_IN_FORKSERVER, frozen_in_forkserver),
    (CauseId.SET_LATE_IN_PARENT, set_late_in_parent),
    (CauseId.FORK_CHILD, fork_child),
    (CauseId.DROPPED_AROUND_SPAWN, dropped_around_spawn),
    (CauseId.REWRITTEN_BY_PROGRAM, rewritten_by_program),
    (CauseId.CHANGED_IN_PARENT, changed_in_parent),
    (CauseId.CHANGED_IN_WORKER, changed_in_worker),
    (CauseId.SET_AFTER_START, set_after_start),
]
"""Every rule, the likeliest first among those with as much evidence."""


# --- evidence ------------------------------------------------------------------------------------


def _starter(child: Process, parent: Process) -> str:
    return "A process that is gone" if child.edge.kind is EdgeKind.UNKNOWN else who(parent)


def _timed(seen: Timing, identity: CauseId, sentence: str, remedy: str) -> Verdict:
    made = cause(identity, sentence, seen.late, (*seen.in_time, *seen.doubt), remedy)
    return Verdict(made, fits=not seen.excluded)


def _changed(case: Case, process: Process, identity: CauseId) -> Verdict:
    sentence = f"Code in {_actor(case, process)} {_taken(case)} {case.name} after its start."
    loader = process.secure and removed_when_secure(case.name) and process in loaded(case)
    if loader and case.change is Change.LOST:
        reason = f"AT_SECURE is 1 in {who(process)}: the loader had removed it before any code ran."
        made = cause(identity, sentence, (), (Sentence.of(reason),))
        return Verdict(made, fits=False)
    remedy = (
        f"Look in the code of {who(process)}, its start-up hooks and libraries for what assigns"
        f" or deletes {case.name}."
    )
    return Verdict(cause(identity, sentence, _both(case), (), remedy))


def _both(case: Case) -> tuple[Sentence, ...]:
    ends = (case.before, case.after)
    return tuple(had(case, index) for index in ends if case.stops[index].reading.known)


def _actor(case: Case, process: Process) -> str:
    """Name the process whose code ran: of one forked from outside the scan, that may be another."""
    forked_here = process.edge.kind in FORKED and process.pid != case.way.processes[0].pid
    if forked_here or process.image_owner == process.pid:
        return who(process)
    return f"{who(process)}, or in the process from which it was forked,"


def _mapping(case: Case, child: Process, parent: Process) -> Iterator[Sentence]:
    """Say so if the child has what stands in the parent's os.environ: env=os.environ gives that."""
    python = parent.environment(View.PYTHON).reading(case.name)
    if same(python, case.new) and not same(python, case.old):
        yield Sentence.of(
            f"The os.environ of {who(parent)} says the same as {who(child)}:"
            " env=os.environ hands over that mapping, not the C environ."
        )


def _evidence(process: Process) -> tuple[Sentence, ...]:
    return tuple(Sentence.of(f"{one}.") for one in process.edge.evidence)


def _filter(launcher: str) -> Iterator[Sentence]:
    if launcher in FILTERS:
        yield Sentence.of(f"{FILTERS[launcher]}.")


def _duplicate(case: Case, parent: Process | None) -> Iterator[Sentence]:
    if parent and case.name in parent.environment(View.EXEC).duplicates:
        yield Sentence.of(f"{who(parent)} was given {case.name} more than once.")


def _program_hints(case: Case, child: Process, parent: Process) -> Iterator[Sentence]:
    if child.exe and parent.exe and child.exe != parent.exe:
        yield Sentence.of(f"{who(child)} runs another executable than {who(parent)}.")
    if any(case.family.anywhere(one, _NUMA_WRAPPER) for one in (child, parent)):
        yield Sentence.of(
            f"{_NUMA_WRAPPER} is set: SGLang then starts each scheduler through a shell script"
            " with numactl."
        )


# --- words ---------------------------------------------------------------------------------------


def _taken(case: Case) -> str:
    return _TAKEN.get(case.change, "removed")


def _lost_or(case: Case, lost: str) -> str:
    return _TAKEN.get(case.change, lost)


def _late(case: Case) -> str:
    if case.change is Change.APPEARED:
        return f"removed {case.name}"
    if case.change is Change.CHANGED:
        return f"gave {case.name} the value that it has now"
    return f"set {case.name}"


def _do(case: Case) -> str:
    return f"Remove {case.name}" if case.change is Change.APPEARED else f"Set {case.name}"
