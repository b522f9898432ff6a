"""The check `winner-unexpected`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.trace.about import TraceContext, found, place
from envprobe.startup.result import Hook, Outcome
from envprobe.startup.traced import Answer
from envprobe.startup.types import SITECUSTOMIZE, Candidate


def _run(context: TraceContext) -> Iterator[Finding]:
    wanted = context.expected.winner
    if wanted is None:
        return
    for answer in context.traced.answers:
        hook = answer.startup.hook(SITECUSTOMIZE)
        path = place(answer.startup.launch, wanted)
        if hook.outcome is Outcome.RAN and path in (hook.path, _real(answer, hook.path)):
            continue
        yield found(
            CHECK,
            context,
            answer,
            f"{wanted} was expected to win, but {_told(hook)}",
            evidence=_evidence(answer, path),
            undetermined=hook.outcome is Outcome.UNKNOWN,
        )


def _real(answer: Answer, path: str) -> str:
    return next((one.file.real for one in _candidates(answer) if one.file.path == path), path)


def _candidates(answer: Answer) -> tuple[Candidate, ...]:
    walk = answer.startup.walk
    return walk.of(SITECUSTOMIZE) if walk is not None else ()


def _told(hook: Hook) -> str:
    if not hook.path:
        return f"no sitecustomize runs ({hook.reason or hook.outcome.value})"
    if hook.outcome is Outcome.RAN:
        return f"{hook.path} does"
    return f"{hook.path} is found and does not run to its end ({hook.outcome.value})"


def _evidence(answer: Answer, path: str) -> Iterator[str]:
    if path in answer.startup.hook(SITECUSTOMIZE).chained:
        yield "the winner has started it too; whether that came to its end is not known"
    mine = [one for one in _candidates(answer) if path in (one.file.path, one.file.real)]
    yield from (f"it loses: {one.reason}" for one in mine if one.reason)
    if not mine and answer.startup.walk is not None:
        yield "it lies in no entry of this interpreter's sys.path"


CHECK = Check(
    id="EP102",
    slug="winner-unexpected",
    severity=Severity.ERROR,
    summary="Another sitecustomize runs than --expect-winner names, or it does not run to its end.",
    why="Only one sitecustomize runs. If it is not yours, nothing of what yours does is "
    "there, and no message says so.",
    mend="Use one of the ways that the finding hook-shadowed lists for this interpreter, and "
    "run the command again.",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
