"""What became of each expected start-up hook, and how hooks are put in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from envprobe.checks import who
from envprobe.checks.finding import Context
from envprobe.checks.patched import Status, unread
from envprobe.checks.sources import short
from envprobe.config import HookExpectation
from envprobe.model import Process
from envprobe.patchexpect import accepts_hook
from envprobe.pythonfacts import Answer, AnswerState

NOT_LOADED: Final = "not loaded"
_LOOK_WHO_SETS_FILE: Final = (
    "See which code sets __file__ of the hook (one hook that runs another?), and have it leave"
    " __file__ as it is."
)
_NO_FILE: Final = "a module without a file"
_NAMESPACE: Final = "an empty namespace package, in which no code ran"


@dataclasses.dataclass(frozen=True, slots=True)
class Hooked:
    """One expected hook in one process; `found` says what is loaded there, "" if not known."""

    expectation: HookExpectation
    pid: int
    status: Status
    found: str = ""
    reason: str = ""
    remedy: str = ""


def outcomes(context: Context) -> tuple[Hooked, ...]:
    """Return the outcome of every expected hook in every process that it speaks of, in order."""
    return tuple(
        _judge(one, process)
        for one in context.config.hooks
        for process in who.of_role(context, one.role)
    )


def loaded(answer: Answer | None) -> str:
    """Return what is loaded as a hook in words: a path, `NOT_LOADED`, ...; "" if not known."""
    if answer is None:
        return ""
    if answer.state is AnswerState.NOT_IMPORTED:
        return NOT_LOADED
    module = answer.found_module
    if answer.state is not AnswerState.VALUE or module is None:
        return ""
    if module.disputed:
        return short(f"{module.origin}, although its __file__ says {module.file}")
    if module.file:
        return short(module.file)
    return short(f"{_NAMESPACE} ({module.search[0]})") if module.search else _NO_FILE


def _judge(expectation: HookExpectation, process: Process) -> Hooked:
    inside = process.inside
    answer = inside.answer(expectation.name) if inside is not None else None
    found = loaded(answer)
    made = Hooked(expectation, process.pid, Status.BROKEN, found)
    if not found:
        reason, remedy = unread(inside, answer)
        return dataclasses.replace(made, status=Status.UNKNOWN, reason=reason, remedy=remedy)
    module = answer.found_module if answer is not None else None
    if module is None or not module.file:
        return made
    if module.disputed:
        reason = f"it is {found}: an import sets both alike"
        return dataclasses.replace(
            made, status=Status.UNKNOWN, reason=reason, remedy=_LOOK_WHO_SETS_FILE
        )
    accepted = accepts_hook(expectation, module.file, process.cwd)
    if accepted is None:
        reason = f"{found} is relative, and its current directory is not known"
        remedy = "Run envprobe as root or as the user of the process, or use absolute paths."
        return dataclasses.replace(made, status=Status.UNKNOWN, reason=reason, remedy=remedy)
    return dataclasses.replace(made, status=Status.HOLDS) if accepted else made


def undecided(context: Context) -> Iterator[str]:
    """Yield the hooks that another scan may still decide."""
    for one in context.once(outcomes):
        if one.status is Status.UNKNOWN and not one.found:
            yield one.expectation.name
