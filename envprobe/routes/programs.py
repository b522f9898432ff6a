"""What the programs between two processes do to an environment, by their row in the launchers."""

from __future__ import annotations

import re
from typing import Final

from envprobe.model import Carries, Edge, EdgeKind

PYTHON: Final = "python"

STARTS_AFRESH: Final = frozenset(
    {
        "systemd",
        "sshd",
        "login",
        "cron",
        "slurmstepd",
        "mpi daemon",
        "mpirun",
        "container runtime",
        "kubelet",
        "supervisor",
        "tmux",
        "raylet",
    }
)
"""Rows of `data/launchers.json` whose programs give what they start an environment of its own.

The others, but for Python, pass on what they were given, as they or their script changed it.
"""

LEAVES_AS_IT_IS: Final = frozenset({"timeout", "container init", "exec in place"})
"""Rows whose programs run a command and never change a variable on the way to it.

env, which does, is in such a row too: it execs in place, and so never is the parent of what it ran.
"""

_FILTERS: Final = {
    "sudo": "sudo takes PYTHON*, LD_* and others away, also with -E, and resets the rest"
    " (sudoers(5), Command environment)",
    "su": "su - starts a new environment (su(1))",
}

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def filters(launcher: str, name: str) -> str:
    """Return what a program does to a variable without being asked, "" if nothing is known."""
    if launcher == "dash" and not _IDENTIFIER.fullmatch(name):
        return "dash drops names that are no identifiers (measured)"
    return _FILTERS.get(launcher, "")


def starts_afresh(edge: Edge) -> bool:
    """Return whether an edge comes from a program that makes the environment from elsewhere."""
    if _gone(edge):
        return False
    if edge.launcher in STARTS_AFRESH:
        return edge.carries in (Carries.BUILT_BLOCK, Carries.UNKNOWN)
    return edge.carries is Carries.BUILT_BLOCK and edge.launcher in ("", PYTHON)


def passes_on(edge: Edge) -> bool:
    """Return whether an edge comes from a shell, sudo or another program that runs a command."""
    known = edge.launcher not in ("", PYTHON) and not _gone(edge)
    return known and not starts_afresh(edge)


def runs_code(edge: Edge) -> bool:
    """Return whether a program whose own code starts processes as it likes started this one.

    That is also what is assumed of a program that is gone.
    """
    return not starts_afresh(edge) and not passes_on(edge)


def _gone(edge: Edge) -> bool:
    """Return whether the row is that of a process which only adopted the child."""
    return edge.kind is EdgeKind.UNKNOWN and edge.carries is not Carries.BUILT_BLOCK
