"""The check `exec-view-inferred`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import who
from envprobe.checks.finding import Check, Context, Finding, Severity
from envprobe.model import Confidence, Process, Sentence, View


def _run(context: Context) -> Iterator[Finding]:
    inferred = [one for one in who.workers(context) if _is_inferred(one)]
    for group in who.folded(inferred, _key).values():
        yield _finding(context, group)


def _is_inferred(process: Process) -> bool:
    view = process.environment(View.EXEC)
    return view.confidence is Confidence.INFERRED and bool(view.entries)


def _key(process: Process) -> tuple[str, float | None]:
    view = process.environment(View.EXEC)
    return view.source, view.at


def _finding(context: Context, group: list[Process]) -> Finding:
    source, at = _key(group[0])
    pids = tuple(process.pid for process in group)
    return Finding(
        check=CHECK.slug,
        severity=CHECK.severity,
        message=Sentence.of(
            f"The exec view of {who.in_words(context, pids)} is inferred from {source}, which"
            f" started at {who.moment(at)}{_lead(at, group)}: a change of the parent in between is"
            " not in it."
        ),
        confidence=Confidence.INFERRED,
        pids=pids,
        remedy=Sentence.of(
            "To read the exec view itself, set SPT_NOENV=1 before the next start of the server."
        ),
    )


def _lead(at: float | None, group: list[Process]) -> str:
    if at is None:
        return ""
    lead = min(process.start_time for process in group) - at
    return f", {abs(lead):.1f} s {'before' if lead >= 0 else 'after'} the first of them"


CHECK = Check(
    id="EP020",
    slug="exec-view-inferred",
    severity=Severity.INFO,
    summary="What a worker was handed at its start is taken from a sibling's block.",
    why="The worker's own block is wiped or refused. Python's resource tracker is started by the"
    " same parent, is never retitled, and its block can be read without attaching; so it stands in."
    " It may have started before a later change of the parent, and it proves nothing about the"
    " worker's live environment.",
    mend="Nothing needs to be done. To read the worker's own block, set SPT_NOENV=1 before the next"
    " start of the server.",
    run=_run,
)
