"""The check `env-unknown`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import undecided, who, worker_unreadable
from envprobe.checks.finding import Check, Context, Finding, Severity, Undetermined
from envprobe.checks.outcomes import Outcome, Status, outcomes, without_process
from envprobe.model import Sentence, State


def _run(context: Context) -> Iterator[Finding]:
    unknown = [one for one in context.once(outcomes) if one.status is Status.UNKNOWN]
    for together in undecided.together(unknown):
        yield _undecided(context, together)
    for role, expectations in who.folded(without_process(context), lambda one: one.role).items():
        names = [one.name for one in expectations]
        variable = names[0] if len(names) == 1 else ""
        yield undecided.no_process(CHECK, role, names, variable)


def _undecided(context: Context, together: list[list[Outcome]]) -> Finding:
    first = together[0][0]
    pids = tuple(one.pid for one in together[0])
    names = list(dict.fromkeys(group[0].expectation.name for group in together))
    those = who.some(names, undecided.ONE_BY_ONE)
    told = {one.pid for one in context.once(worker_unreadable.unread)}
    reason = first.reason or "the libc view cannot be read"
    if first.reading.state is State.UNREADABLE and told.issuperset(pids):
        reason = f"see {worker_unreadable.CHECK.slug} ({worker_unreadable.CHECK.id})"
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(
            f"Cannot tell whether what is expected of {those} holds in"
            f" {who.in_words(context, pids)}: {reason.rstrip('.')}."
        ),
        pids=pids,
        variable=names[0] if len(names) == 1 else "",
        evidence=tuple(
            Sentence.of(
                f"{group[0].expectation.name} is expected by {group[0].expectation.origin}."
            )
            for group in together
        ),
        remedy=Sentence.of(first.remedy or _REMEDY),
        undetermined=True,
    )


_REMEDY = "Run envprobe as root or as the user of the server."

CHECK = Check(
    id="EP006",
    slug="env-unknown",
    severity=Severity.ERROR,
    summary="Whether an expectation holds could not be determined.",
    why="What cannot be read is not the same as what is not set. A gate that took it for right"
    " would let a broken server pass; one that took it for wrong would stop a healthy one.",
    mend="Do what the finding's remedy says: usually run envprobe as root or as the user of the"
    " server, start the server with SPT_NOENV=1, or wait until its processes have their titles"
    " (--wait). To accept it knowingly, use --allow-unknown env-unknown.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
