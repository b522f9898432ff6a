"""How findings name processes, views and times."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from envprobe.checks.finding import Context
from envprobe.model import Confidence, Process, Shown, View
from envprobe.redact import holds_secret
from envprobe.routes.types import Stop
from envprobe.values import Value

Item = TypeVar("Item")
Key = TypeVar("Key")

NAMED: Final = 3
"""How many processes or values a sentence names; a finding's `pids` hold all processes."""


def index(context: Context) -> dict[int, Process]:
    """Return the processes of the snapshot by pid."""
    return {process.pid: process for process in context.routing.snapshot.processes}


def process_of(context: Context, pid: int) -> Process | None:
    """Return the process with this number, or None."""
    return context.once(index).get(pid)


def workers(context: Context) -> tuple[Process, ...]:
    """Return all counted workers that are still there."""
    return processes(context, context.routing.workers())


def processes(context: Context, pids: Iterable[int]) -> tuple[Process, ...]:
    """Return the processes with these numbers, without those that the snapshot does not hold."""
    known = context.once(index)
    return tuple(known[pid] for pid in pids if pid in known)


def of_role(context: Context, role: str) -> tuple[Process, ...]:
    """Return the processes for which an expectation holds: of one role, or ("") all workers.

    The dead, and workers that an earlier launch left behind, are never among them.
    """
    if not role:
        return context.once(workers)
    every = context.routing.snapshot.processes
    return tuple(one for one in every if one.role.name == role and not (one.orphan or one.death))


def name_of(process: Process) -> str:
    """Return what a process is called: its role with its ranks, else its command name."""
    return process.role.label or process.comm


def named(context: Context, pid: int) -> str:
    """Return one process's name and pid, such as `scheduler TP0 (PID 8001)`."""
    process = process_of(context, pid)
    return f"PID {pid}" if process is None else process.named


def in_words(context: Context, pids: Iterable[int]) -> str:
    """Return processes in words; of more than four the first three and how many others."""
    every = tuple(pids)
    counted = {process.pid for process in context.once(workers)}
    if len(every) > NAMED + 1 and set(every) == counted:
        return f"all {len(every)} workers"
    if len(every) > NAMED + 1:
        names = [named(context, pid) for pid in every[:NAMED]]
        return f"{', '.join(names)} and {len(every) - NAMED} more"
    return listed(named(context, pid) for pid in every)


def listed(words: Iterable[str]) -> str:
    """Return words as a list in a sentence: `a, b and c`."""
    every = list(words)
    if len(every) < 2:
        return "".join(every)
    return f"{', '.join(every[:-1])} and {every[-1]}"


_VIEWS: Final = {View.DECLARED: "declared environment"}


def place(context: Context, stop: Stop) -> str:
    """Return one stop of a route in words, such as `the libc view of server (PID 7991)`."""
    view = _VIEWS.get(stop.view, f"{stop.view.value} view")
    sure = "inferred " if is_stand_in(stop) else ""
    return f"the {sure}{view} of {named(context, stop.pid)}"


def is_stand_in(stop: Stop) -> bool:
    """Return whether an exec view was taken from another process's block."""
    return stop.view is View.EXEC and stop.reading.confidence is Confidence.INFERRED


def moment(at: float | None) -> str:
    """Return a time in words, with the offset from UTC."""
    if at is None:
        return "an unknown time"
    try:
        return datetime.datetime.fromtimestamp(at).astimezone().isoformat(" ", "seconds")
    except (OverflowError, OSError, ValueError):
        return "an unknown time"


def some(words: Iterable[str], most: int) -> str:
    """Return words as a list in a sentence, of more than `most` the first ones and a count."""
    every = list(words)
    if len(every) <= most:
        return listed(every)
    return f"{', '.join(every[:most])} and {len(every) - most} more"


def distinct(name: str, values: Iterable[Value | None]) -> Iterator[str | Shown]:
    """Return the different values of a variable as parts of a sentence; None is absent."""
    different = list(dict.fromkeys(values))
    for number, value in enumerate(different[:NAMED]):
        shown = "absent" if value is None else Shown(name, value)
        yield from (" or ", shown) if number else (shown,)
    if len(different) > NAMED:
        yield f" or one of {len(different) - NAMED} other values"


def unlike(name: str, values: Iterable[Value | None]) -> str:
    """Return words to put before values that look alike once they are masked, else ""."""
    set_to = [value for value in values if value is not None]
    masked = len(set_to) > 1 and all(one.hidden or holds_secret(name, one) for one in set_to)
    return "another value, " if masked else ""


def folded(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the items by key, keys and items in their order."""
    found: dict[Key, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found
