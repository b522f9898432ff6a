"""The words of causes: what somebody did to a variable, and how."""

from __future__ import annotations

from typing import Final

from envprobe.model import Confidence, Process
from envprobe.routes.case import Case
from envprobe.routes.programs import LEAVES_AS_IT_IS
from envprobe.routes.timing import Timing
from envprobe.routes.types import Change
from envprobe.routes.witnesses import from_multiprocessing

_TAKEN: Final = {Change.CHANGED: "changed", Change.APPEARED: "set"}
"""What somebody did to the variable; for what was lost, or never there, `removed`."""


def taken(case: Case) -> str:
    """Return what somebody did to the variable."""
    return _TAKEN.get(case.change, "removed")


def lost_or(case: Case, lost: str) -> str:
    """Return what somebody did to the variable, `lost` if it is gone."""
    return _TAKEN.get(case.change, lost)


def for_a_moment(case: Case) -> str:
    """Return what a parent had for the moment in which it started this child."""
    if case.change is Change.APPEARED:
        return f"{case.name}, which had been set for that moment"
    if case.change is Change.CHANGED:
        return f"another value of {case.name} for that moment"
    return f"no {case.name}, which had been removed for that moment"


def late(case: Case) -> str:
    """Return what a parent did, if it did it after it had started this child."""
    if case.change is Change.APPEARED:
        return f"removed {case.name}"
    if case.change is Change.CHANGED:
        return f"gave {case.name} the value that it has now"
    return f"set {case.name}"


def do(case: Case) -> str:
    """Return what the user should have done earlier."""
    return f"Remove {case.name}" if case.change is Change.APPEARED else f"Set {case.name}"


def forked(
    case: Case, child: Process, parent: Process, seen: Timing, *, server: bool
) -> tuple[str, str]:
    """Return how a fork can explain the difference, and what to do about it."""
    before = f"before {parent.named} {late(case)}"
    around = f"while {parent.named} had {for_a_moment(case)}"
    look = f"Look in the code of {parent.named} for what changes {case.name} around the fork."
    if server:
        when, remedy = before, f"{do(case)} before the fork."
    elif seen.excluded:
        when, remedy = around, look
    else:
        when, remedy = f"{before}, or {around}", f"{do(case)} before the fork. {look}"
    return f"{child.named} was forked {when}, and keeps the memory of that time.", remedy


def ways_around_spawn(child: Process) -> tuple[str, str]:
    """Return how a parent can give a child another environment, and what to look for.

    multiprocessing has no env=; the program that its set_executable names can be a wrapper.
    """
    if from_multiprocessing(child) and child.edge.confidence is Confidence.PROVED:
        return (
            "by a change of its own environment for that moment, or through a wrapper that"
            " multiprocessing's set_executable names",
            "changes of os.environ around it and for set_executable",
        )
    return (
        "by env=, or by a change of its own environment for that moment",
        "env= and for changes of os.environ around it",
    )


def through(case: Case, child: Process, parent: Process | None) -> tuple[str, str]:
    """Return what a launcher, or a program that it ran first, did; and what to do about it.

    Whatever execs in place after the launcher leaves no process, and so cannot be told from it.
    """
    launcher = child.edge.launcher
    if launcher in LEAVES_AS_IT_IS and parent is not None:
        return (
            f"A program that exec'd between {parent.named} and {child.named} (env, a shell, sudo)"
            f" {taken(case)} {case.name}; {parent.comm} itself changes no variable.",
            f"Look at the command that {parent.named} runs, and pass {case.name} on in it.",
        )
    between = f"{launcher} ({parent.named})" if parent else launcher
    return (
        f"{between}, or a program that it ran and that exec'd {child.named},"
        f" {taken(case)} {case.name}.",
        f"Look at the script or the options of {launcher} and at what wraps the command in it, and"
        f" pass {case.name} on.",
    )
