"""The check `winner-unexpected`."""

from __future__ import annotations

from collections.abc import Iterator

from envprobe.checks.finding import Check, Finding, Severity, Undetermined
from envprobe.checks.trace import winner_cause
from envprobe.checks.trace.about import TraceContext, found, place
from envprobe.model import Confidence
from envprobe.startup.result import Hook, Outcome
from envprobe.startup.traced import Answer
from envprobe.startup.types import MODULES, SITECUSTOMIZE, Asked, Bytecode, Candidate

_OLD_CODE = (Bytecode.UNCHECKED_STALE, Bytecode.AGREES_BUT_DIFFERS)


def _run(context: TraceContext) -> Iterator[Finding]:
    wanted = context.expected.winner
    if wanted is None:
        return
    for answer in context.traced.answers:
        path = place(answer.startup.launch, wanted)
        asked = {question.asked for question in answer.questions}
        if Asked.AGAIN in asked:
            yield from _in_memory(context, answer, path)
        if asked != {Asked.AGAIN}:
            yield from _at_start(context, answer, path)


def _in_memory(context: TraceContext, answer: Answer, path: str) -> Iterator[Finding]:
    """Judge what the process has loaded, where a start today would load something else."""
    target = context.traced.target
    held = target.loaded if target is not None and target.loaded is not None else {}
    if not any(_is(answer, path, one) for one in held.values()):
        told = f"{path} was expected to win, but the process has"
        told += f" {held.get(SITECUSTOMIZE) or 'no sitecustomize'} in its memory"
        # The memory is asked for the two hooks only, not for what startup files import.
        open_ = winner_cause.stem(path) not in MODULES
        yield found(CHECK, context, answer, told, undetermined=open_, of_memory=True)


def _at_start(context: TraceContext, answer: Answer, path: str) -> Iterator[Finding]:
    told, evidence, remedy, unknown = _judged(answer, path)
    if _inferred_only(context, answer):
        evidence = [*evidence, "what the process was started with is inferred"]
        told, unknown = told or f"{path} would win, but what this process ran is not known", True
    if told:
        yield found(
            CHECK, context, answer, told, evidence=evidence, remedy=remedy, undetermined=unknown
        )


def _inferred_only(context: TraceContext, answer: Answer) -> bool:
    """Return whether neither the start of the process is known nor what it has in memory."""
    target = context.traced.target
    return (
        target is not None
        and target.loaded is None
        and any(
            one.asked is Asked.RAN and one.confidence is Confidence.INFERRED
            for one in answer.questions
        )
    )


def _judged(answer: Answer, path: str) -> tuple[str, list[str], str, bool]:
    """Return what is wrong ("" for nothing), evidence, remedy, and whether it is not known."""
    for hook in answer.startup.hooks:
        if hook.outcome is Outcome.RAN and any(_is(answer, path, one) for one in _files(hook)):
            old = _old_code(answer, hook)
            told = f"{path} wins, but its code is not what ran: {old} is other code" if old else ""
            remedy = f"Remove {old}; Python writes a new one." if old else ""
            return told, [], remedy, False
    hook = answer.startup.hook(SITECUSTOMIZE)
    told = f"{path} was expected to win, but {_told(hook)}"
    evidence, remedy = winner_cause.of(answer, path)
    return told, evidence, remedy, hook.outcome is Outcome.UNKNOWN or answer.unsure


def _files(hook: Hook) -> tuple[str, ...]:
    return (hook.path,) if hook.name in MODULES else hook.files


def _is(answer: Answer, path: str, file: str) -> bool:
    """Return whether a file is the one that was expected; links do not matter."""
    walk = answer.startup.walk
    names = {path}
    if walk is not None and walk.wanted is not None and walk.wanted.path == path:
        names.add(walk.wanted.real)
    real = (one.file.real for one in _candidates(answer) if one.file.path == file)
    return not names.isdisjoint((file, *real))


def _candidates(answer: Answer) -> tuple[Candidate, ...]:
    walk = answer.startup.walk
    return walk.candidates if walk is not None else ()


def _old_code(answer: Answer, hook: Hook) -> str:
    """Return the bytecode that ran in the place of a source that is other code, or ""."""
    for one in _candidates(answer):
        if one.file.path == hook.path and one.bytecode in _OLD_CODE:
            return one.cached
    return ""


def _told(hook: Hook) -> str:
    if not hook.path:
        why = "none is found" if hook.outcome is Outcome.ABSENT else hook.outcome.value
        return f"no sitecustomize runs ({hook.reason or why})"
    if hook.outcome is Outcome.RAN:
        return f"{hook.path} does"
    return f"{hook.path} is found and does not run to its end ({hook.outcome.value})"


CHECK = Check(
    id="EP102",
    slug="winner-unexpected",
    severity=Severity.ERROR,
    summary="The hook that --expect-winner names does not run, or not to its end, or as old code.",
    why="Only one sitecustomize runs. If it is not yours, nothing of what yours does is "
    "there, and no message says so. A hook under a name of its own runs if a startup file of "
    "site-packages imports it. If the cached bytecode is other code than the source, the "
    "source did not run either. With --pid the memory of the process decides where a start "
    "today would load another hook.",
    mend="Use one of the ways that the finding hook-shadowed lists for this interpreter, and "
    "run the command again.",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
