"""The causes of a break: one rule for each, in one ordered list, the likeliest first.

A rule looks at a case and says of its cause that it fits, that the evidence rules it out, or
nothing. Every hop has at least one rule that fits, so a break never stays without a cause.
"""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.model import Confidence, EdgeKind, Process, Sentence
from envprobe.routes.case import Case, Rule, Verdict, cause, had
from envprobe.routes.declaration import RULES as OF_UNIT
from envprobe.routes.declaration import is_main
from envprobe.routes.evidence import (
    both_ends,
    came_so,
    duplicate,
    known_filter,
    of_edge,
    os_environ_alike,
    program_hints,
)
from envprobe.routes.hops import FORKED, HopKind
from envprobe.routes.mirror import c_level_setenv, nccl_conf_file, os_environ_edited, os_putenv
from envprobe.routes.programs import LEAVES_AS_IT_IS, runs_code
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
from envprobe.routes.witnesses import from_multiprocessing, shows_its_start, unread
from envprobe.routes.words import (
    do,
    forked,
    late,
    lost_or,
    taken,
    through,
    ways_around_spawn,
)


def never_set(case: Case) -> Iterator[Verdict]:
    """Judge whether it was absent from the first stop on, wherever it could be read."""
    if case.change is not Change.NEVER_THERE:
        return
    known = sum(1 for stop in case.stops if stop.reading.known)
    unknown = [index for index, stop in enumerate(case.stops) if unread(stop.reading)]
    head = case.way.processes[0]
    against = [had(case, index) for index in unknown]
    if head.edge.kind is EdgeKind.UNKNOWN:
        against.append(Sentence.of(f"Whatever started {head.named} is gone and tells nothing."))
    yield Verdict(
        cause(
            CauseId.NEVER_SET,
            f"{case.name} was never set for {case.way.end.named}.",
            (Sentence.of(f"It is absent at all {known} stops of the route that could be read."),),
            tuple(against),
            f"Set {case.name} where {head.named} is started: its command, container or unit.",
        )
    )


def at_secure(case: Case) -> Iterator[Verdict]:
    """Judge whether the loader removed it: in secure mode, before any code of the program runs."""
    removed = removed_when_secure(case.name)
    if removed is False or case.change in (Change.APPEARED, Change.CHANGED):
        return
    for process in loaded(case):
        sentence = f"The loader removed {case.name} from {process.named}, which is in secure mode."
        if process.secure is False:
            excluded = Sentence.of(f"AT_SECURE is 0 in {process.named}.")
            yield Verdict(cause(CauseId.AT_SECURE, sentence, (), (excluded,)), fits=False)
            continue
        read = "is 1" if process.secure else "could not be read"
        yield Verdict(
            cause(
                CauseId.AT_SECURE,
                sentence,
                (Sentence.of(f"AT_SECURE {read} in {process.named} (ld.so(8))."),),
                (),
                "Run the program without file capabilities and without the set-user-ID bit, or"
                f" set {case.name} again in its own code.",
            )
        )


def built_by_launcher(case: Case) -> Iterator[Verdict]:
    """Judge whether a service manager, container runtime or the like made the environment."""
    for process in started_by_launcher(case):
        if is_main(case, process):
            continue
        maker = process.edge.launcher or "its launcher"
        yield Verdict(
            cause(
                CauseId.BUILT_BY_LAUNCHER,
                f"{process.named} got an environment that {maker} made:"
                f" {case.name} was {lost_or(case, 'left out')} there.",
                of_edge(process),
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
                f"{hop.process.named} was started before {parent.named} {late(case)};"
                " it and its children keep what was there then.",
                f"{do(case)} before the forkserver is started: in the launch environment, or"
                " before the first process of a forkserver context is made.",
            )


def set_late_in_parent(case: Case) -> Iterator[Verdict]:
    """Judge whether the parent changed it only after it had started this child."""
    for hop, parent in passed(case):
        if not is_forkserver(case, hop.process) and case.old_at(hop.first):
            yield _timed(
                timing(case, hop),
                CauseId.SET_LATE_IN_PARENT,
                f"{parent.named} {late(case)} only after {hop.process.named} had been started.",
                f"{do(case)} before the children are started, at best in the launch environment.",
            )


def fork_child(case: Case) -> Iterator[Verdict]:
    """Judge whether the parent changed it after a fork: the child keeps the memory of that time."""
    for hop in case.of(HopKind.FORK):
        if hop.parent is None or not case.old_at(hop.first):
            continue
        owner = case.family.by_pid.get(hop.process.image_owner)
        whose = owner.named if owner else "an ancestor that is gone"
        seen = timing(case, hop)
        block = Sentence.of(
            f"{hop.process.named} was forked and has not been exec'd: its exec block is that of"
            f" {whose} and shows nothing of this."
        )
        server = is_forkserver(case, hop.parent)
        sentence, remedy = forked(case, hop.process, hop.parent, seen, server=server)
        # Other parents can take it away around one fork, as around one spawn.
        weighed = Timing((*seen.late, block), seen.in_time, seen.excluded and server)
        yield _timed(weighed, CauseId.FORK_CHILD, sentence, remedy)


def dropped_around_spawn(case: Case) -> Iterator[Verdict]:
    """Judge whether the parent gave this child another environment than its own."""
    for hop, parent in passed(case):
        if not runs_code(hop.process.edge):
            continue
        seen = timing(case, hop)
        done = {Change.CHANGED: "another value of", Change.APPEARED: "its own"}
        what = done.get(case.change)
        given = f"with {what} {case.name}" if what else f"without {case.name}"
        how, look = ways_around_spawn(hop.process)
        yield Verdict(
            cause(
                CauseId.DROPPED_AROUND_SPAWN,
                f"{_starter(hop.process, parent)} started {hop.process.named} {given}: {how}.",
                (*seen.in_time, *os_environ_alike(case, hop.process, parent)),
                (*seen.same_before, *seen.doubt),
                f"Look in the code that starts {hop.process.named} for {look}, and let {case.name}"
                " through.",
            )
        )


def rewritten_by_program(case: Case) -> Iterator[Verdict]:
    """Judge whether a shell, sudo or another program that ran in between changed it."""
    for process, parent in through_program(case):
        launcher = process.edge.launcher
        sentence, remedy = through(case, process, parent)
        if launcher in LEAVES_AS_IT_IS:
            told = of_edge(process)
        else:
            filtered = known_filter(case, launcher)
            told = (*of_edge(process), *filtered, *duplicate(case, parent))
        yield Verdict(cause(CauseId.REWRITTEN_BY_PROGRAM, sentence, told, (), remedy))
    for hop, parent in passed(case):
        if runs_code(hop.process.edge):
            yield _hidden_program(case, hop.process, parent)


def _hidden_program(case: Case, child: Process, parent: Process) -> Verdict:
    """Judge a program that exec'd in place between parent and child, and left no process.

    It can be the child itself, which ran other code before its last exec.
    """
    sentence = (
        f"A program that exec'd between {parent.named} and {child.named} (a shell, env, sudo, a"
        f" wrapper, or {child.role.label or child.comm} itself before it exec'd once more)"
        f" {taken(case)} {case.name}."
    )
    hints = tuple(program_hints(case, child, parent))
    against: tuple[Sentence, ...] = ()
    if from_multiprocessing(child) and not hints:
        reason = (
            "multiprocessing starts the interpreter itself, and both run the same executable (a"
            " wrapper that set_executable names is the parent's own doing)."
        )
        against = (Sentence.of(reason),)
        # A title hides a wrapped command, and that a worker has exec'd itself once more.
        if child.edge.confidence is Confidence.PROVED and shows_its_start(child):
            made = cause(CauseId.REWRITTEN_BY_PROGRAM, sentence, (), against)
            return Verdict(made, fits=False)
    if child.edge.kind is EdgeKind.UNKNOWN:
        hints += (Sentence.of("What started it is gone: " + "; ".join(child.edge.evidence) + "."),)
    remedy = (
        f"Look at what wraps the start of {child.named}, and in its code for os.exec calls, and"
        f" pass {case.name} on."
    )
    return Verdict(cause(CauseId.REWRITTEN_BY_PROGRAM, sentence, hints, against, remedy))


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
                both_ends(case),
                came_so(case, process),
                remedy,
            )
        )


RULES: list[tuple[CauseId, Rule]] = [
    (CauseId.NEVER_SET, never_set),
    (CauseId.AT_SECURE, at_secure),
    (CauseId.BUILT_BY_LAUNCHER, built_by_launcher),
    *OF_UNIT,
    (CauseId.FROZEN_IN_FORKSERVER, frozen_in_forkserver),
    (CauseId.SET_LATE_IN_PARENT, set_late_in_parent),
    (CauseId.FORK_CHILD, fork_child),
    (CauseId.DROPPED_AROUND_SPAWN, dropped_around_spawn),
    (CauseId.REWRITTEN_BY_PROGRAM, rewritten_by_program),
    (CauseId.CHANGED_IN_PARENT, changed_in_parent),
    (CauseId.CHANGED_IN_WORKER, changed_in_worker),
    (CauseId.SET_AFTER_START, set_after_start),
    (CauseId.C_LEVEL_SETENV, c_level_setenv),
    (CauseId.OS_PUTENV, os_putenv),
    (CauseId.NCCL_CONF_FILE, nccl_conf_file),
    (CauseId.OS_ENVIRON_EDITED, os_environ_edited),
]
"""Every rule, the likeliest first among those with as much evidence."""


# --- evidence ------------------------------------------------------------------------------------


def _starter(child: Process, parent: Process) -> str:
    return "A process that is gone" if child.edge.kind is EdgeKind.UNKNOWN else parent.named


def _timed(seen: Timing, identity: CauseId, sentence: str, remedy: str) -> Verdict:
    made = cause(identity, sentence, seen.late, (*seen.in_time, *seen.doubt), remedy)
    return Verdict(made, fits=not seen.excluded)


def _changed(case: Case, process: Process, identity: CauseId) -> Verdict:
    sentence = f"Code in {_actor(case, process)} {taken(case)} {case.name} after its start."
    loader = any(one.pid == process.pid for one in loaded(case)) and process.secure
    if loader and case.change is Change.LOST and removed_when_secure(case.name):
        reason = (
            f"AT_SECURE is 1 in {process.named}: the loader had removed it before any code ran."
        )
        made = cause(identity, sentence, (), (Sentence.of(reason),))
        return Verdict(made, fits=False)
    remedy = (
        f"Look in the code of {process.named}, its start-up hooks and libraries for what assigns"
        f" or deletes {case.name}."
    )
    return Verdict(cause(identity, sentence, both_ends(case), came_so(case, process), remedy))


def _actor(case: Case, process: Process) -> str:
    """Name the process whose code ran: of one forked from outside the scan, that may be another."""
    forked_here = process.edge.kind in FORKED and process.pid != case.way.processes[0].pid
    if forked_here or process.image_owner == process.pid:
        return process.named
    return f"{process.named}, or in the process from which it was forked,"
