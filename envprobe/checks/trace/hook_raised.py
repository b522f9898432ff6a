"""The check `hook-raised`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.trace.about import TraceContext, found
from envprobe.startup.result import Hook, Outcome
from envprobe.startup.traced import Answer
from envprobe.startup.types import Bytecode, Kind, Raised

_LINE_NOT_KNOWN: Final = (
    "Import the hook by hand with the same interpreter and environment: the traceback says where it"
    " raises."
)


def _run(context: TraceContext) -> Iterator[Finding]:
    for answer, hook in context.hooks():
        if hook.outcome is Outcome.RAISED and hook.raised is not None:
            name = hook.path or f"importing {hook.name}"
            yield _finding(context, answer, name, hook.raised, _remedy(answer, hook))
        for path, raised in hook.chained_raised.items():
            remedy = "" if raised.file else _LINE_NOT_KNOWN
            name = path if path == hook.path else f"{path}, which {hook.path} runs,"
            yield _finding(context, answer, name, raised, remedy)


def _finding(
    context: TraceContext, answer: Answer, name: str, raised: Raised, remedy: str
) -> Finding:
    where = f" at {raised.file}:{raised.line}" if raised.file else ""
    what = f"{raised.type}: {raised.message}" if raised.message else raised.type
    told = f"{name} raised {what}{where}: it did not run to its end, and no exit code shows it"
    return found(CHECK, context, answer, told, remedy=remedy)


def _remedy(answer: Answer, hook: Hook) -> str:
    """Return the remedy for bytecode, or where no line is known; "" for the check's own."""
    walk = answer.startup.walk
    for one in walk.of(hook.name) if walk is not None else ():
        if one.file.path == hook.path and one.bytecode is Bytecode.CORRUPT:
            return f"Remove {one.cached}, which is damaged; Python writes a new one."
        if one.file.path == hook.path and one.kind is Kind.SOURCELESS:
            return f"Compile {hook.path} again: it holds no code that can be read."
    return "" if hook.raised is not None and hook.raised.file else _LINE_NOT_KNOWN


CHECK = Check(
    id="EP103",
    slug="hook-raised",
    severity=Severity.ERROR,
    summary="A sitecustomize or usercustomize raised an exception.",
    why="The interpreter goes on with exit code 0 and one line on stderr. What the hook did "
    "before that line stays, what comes after it is missing, and the module is not in "
    "sys.modules.",
    mend="Mend the line that the finding names. Keep a hook small, and let it catch and log "
    "its own errors.",
    run=_run,
)
