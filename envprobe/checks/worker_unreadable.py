"""The check `worker-unreadable`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envprobe.checks import who
from envprobe.checks.finding import Check, Context, Finding, Severity, Undetermined
from envprobe.model import Environment, EnvironmentStatus, Process, Sentence, View

_REMEDY: Final = (
    "Run envprobe as root or as the user of the server; where that is not possible, start the"
    " server with SPT_NOENV=1, which keeps at least the exec view readable."
)
_STATES: Final = {
    EnvironmentStatus.PARTIAL: "was read only in part",
    EnvironmentStatus.UNREADABLE: "cannot be read",
    EnvironmentStatus.CHANGING: "changed at each attempt to read it",
    EnvironmentStatus.NOT_APPLICABLE: "does not exist",
    EnvironmentStatus.NOT_ASKED: "was not read",
}


_SAID: Final = "the live C environ cannot be read: "
"""What the message says itself, where a reason begins with it."""


def _run(context: Context) -> Iterator[Finding]:
    for group in who.folded(context.once(unread), _key).values():
        yield _finding(context, group)


def unread(context: Context) -> tuple[Process, ...]:
    """Return the workers whose libc view is not whole, of which this check speaks."""
    return tuple(one for one in who.workers(context) if not one.ended and not _complete(one))


def _complete(process: Process) -> bool:
    return process.environment(View.LIBC).status is EnvironmentStatus.COMPLETE


def _key(process: Process) -> tuple[EnvironmentStatus, str, str]:
    view = process.environment(View.LIBC)
    return view.status, view.reason, view.remedy


def _finding(context: Context, group: list[Process]) -> Finding:
    view: Environment = group[0].environment(View.LIBC)
    pids = tuple(process.pid for process in group)
    reason = view.reason.removeprefix(_SAID).rstrip(".")
    because = f": {reason}." if reason else "."
    # With expectations the required facts are those; `env-unknown` says which are not decided.
    enough = view.status is EnvironmentStatus.PARTIAL and bool(context.config.expectations)
    return Finding(
        check=CHECK.slug,
        severity=Severity.WARNING if enough else CHECK.severity,
        message=Sentence.of(
            f"The libc view of {who.in_words(context, pids)} {_STATES[view.status]}{because}"
        ),
        pids=pids,
        remedy=Sentence.of(view.remedy or _REMEDY),
        undetermined=not enough,
    )


CHECK = Check(
    id="EP002",
    slug="worker-unreadable",
    severity=Severity.ERROR,
    summary="The live environment of a worker could not be read.",
    why="What a worker really has is in its memory. Without it nothing is known about the worker:"
    " /proc/PID/environ shows only what was handed over at its start, and is wiped where the"
    " process changed its title.",
    mend="The reason names the obstacle (another user, Yama, a missing capability, seccomp, another"
    " user namespace, a process that is not dumpable) and the remedy what to do. Usually: run"
    " envprobe as root or as the user of the server.",
    run=_run,
    undetermined=Undetermined.SOMETIMES,
)
