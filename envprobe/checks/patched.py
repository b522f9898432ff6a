"""What became of each patched attribute in each process that is expected to have it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from typing import Final

from envprobe.checks import who
from envprobe.checks.finding import Context
from envprobe.checks.sources import Source, sources_of
from envprobe.config import HookExpectation, PatchExpectation
from envprobe.model import Process
from envprobe.pythonfacts import Answer, AnswerState, Inside, PythonState

_UNREAD: Final = {
    PythonState.READ: "it was not asked in this scan",
    PythonState.NO_PYTHON: "it runs no Python",
    PythonState.UNKNOWN_BUILD: "its build of Python is not known",
    PythonState.NOT_RUNNING: "its interpreter does not run",
    PythonState.UNREADABLE: "its interpreter cannot be read",
    PythonState.CHANGING: "its interpreter changed at each attempt to read it",
}
_NOT_ASKED: Final = "its interpreter was not read in this scan"
_ASK: Final = "Scan the running server with this expectation; facts saved without it do not tell."
_AGAIN: Final = "Scan again, as root or as the user of the server."
_NO_FILE: Final = "the file that it was loaded from cannot be told"
_FORM: Final = ("a module", "the path of its file")
_OTHER: Final = "Expect {} instead, if that can be told; `envprobe inspect` shows what it is."
_READ_CODE: Final = "Read its code; if it calls the patch, expect the module of that code instead."


class Status(str, enum.Enum):
    """What became of one expectation inside one process."""

    HOLDS = "holds"
    BROKEN = "broken"
    NOT_IMPORTED = "not_imported"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class Patched:
    """One expected patch in one process.

    `found` is where what the attribute holds comes from, None if there is nothing; `answer` is None
    if it was not asked. `reason` and `remedy` say why the rest is not known.
    """

    expectation: PatchExpectation
    pid: int
    status: Status
    answer: Answer | None = None
    found: Source | None = None
    reason: str = ""
    remedy: str = ""


def outcomes(context: Context) -> tuple[Patched, ...]:
    """Return the outcome of every expected patch in every process that it speaks of, in order."""
    return tuple(
        _judge(one, process)
        for one in context.config.patches
        for process in who.of_role(context, one.role)
    )


def without_process(context: Context) -> tuple[PatchExpectation | HookExpectation, ...]:
    """Return what is expected inside the processes of a role that no process has."""
    return tuple(
        one for one in context.config.inside if one.role and not who.of_role(context, one.role)
    )


def name_of(expectation: PatchExpectation | HookExpectation) -> str:
    """Return what an expectation speaks of: a question, or the name of a hook."""
    return expectation.query if isinstance(expectation, PatchExpectation) else expectation.name


def unread(inside: Inside | None, answer: Answer | None) -> tuple[str, str]:
    """Return why there is no answer that could be judged, and what to do about it."""
    if inside is None:
        return _NOT_ASKED, _ASK
    if answer is not None:
        changing = answer.state is AnswerState.CHANGING
        otherwise = "it changed at each attempt to read it" if changing else "it cannot be read"
        return answer.reason or otherwise, answer.remedy or _AGAIN
    reason = inside.reason or _UNREAD[inside.state]
    return reason, inside.remedy or (_ASK if inside.state is PythonState.READ else _AGAIN)


def _judge(expectation: PatchExpectation, process: Process) -> Patched:
    inside = process.inside
    answer = inside.answer(expectation.query) if inside is not None else None
    made = Patched(expectation, process.pid, Status.UNKNOWN, answer)
    if answer is None or answer.state in (AnswerState.UNREADABLE, AnswerState.CHANGING):
        reason, remedy = unread(inside, answer)
        return dataclasses.replace(made, reason=reason, remedy=remedy)
    if answer.state is AnswerState.NOT_IMPORTED:
        return dataclasses.replace(made, status=Status.NOT_IMPORTED, reason=answer.reason)
    if answer.state is AnswerState.ABSENT:
        return dataclasses.replace(made, status=Status.BROKEN, reason=answer.reason)
    return _by_source(made, answer, process.cwd)


def _by_source(made: Patched, answer: Answer, cwd: str | None) -> Patched:
    prefix = made.expectation.source
    sources = sources_of(answer)
    verdicts = [(one.is_from(prefix, cwd), one) for one in sources.own]
    for verdict, one in verdicts:
        if verdict:
            return dataclasses.replace(made, status=Status.HOLDS, found=one)
    made = dataclasses.replace(made, found=sources.own[-1])
    if answer.module is not None and answer.module.initializing:
        reason = f"{answer.module.name} is being imported, and may be patched at the end of that"
        return dataclasses.replace(made, status=Status.NOT_IMPORTED, reason=reason)
    for verdict, one in verdicts:
        if verdict is None:
            return _in_doubt(made, one)
    # A stranger's wrapper may call the patch through what it keeps; the original calls itself.
    module = answer.module.name if answer.module is not None else ""
    stranger = module not in sources.own[-1].modules
    for one in sources.inner:
        verdict = one.is_from(prefix, cwd)
        if verdict or (verdict is None and stranger):
            return _wrapped(made, one)
    return dataclasses.replace(made, status=Status.BROKEN)


def _in_doubt(made: Patched, source: Source) -> Patched:
    path = "/" in made.expectation.source
    otherwise = _NO_FILE if path else f"it runs as __main__, and may be {made.expectation.source}"
    remedy = _READ_CODE if source.open and not source.doubt else _OTHER.format(_FORM[not path])
    return dataclasses.replace(
        made,
        found=source,
        reason=f"it holds {source.said}; {source.doubt or source.open or otherwise}",
        remedy=remedy,
    )


def _wrapped(made: Patched, inner: Source) -> Patched:
    assert made.found is not None
    return dataclasses.replace(
        made,
        reason=f"it holds {made.found.said}, which holds {inner.said} and may or may not call it",
        remedy="Read the code of the outer one; if it calls the patch, expect its module instead.",
    )


def undecided(context: Context) -> Iterator[str]:
    """Yield the questions that another scan may still decide, and what waits for its process."""
    yield from map(name_of, context.once(without_process))
    for one in context.once(outcomes):
        if one.status is Status.NOT_IMPORTED or (one.status is Status.UNKNOWN and not one.found):
            yield one.expectation.query
