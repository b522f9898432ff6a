"""The check `patch-unknown`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import hooked, patched, undecided, who
from envprobe.checks.finding import Check, Context, Finding, Severity, Undetermined
from envprobe.checks.hooked import Hooked
from envprobe.checks.patched import Patched, Status, name_of
from envprobe.model import Sentence


def _run(context: Context) -> Iterator[Finding]:
    every: list[Patched | Hooked] = [
        *context.once(patched.outcomes),
        *context.once(hooked.outcomes),
    ]
    unknown = [one for one in every if one.status is Status.UNKNOWN]
    for together in undecided.together(unknown):
        yield _undecided(context, together)
    waiting = context.once(patched.without_process)
    for role, expectations in who.folded(waiting, lambda one: one.role).items():
        yield undecided.no_process(CHECK, role, [name_of(one) for one in expectations])


def _undecided(context: Context, together: list[list[Patched | Hooked]]) -> Finding:
    first = together[0][0]
    pids = tuple(one.pid for one in together[0])
    expectations = [group[0].expectation for group in together]
    names = who.some(dict.fromkeys(name_of(one) for one in expectations), undecided.ONE_BY_ONE)
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(
            f"Cannot tell whether what is expected of {names} holds in"
            f" {who.in_words(context, pids)}: {first.reason.rstrip('.')}."
        ),
        pids=pids,
        evidence=tuple(
            Sentence.of(f"{name_of(one)} is expected to come from {one.source}, by {one.origin}.")
            for one in expectations
        ),
        remedy=Sentence.of(f"{first.remedy.rstrip('.')}."),
        undetermined=True,
    )


CHECK = Check(
    id="EP030",
    slug="patch-unknown",
    severity=Severity.ERROR,
    summary="Whether an attribute is patched, or a hook is loaded, could not be told.",
    why="The interpreter of the worker could not be read, what was found does not tell where its"
    " code comes from (native code, code made at run time) or contradicts itself (a class that"
    " names one module while its methods are of another file), or the patch is wrapped or kept by"
    " code of another, which may or may not call it. That is neither patched nor not patched.",
    mend="The reason names the obstacle and the remedy what to do: run envprobe as root or as the"
    " user of the server, or expect the other of the two, a module or a path.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
