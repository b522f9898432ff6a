"""The check `rehearsed-hook-raised`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from envprobe.checks.finding import Check, Finding, Severity
from envprobe.checks.rehearse.about import RehearseContext, Rehearsed, found, names
from envprobe.checks.who import folded
from envprobe.rehearsal.types import Member, Rehearsal
from envprobe.startup.types import MODULES

_MODULE: Final = re.compile(
    r"^Error in (sitecustomize|usercustomize); set PYTHONVERBOSE for traceback:\n([\w.]+)", re.M
)
_LINE: Final = re.compile(
    r"^Error processing line (\d+) of (.+?):\n\n(?:.*\n)*?  ([A-Za-z_][\w.]*)(?::.*)?$", re.M
)
"""What site says (Lib/site.py execsitecustomize, addpackage)."""


def _run(context: RehearseContext) -> Iterator[Finding]:
    for rehearsed, one in context.told():
        raised = [(each, told) for each in one.members for told in _raised(each)]
        for told, group in folded(raised, lambda pair: pair[1]).items():
            members = [each for each, _ in group]
            text = f"{told} in {names(members)}."
            yield found(CHECK, rehearsed, text, members=members)
        yield from _of_helpers(rehearsed, one)


def _of_helpers(rehearsed: Rehearsed, one: Rehearsal) -> Iterator[Finding]:
    """Yield what only failed in the helpers of multiprocessing."""
    everywhere = {told for each in one.members for told in _raised(each)}
    for name, said in one.helpers.items():
        for told in dict.fromkeys(_told(said)):
            if told not in everywhere:
                text = f"{told} in the {name}."
                yield found(CHECK, rehearsed, text, severity=Severity.WARNING)


def _raised(member: Member) -> Iterator[str]:
    """Yield what went wrong in the hooks of one process, in words without their end."""
    said = list(dict.fromkeys(_told(member.said)))
    yield from said
    if member.effects.flags["no_site"] or said:
        return
    for module in MODULES:
        path = member.told.importable.get(module)
        own = member.node is None
        if own and path and module not in member.effects.loaded and module == MODULES[0]:
            yield f"{path} is found, and yet {module} is not loaded: it failed in silence"


def raised(member: Member, module: str) -> bool:
    """Return whether a hook has run in a process, and failed."""
    return any(match[1] == module for match in _MODULE.finditer(member.said))


def _told(said: str) -> Iterator[str]:
    for match in _MODULE.finditer(said):
        yield f"{match[1]} raises {match[2]}"
    for match in _LINE.finditer(said):
        yield f"line {match[1]} of {match[2]} raises {match[3]}"


CHECK = Check(
    id="EP504",
    slug="rehearsed-hook-raised",
    severity=Severity.ERROR,
    summary="A start-up hook fails in processes of the rehearsed server.",
    why="site prints one line and goes on: the server comes up, exit code 0, and the hook has done"
    " only what stands before the line that failed. The patch is missing, and the log is long.",
    mend="`envprobe trace-sitecustomize` with the same unit or command names the file and line.",
    run=_run,
)
