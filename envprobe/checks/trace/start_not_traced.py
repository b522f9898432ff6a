"""The check `start-not-traced`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.trace.about import TraceContext, found
from envprobe.startup.result import Outcome


def _run(context: TraceContext) -> Iterator[Finding]:
    for answer in context.traced.answers:
        for problem in answer.startup.problems:
            yield found(CHECK, context, answer, problem, undetermined=True)
        run = answer.startup.run
        ended = {hook.outcome for hook in answer.startup.hooks} & {Outcome.ENDED, Outcome.STOPPED}
        if not run.answered and not ended:
            how = f"for {run.stopped}" if run.stopped else f"with exit code {run.code}"
            yield found(
                CHECK,
                context,
                answer,
                f"the interpreter ended {how} before it could say what its hooks have done",
                evidence=[f"its last words: {run.said}"] if run.said else [],
                undetermined=True,
            )


CHECK = Check(
    id="EP101",
    slug="start-not-traced",
    severity=Severity.ERROR,
    summary="What an interpreter does at its start could not be found out.",
    why="Which hook runs, or which others it hides, stays open. That is no proof of anything: "
    "a hook that closes every descriptor, takes sys.path away or never ends can keep the "
    "interpreter from answering.",
    mend="Read the last words of the interpreter in the evidence. Run it by hand with `-v` and "
    "the same environment, or give --timeout more seconds.",
    run=_run,
    undetermined=Undetermined.ALWAYS,
)
