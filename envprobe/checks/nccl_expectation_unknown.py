"""The check `nccl-expectation-unknown`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks import nccl_expected, who
from envprobe.checks.finding import Check, Context, Finding, Severity, Undetermined
from envprobe.checks.nccl_expected import Status
from envprobe.model import Sentence

_NAMED = 6


def _run(context: Context) -> Iterator[Finding]:
    unknown = [one for one in context.once(nccl_expected.outcomes) if one.status is Status.UNKNOWN]
    by_process = who.folded(unknown, lambda one: (one.pid, one.reason, one.remedy))
    groups = who.folded(
        by_process.items(),
        lambda item: (
            tuple(dict.fromkeys(one.expectation.name for one in item[1])),
            item[0][1],
            item[0][2],
        ),
    )
    for (names, reason, remedy), items in groups.items():
        pids = tuple(dict.fromkeys(pid for (pid, _, _), _ in items))
        yield Finding(
            check=CHECK.slug,
            severity=CHECK.severity,
            message=Sentence.of(
                f"Cannot tell whether NCCL in {who.in_words(context, pids)} read what is expected"
                f" of {who.some(names, _NAMED)}: {reason.rstrip('.')}."
            ),
            pids=pids,
            variable=names[0] if len(names) == 1 else "",
            remedy=Sentence.of(remedy or nccl_expected.SHOW),
            undetermined=True,
        )


CHECK = Check(
    id="EP037",
    slug="nccl-expectation-unknown",
    severity=Severity.ERROR,
    summary="Whether NCCL read what [expect.nccl] asks for could not be determined.",
    why="No line in a log means nothing: NCCL reads some variables without printing them, others"
    " only when it makes a communicator, and shows nothing below NCCL_DEBUG=INFO. A worker without"
    " a log of its own proves nothing at all.",
    mend="Start the server with NCCL_DEBUG=INFO and NCCL_DEBUG_FILE=/tmp/nccl.%h.%p, or name the"
    " log with --nccl-log. To accept it knowingly, use --allow-unknown nccl-expectation-unknown.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
