"""The check `patch-not-imported`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import patched, who
from envprobe.checks.finding import Check, Context, Finding, Severity, Undetermined
from envprobe.checks.patched import Patched, Status
from envprobe.model import Sentence


def _run(context: Context) -> Iterator[Finding]:
    waiting = [one for one in context.once(patched.outcomes) if one.status is Status.NOT_IMPORTED]
    for group in who.folded(waiting, lambda one: (one.expectation, one.reason)).values():
        yield _finding(context, group)


def _finding(context: Context, group: list[Patched]) -> Finding:
    first = group[0]
    pids = tuple(one.pid for one in group)
    answers = [one.answer for one in group if one.answer is not None]
    # Where a worker has what was meant, the question is wrong, also for those that are not so far.
    told = next((answer for answer in answers if answer.remedy), None) or first.answer
    notes = told.notes if told is not None else ()
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(
            f"Cannot tell yet whether {first.expectation.query} is patched in"
            f" {who.in_words(context, pids)}: {first.reason.rstrip('.')}."
        ),
        pids=pids,
        evidence=(
            Sentence.of(f"Expected by {first.expectation.origin}."),
            *(
                Sentence.of(note if note.endswith("?") else f"{note.rstrip('.')}.")
                for note in notes
            ),
        ),
        remedy=Sentence.of((told.remedy if told is not None else "") or _WAIT),
        undetermined=True,
    )


_WAIT = (
    "Wait for the import with `--wait N`, and send a first request if the server imports the module"
    " only then. If it never does, it runs other code (another attention backend, another model):"
    " expect the patch of that."
)

CHECK = Check(
    id="EP026",
    slug="patch-not-imported",
    severity=Severity.ERROR,
    summary="A module that should be patched is not imported yet.",
    why="A good hook waits until the module is imported and patches it then: before that nothing"
    " can be said. The worker may still be starting, may import the module at its first request, or"
    " may never import it, because it uses another backend: then the patch has no effect.",
    mend="Scan later, or with --wait N, which goes on while a module is not imported. If the module"
    " never comes, look which backend the server has chosen.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
