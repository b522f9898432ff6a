"""Who was given the pipe of a resource tracker: multiprocessing's spawn hands it to every child.

Each process has its end of that pipe closed on exec, so that a program which it starts by
subprocess, os.exec or fork and exec does not get it. Spawn passes it on, under the number that it
has in the parent (CPython Lib/multiprocessing/popen_spawn_posix.py, util.py spawnv_passfds;
measured on 3.9 to 3.13). A grandchild that its parent has left behind holds the same pipe; what it
does not share with whoever adopted it are the two pipes of its own start, of which parent and child
keep opposite ends for as long as both live.
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


def holders(listing: Listing, roles: Roles, pids: Iterable[int]) -> dict[int, bool]:
    """Tell which of the programs started below a tracker's parent were given its pipe.

    What cannot be read is left out, what has ended (its descriptors are closed), what was forked,
    and what holds the tracker's pipe but no other of its parent's: somebody else has started it.
    """
    pipe_of = functools.cache(_pipe_of)
    descriptors = functools.cache(_descriptors)
    found: dict[int, bool] = {}
    for pid in pids:
        member, parent, tracker = listing[pid], listing.parent(pid), roles.tracker_above(pid)
        if parent is None or tracker is None or tracker == member:
            continue
        if member.forked or member.state in "ZX":
            continue
        pipe, theirs, own = pipe_of(tracker), descriptors(parent.pid), _descriptors(pid)
        if not pipe or theirs is None or own is None:
            continue
        held = pipe in theirs.values() and pipe in own.values()
        if not held or _pipes(own) & _pipes(theirs) - {pipe}:
            found[pid] = held
    return found


def _pipe_of(tracker: Member) -> str:
    """Return the name of the pipe that a tracker reads from, "" if that cannot be told."""
    end = _TRACKER_END.search(" ".join(tracker.title))
    link = _link(tracker.pid, int(end[1])) if end else None
    return link if link and link.startswith("pipe:[") else ""


def _descriptors(pid: int) -> dict[int, str] | None:
    """Return what the descriptors of a process refer to, None if that is refused."""
    try:
        numbers = [int(name) for name in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return None
    links = ((one, _link(pid, one)) for one in numbers[:MAX_DESCRIPTORS])
    return {one: link for one, link in links if link}


def _pipes(descriptors: dict[int, str]) -> set[str]:
    """Return the pipes among descriptors, without the standard streams, which all inherit."""
    return {link for one, link in descriptors.items() if one > 2 and link.startswith("pipe:[")}


def _link(pid: int, number: int) -> str | None:
    """Return what a descriptor refers to, "" if there is none, None if that is refused."""
    try:
        return os.readlink(f"/proc/{pid}/fd/{number}")
    except FileNotFoundError:
        return ""
    except OSError:
        return None
