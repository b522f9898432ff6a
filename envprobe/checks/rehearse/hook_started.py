"""The check `rehearsed-hook-starts-processes`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.rehearse.about import RehearseContext, found, names, quoted
from envprobe.model import Sentence
from envprobe.rehearsal.types import Member

_SHOWN: Final = 8
_HELPERS: Final = ("from multiprocessing.forkserver", "from multiprocessing.resource_tracker")


def _run(context: RehearseContext) -> Iterator[Finding]:
    for rehearsed, one in context.told():
        guilty = [each for each in one.members if _starts(each)]
        if not guilty:
            continue
        # One that has ended, and was not waited for, has no command line any more.
        lines = dict.fromkeys(line for each in guilty for line in _lines(each) if line)
        yield found(
            CHECK,
            rehearsed,
            f"The start-up hooks start processes in {names(guilty)}.",
            members=guilty,
            evidence=[Sentence.of("Running: ", quoted(one), ".") for one in [*lines][:_SHOWN]],
        )


def _starts(member: Member) -> bool:
    """Return whether a process had children, living or not, when its hooks had run."""
    return member.effects.waited_for_children or bool(_lines(member))


def _lines(member: Member) -> list[str]:
    children = member.effects.children or ()
    return [line for line in children if not any(one in line for one in _HELPERS)]


CHECK = Check(
    id="EP511",
    slug="rehearsed-hook-starts-processes",
    severity=Severity.WARNING,
    summary="A start-up hook starts processes in the rehearsed server.",
    why="A process that a hook starts runs the hook again if it is Python and inherits the"
    " environment. What ends by a guard today is a storm once the guard is lost, and every"
    " interpreter of the server pays for it.",
    mend="Start nothing in a hook. If it must be, guard it by a variable that the child inherits,"
    " and use python -I -S.",
    run=_run,
)
