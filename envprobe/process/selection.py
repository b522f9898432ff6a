"""Which processes belong to a scan: the tree below the roots, and what hangs elsewhere."""

from __future__ import annotations

import dataclasses
import fnmatch
import os
from collections.abc import Mapping

from envprobe.process.roles import Roles
from envprobe.process.tree import Listing, Member


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """The processes of a scan by number, each in one group only, parents before children.

    `matched` were named by a pattern, `orphans` are titled workers that init or a subreaper has
    adopted; both hang outside the tree.
    """

    tree: tuple[int, ...]
    matched: tuple[int, ...] = ()
    orphans: tuple[int, ...] = ()

    @property
    def pids(self) -> tuple[int, ...]:
        """All of them, the tree first."""
        return (*self.tree, *self.matched, *self.orphans)


def select(
    listing: Listing, roots: tuple[int, ...], match: tuple[str, ...] = (), *, orphans: bool = True
) -> Selection:
    """Choose from a listing; this process is never chosen, and its readers are not listed.

    Nor does a pattern choose what started this process: the words of a pattern stand in the command
    line of a shell or sudo above.
    """
    own = os.getpid()
    tree = listing.descendants(roots, without=own)
    barred = {*tree, own, *listing.ancestors(own)}
    outside = [pid for pid in sorted(listing) if pid not in barred]
    matched = tuple(pid for pid in outside if is_named(listing[pid], match))
    lost = _lost(listing, set(outside).difference(matched)) if orphans else ()
    return Selection(tree, matched, lost)


def as_it_was(now: Listing, before: Mapping[tuple[int, int], Member]) -> Listing:
    """Return a listing in which who died since an earlier scan still has its title."""
    known = (
        (member, before.get((member.pid, member.start_ticks)))
        for member in now.values()
        if member.state in "ZX" and not member.title
    )
    return now.updated(
        dataclasses.replace(member, title=earlier.title, exe=earlier.exe)
        for member, earlier in known
        if earlier is not None
    )


def is_named(member: Member, match: tuple[str, ...]) -> bool:
    """Return whether a pattern (fnmatch, case sensitive) matches a title or whole command line."""
    if not match or not member.title:
        return False
    texts = (member.title[0], " ".join(member.title))
    return any(fnmatch.fnmatchcase(text, pattern) for text in texts for pattern in match)


def _lost(listing: Listing, among: set[int]) -> tuple[int, ...]:
    roles = Roles(listing)
    # All titles of the table hold `::`; a process without a title has ended or does not answer.
    titled = [pid for pid in sorted(among) if "::" in "".join(listing[pid].title[:1])]
    return tuple(pid for pid in titled if roles.row(pid).worker and roles.adopted(pid))
