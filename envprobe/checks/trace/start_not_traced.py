"""The check `start-not-traced`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.trace.about import TraceContext, found, untold
from envprobe.startup.result import Outcome
from envprobe.startup.traced import Answer

_BLIND: Final = (
    "Foreign code is run without capabilities: give the user of the process the right to read it"
    " (chmod a+rX, chown), or trust what the process has in its memory."
)
_OPEN: Final = (
    "Set it where envprobe can read it, such as in Environment= or in the command line, or run"
    " envprobe as a user who may read the file."
)


def _run(context: TraceContext) -> Iterator[Finding]:
    for one in context.traced.untold:
        yield untold(CHECK, one)
    for answer in context.traced.answers:
        for problem in answer.startup.problems:
            yield found(CHECK, context, answer, problem, undetermined=True)
        for path in answer.blind:
            told = f"{path} cannot be read without the capabilities of the process"
            yield found(CHECK, context, answer, told, remedy=_BLIND, undetermined=True)
        for name, reason in answer.undecided.items():
            told = f"{name} decides which hooks run, and is not known: {reason}"
            yield found(CHECK, context, answer, told, remedy=_OPEN, undetermined=True)
        run = answer.startup.run
        ended = {hook.outcome for hook in answer.startup.hooks} & {Outcome.ENDED, Outcome.STOPPED}
        if not run.answered and not ended:
            told, remedy = _why(answer)
            evidence = [f"its last words: {run.said}"] if run.said else []
            yield found(
                CHECK,
                context,
                answer,
                told,
                evidence=evidence,
                remedy=remedy,
                undetermined=True,
            )


def _why(answer: Answer) -> tuple[str, str]:
    """Return why the interpreter has not answered, and a remedy, "" for the check's own."""
    run, name = answer.startup.run, answer.startup.run.stopped_by
    if not run.is_python:
        python = answer.startup.launch.python
        told = f"{python} is no Python 3: run with -v it says nothing of what Python says"
        return told, "Give the interpreter with --python PATH."
    if name:
        told = f"the interpreter does not start with this value of {name}; without it, it does"
        return told, f"Unset {name} or mend its value; --unset {name} tries it without."
    how = f"for {run.stopped}" if run.stopped else f"with exit code {run.code}"
    return f"the interpreter ended {how} before it could say what its hooks have done", ""


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
