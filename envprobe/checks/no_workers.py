"""The check `no-workers`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from envprobe.checks import who
from envprobe.checks.finding import Check, Context, Finding, Severity, Undetermined
from envprobe.model import Process, Sentence, Shown, View

STARTING_SECONDS: Final = 900.0
"""A server that is younger than this may still be loading its model."""

_RAY_OPTIONS: Final = (
    "--use-ray",
    "--distributed-executor-backend=ray",
    "--data-parallel-backend=ray",
)
_MAX_WORDS: Final = 4096
_MAX_REASONS: Final = 8
_REMOTE: Final = ("ssh", "srun", "salloc", "sbatch", "pdsh", "dsh")

Reason = tuple[Sentence, Sentence]


def _run(context: Context) -> Iterator[Finding]:
    if context.routing.workers():
        return
    snapshot = context.routing.snapshot
    reasons = list(itertools.islice(_reasons(context), _MAX_REASONS))
    reasons = reasons or [_no_known_cause(context)]
    yield Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(
            f"No worker found among {len(snapshot.processes)}"
            f" process{'' if len(snapshot.processes) == 1 else 'es'} at or below"
            f" {who.in_words(context, snapshot.roots) or 'the target'}, so nothing was checked."
        ),
        pids=snapshot.roots,
        evidence=tuple(reason for reason, _ in reasons),
        remedy=_alternatives([remedy for _, remedy in reasons]),
        undetermined=True,
    )


def _alternatives(remedies: list[Sentence]) -> Sentence:
    parts: list[str | Shown] = []
    for remedy in dict.fromkeys(remedies):
        parts += [" Or: ", *remedy.parts]
    return Sentence(tuple(parts[1:]))


def _reasons(context: Context) -> Iterator[Reason]:
    for process in context.routing.snapshot.processes:
        yield from _reason_of(context, process)
    dead = [one for one in context.routing.snapshot.processes if one.was_worker is not False]
    if dead:
        yield _dead(dead)
    yield from _starting(context, may_start=not dead)
    orphans = [one.pid for one in context.routing.snapshot.processes if one.orphan]
    if orphans:
        yield (
            Sentence.of(
                f"{who.in_words(context, orphans)}: left behind by an earlier launch, not counted."
            ),
            Sentence.of(
                "Start the server again once what the earlier launch left behind has ended."
            ),
        )


def _reason_of(context: Context, process: Process) -> Iterator[Reason]:
    name = who.named(context, process.pid)
    if process.role.name == "container client":
        yield (
            Sentence.of(
                f"{name} is the client of a container engine ({process.comm}): the container's"
                " processes are not its children."
            ),
            Sentence.of(
                "Give the container's own first process: --container ID, or --pid with the number"
                " that `docker inspect -f '{{.State.Pid}}' ID` prints."
            ),
        )
    if process.pid in context.routing.snapshot.roots and _drives_ray(process):
        yield (
            Sentence.of(f"{name} uses Ray, whose workers are children of the raylet."),
            Sentence.of(
                "Add them by their titles: --match 'ray::*' (or --match 'sglang::scheduler*')."
            ),
        )
    if process.comm in _REMOTE:
        yield (
            Sentence.of(f"{name} is {process.comm}, whose command runs outside this tree."),
            Sentence.of(
                "Run envprobe on the node where the workers run, with the launcher's pid there."
            ),
        )


def _drives_ray(process: Process) -> bool:
    words = process.title[:_MAX_WORDS]
    pairs = {f"{one}={two}" for one, two in itertools.pairwise(words)}
    if not pairs.union(words).isdisjoint(_RAY_OPTIONS) or process.role.framework == "ray":
        return True
    return "RAY_ADDRESS" in process.environment(View.LIBC).entries


def _dead(dead: list[Process]) -> Reason:
    names = who.some((f"{one.comm} (PID {one.pid})" for one in dead), who.NAMED)
    one = len(dead) == 1
    were = "was a worker" if one else "were workers"
    sure = were if all(process.was_worker for process in dead) else "may have been a worker"
    if not one and sure != were:
        sure = "may have been workers"
    return (
        Sentence.of(f"{names} {'is' if one else 'are'} dead (zombie) and {sure}."),
        Sentence.of(
            "Read the end of the server's log for why its children died, and start it again: dead"
            " workers do not come back."
        ),
    )


def _starting(context: Context, may_start: bool) -> Iterator[Reason]:
    snapshot = context.routing.snapshot
    untitled = [one.pid for one in snapshot.processes if not one.role.final]
    if untitled:
        yield (
            Sentence.of(f"{who.in_words(context, untitled)}: started, but without a title yet."),
            Sentence.of("Wait until they have their titles: --wait N --timeout 600."),
        )
        return
    for root in snapshot.roots if may_start else ():
        process = who.process_of(context, root)
        if process is None or not _may_start_workers(process):
            continue
        age = snapshot.ended - process.start_time
        if 0 <= age < STARTING_SECONDS:
            yield (
                Sentence.of(
                    f"{who.named(context, root)} started {age:.0f} s ago and may be starting."
                ),
                Sentence.of("Wait for its workers: --wait N --timeout 600."),
            )


def _may_start_workers(process: Process) -> bool:
    return process.interpreter is not None or bool(process.role.framework)


def _no_known_cause(context: Context) -> Reason:
    roots = [who.process_of(context, root) for root in context.routing.snapshot.roots]
    known = [one for one in roots if one is not None and _may_start_workers(one)]
    if known:
        name = who.named(context, known[0].pid)
        said = f"No process at or below {name} has a title or command of a known worker."
    else:
        said = (
            "The target is no program that starts workers: its number may have been read inside a"
            " container, where it names another process."
        )
    return (
        Sentence.of(said),
        Sentence.of(
            "Run envprobe without --pid to list the launches on this host, or add processes outside"
            " the tree with --match PATTERN."
        ),
    )


CHECK = Check(
    id="EP001",
    slug="no-workers",
    severity=Severity.ERROR,
    summary="No worker was found below the target, so nothing could be checked.",
    why="A check that looks at nothing must not pass. The pid may be a `docker run` client, a Ray"
    " driver whose workers hang below a raylet, a number of another pid namespace, or a server"
    " that has not started its workers yet.",
    mend="Give the pid of the process that starts the workers, --container ID for a container,"
    " --match PATTERN for workers outside the tree, or --wait N for a server that is starting."
    " Without a target, envprobe lists the launches that it finds.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
