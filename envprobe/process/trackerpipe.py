"""Who was given the pipe of a resource tracker: multiprocessing's spawn hands it to every child.

Each process has its end of that pipe closed on exec, so that a program which it starts by
subprocess, os.exec or fork and exec does not get it. Spawn passes it on, under the number that it
has in the parent (CPython Lib/multiprocessing/popen_spawn_posix.py, util.py spawnv_passfds;
measured on 3.9 to 3.13).
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable
from typing import Final

from envprobe.process.roles import Roles
from envprobe.process.tree import Listing, Member

MAX_DESCRIPTORS: Final = 65_536
_TRACKER_END: Final = re.compile(r"resource_tracker import main; ?main\((\d{1,6})")
_NONE: Final = -1


def holders(listing: Listing, roles: Roles, pids: Iterable[int]) -> dict[int, bool]:
    """Tell which of the programs started below a tracker's parent were given its pipe.

    What cannot be read is left out, what has ended (its descriptors are closed), and what was
    forked.
    """
    pipe_of = functools.cache(_pipe_of)
    number_in = functools.cache(_number_in)
    found: dict[int, bool] = {}
    for pid in pids:
        member, parent, tracker = listing[pid], listing.parent(pid), roles.tracker_above(pid)
        if parent is None or tracker is None or tracker == member:
            continue
        if member.forked or member.state in "ZX":
            continue
        pipe = pipe_of(tracker)
        number = number_in(parent.pid, pipe) if pipe else None
        link = None if number is None else _link(pid, number)
        if link is not None:
            found[pid] = link == pipe
    return found


def _pipe_of(tracker: Member) -> str:
    """Return the name of the pipe that a tracker reads from, "" if that cannot be told."""
    end = _TRACKER_END.search(" ".join(tracker.title))
    link = _link(tracker.pid, int(end[1])) if end else None
    return link if link and link.startswith("pipe:[") else ""


def _number_in(pid: int, pipe: str) -> int | None:
    """Return the number of a pipe in a process, -1 if it has it not, None if that is refused."""
    try:
        numbers = sorted(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None
    links = ((one, _link(pid, one)) for one in numbers[:MAX_DESCRIPTORS])
    return next((one for one, link in links if link == pipe), _NONE)


def _link(pid: int, number: int) -> str | None:
    """Return what a descriptor refers to, "" if there is none, None if that is refused."""
    if number == _NONE:
        return ""
    try:
        return os.readlink(f"/proc/{pid}/fd/{number}")
    except FileNotFoundError:
        return ""
    except OSError:
        return None
