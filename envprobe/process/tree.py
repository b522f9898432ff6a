"""Which processes there are and how they hang together."""

from __future__ import annotations

import dataclasses
import errno
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import psutil

from envprobe.process.handle import AccessRefused, ProcessGone, ProcessHandle, Stat
from envprobe.runner.forked import run_each

MAX_TITLE_BYTES: Final = 1 << 18
_STAT_BYTES: Final = 1 << 12
_PF_KTHREAD: Final = 0x00200000
_PF_FORKNOEXEC: Final = 0x40


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """One process as the listing and the first look at it show it.

    `title` is /proc/PID/cmdline split at its NULs, without the padding that setproctitle leaves.
    `forked` says whether it was forked and has not exec'd since (None: the kernel does not tell);
    `session` is its session's number, 0 if that is of another pid namespace.
    `random` (AT_RANDOM as hex) and `vector` (digest of the auxiliary vector) name the image; both
    are "" until a process has been looked at, or where that was refused. `kernel_thread` is the
    kernel's own mark: number 2 is kthreadd on the host only, and any program in a container.
    """

    pid: int
    ppid: int
    start_ticks: int
    state: str
    comm: str
    title: tuple[str, ...] = ()
    exe: str | None = None
    forked: bool | None = None
    session: int = 0
    random: str = ""
    vector: str = ""
    run_id: str = ""
    kernel_thread: bool = False


def same_image(child: Member, parent: Member) -> bool | None:
    """Return whether a child runs the image of its parent, None if nothing tells.

    The kernel marks a process that has not exec'd since it was forked (PF_FORKNOEXEC,
    include/linux/sched.h), and shows the mark to everybody. Whose image that is, the 16 bytes at
    AT_RANDOM say, and weaker, the auxiliary vector: a fork copies both, an exec renews them
    (getauxval(3); measured), so a parent that exec'd after the fork is found out.
    """
    if child.forked is False:
        return False
    if child.random and parent.random:
        return child.random == parent.random
    if child.vector and parent.vector:
        return child.vector == parent.vector
    return child.forked


def image_is_proved(child: Member, parent: Member) -> bool:
    """Return whether the answer of `same_image` is beyond chance.

    The auxiliary vector holds addresses, which are equal by chance where they are not randomised.
    """
    return child.forked is False or bool(child.random and parent.random)


class Listing(Mapping[int, Member]):
    """The processes of the machine by number, with their tree.

    The numbers were read one after another: where one was reused meanwhile, the parent that it
    seems to be is younger than its child, and is none. `hidden` counts numbers of which this reader
    may see nothing else (hidepid, proc(5)).
    """

    def __init__(self, members: Iterable[Member], hidden: int = 0) -> None:
        self.hidden = hidden
        self._members = {member.pid: member for member in members}
        self._parents: dict[int, int] = {}
        self._children: dict[int, list[int]] = {}
        for member in sorted(self._members.values(), key=lambda one: (one.start_ticks, one.pid)):
            parent = self._members.get(member.ppid)
            if parent is None or parent.start_ticks > member.start_ticks:
                continue
            twins = parent.start_ticks == member.start_ticks
            if twins and member.pid in (parent.pid, *self.ancestors(parent.pid)):
                continue
            self._parents[member.pid] = parent.pid
            self._children.setdefault(parent.pid, []).append(member.pid)

    def __getitem__(self, pid: int) -> Member:
        return self._members[pid]

    def __iter__(self) -> Iterator[int]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def children(self, pid: int) -> tuple[int, ...]:
        """Return the children of a process, the oldest first."""
        return tuple(self._children.get(pid, ()))

    def parent(self, pid: int) -> Member | None:
        """Return the parent of a process, None if it is not listed (another pid namespace)."""
        parent = self._parents.get(pid)
        return None if parent is None else self._members[parent]

    def descendants(self, roots: Collection[int], without: int | None = None) -> tuple[int, ...]:
        """Return the roots and all below them, parents before children.

        `without` is a process that is left out with all below it unless it, or something below it,
        is itself a root: the scan must not find itself.
        """
        found: dict[int, None] = {}
        waiting = [pid for pid in reversed(tuple(roots)) if pid in self]
        while waiting:
            pid = waiting.pop()
            if pid in found:
                continue
            found[pid] = None
            waiting += [child for child in reversed(self.children(pid)) if child != without]
        return tuple(found)

    def ancestors(self, pid: int) -> tuple[int, ...]:
        """Return the parent, its parent and so on, as far as they are listed."""
        found: list[int] = []
        while (pid := self._parents.get(pid, 0)) != 0:
            found.append(pid)
        return tuple(found)

    def tops(self, pids: Collection[int]) -> tuple[int, ...]:
        """Return those of `pids` that have no ancestor among them."""
        wanted = set(pids)
        return tuple(sorted(p for p in wanted if not wanted.intersection(self.ancestors(p))))

    def updated(self, members: Iterable[Member]) -> Listing:
        """Return the listing with some members replaced."""
        merged = {**self._members, **{member.pid: member for member in members}}
        return Listing(merged.values(), self.hidden)


def outline() -> Listing:
    """List the machine's processes without their titles: no read here can be held up."""
    members, hidden = [], 0
    for pid in psutil.pids():
        try:
            descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            hidden += error.errno in (errno.EACCES, errno.EPERM)
            continue
        member = _member(pid, _read(descriptor, _STAT_BYTES))
        if member is not None:
            members.append(member)
    return Listing(members, hidden)


def listing(deadline: float = 2.0) -> Listing:
    """List the machine's processes with their titles.

    Reading a title takes the target's memory lock, so each is read in a child that can be killed
    after `deadline` seconds; what does not answer is listed without a title.
    """
    found = outline()
    titled = [member.pid for member in found.values() if not member.kernel_thread]
    read = run_each(
        titled,
        read_title,
        deadline=deadline,
        on_timeout=lambda _: (),
        on_crash=lambda _: (),
    )
    titles: dict[int, tuple[str, ...]] = dict(read)
    return found.updated(
        dataclasses.replace(found[pid], title=title, exe=_exe(pid)) for pid, title in titles.items()
    )


def _member(pid: int, raw: bytes) -> Member | None:
    try:
        stat = Stat.parse(raw)
        fields = raw[raw.rindex(b")") + 1 :].split()
        session, flags = int(fields[3]), int(fields[6])
    except (IndexError, ValueError):  # it ended after the file was opened
        return None
    # Without any flag the file is gVisor's, or of a process whose addresses are not randomised.
    forked = bool(flags & _PF_FORKNOEXEC) if flags else None
    return Member(
        pid,
        stat.ppid,
        stat.start_ticks,
        stat.state,
        stat.comm,
        forked=forked,
        session=session,
        kernel_thread=bool(flags & _PF_KTHREAD),
    )


def _exe(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return None


def _read(descriptor: int, limit: int) -> bytes:
    """Read a short file of /proc at once and close it; b"" if its process has gone."""
    try:
        return os.read(descriptor, limit)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def read_title(pid: int) -> tuple[str, ...]:
    """Return the title of a process, () if it has none or is gone; cut at 256 KiB."""
    try:
        descriptor = os.open(f"/proc/{pid}/cmdline", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ()
    title = split_title(_read(descriptor, MAX_TITLE_BYTES))
    if title:
        return title
    try:
        with ProcessHandle.open(pid) as handle:
            return title_through(handle)
    except (AccessRefused, ProcessGone):
        return ()


def title_through(handle: ProcessHandle) -> tuple[str, ...]:
    """Return the title of an open process, through a living thread if the main one has exited.

    Raises ProcessGone.
    """
    names = ["cmdline"]
    task = handle.living_task() if handle.stat().state in "ZX" else None
    if task is not None:
        names.insert(0, f"task/{task}/cmdline")
    for name in names:
        try:
            raw = handle.read(name)
        except AccessRefused:
            continue
        if raw:
            return split_title(raw[:MAX_TITLE_BYTES])
    return ()


def split_title(raw: bytes) -> tuple[str, ...]:
    """Split the bytes of /proc/PID/cmdline into arguments.

    Trailing NULs are dropped, as setproctitle pads with them; an empty last argument goes too.
    """
    stripped = raw.rstrip(b"\0")
    return tuple(os.fsdecode(part) for part in stripped.split(b"\0")) if stripped else ()


def boot_offset() -> float:
    """Return the Unix time of the boot, to add to `start_ticks` divided by the tick rate."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def start_time(start_ticks: int, boot: float) -> float:
    """Return the Unix time of a start given in ticks since boot."""
    return boot + start_ticks / os.sysconf("SC_CLK_TCK")
