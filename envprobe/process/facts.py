"""Everything that is read of one process, in one go and without judging: runs in a reader child."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
from collections.abc import Callable
from typing import Final, TypeVar

from envprobe.model import (
    BlockState,
    Environment,
    EnvironmentStatus,
    Identity,
    Interpreter,
    View,
)
from envprobe.ncclfacts import Libraries
from envprobe.process import cgroups, libraries
from envprobe.process.access import explain
from envprobe.process.elf import NotElf
from envprobe.process.environ_exec import read_exec
from envprobe.process.environ_libc import read_libc
from envprobe.process.handle import (
    AccessRefused,
    MemoryFault,
    ProcessGone,
    ProcessHandle,
    Unsupported,
)
from envprobe.process.maps import AddressSpace
from envprobe.process.memory import Memory
from envprobe.process.runtime import interpreter
from envprobe.process.scope import Scope
from envprobe.process.tree import Member, start_time, title_through

AT_SECURE: Final = 23
_TRIES: Final = 2
_DELETED: Final = " (deleted)"
_MAX_RUN_ID: Final = 200
_RUN_ID: Final = "SGLANG_RUN_ID"
_LIVE: Final = "the live C environ"
T = TypeVar("T")
_Live = tuple[Environment, Interpreter | None, Libraries]
"""What is in a process's memory: its C environ, its runtime, its libraries."""


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """What one process shows; the fields are those of `model.Process`.

    `member` is the listing's entry, brought up to date; `ended` is true if the process was gone,
    or another image, each time its reads finished, and for a zombie. `dead` is true for a zombie
    of which no thread lives. `answered` is false if its memory did not answer in time.
    """

    member: Member
    identity: Identity
    start_time: float
    exec_view: Environment
    libc_view: Environment
    answered: bool = True
    uid: int = -1
    inner_pid: int | None = None
    exe_deleted: bool = False
    cwd: str | None = None
    secure: bool | None = None
    interpreter: Interpreter | None = None
    cgroup: str = ""
    same_user_namespace: bool | None = None
    same_mount_namespace: bool | None = None
    ended: bool = False
    dead: bool = False
    libraries: Libraries | None = None
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """How to look at a process: `wanted` says of which variables the values are kept.

    `boot` is the Unix time of the boot. Without `memory` nothing is read that a stalled mapping
    could hold up: the live C environ is then reported as not answering within `deadline` seconds.
    `patterns` are those of shared objects that are looked for (`libraries`).
    """

    wanted: Callable[[str], bool]
    boot: float
    deadline: float
    memory: bool = True
    patterns: tuple[str, ...] = ()

    def read(self, member: Member) -> Facts | None:
        """Read a listed process; None if it is gone or its number belongs to another one now."""
        facts = None
        for _ in range(_TRIES):
            try:
                with ProcessHandle.open(member.pid) as handle:
                    if handle.start_ticks != member.start_ticks:
                        return facts
                    facts = self._once(handle, member)
            except ProcessGone:
                return dataclasses.replace(facts, ended=True) if facts else None
            except AccessRefused as refused:
                return self.unread(member, *_words(member.pid, refused))
            if not facts.ended:
                break
        return facts

    def silent(self, member: Member) -> Facts:
        """Return the facts of a process that did not even answer without its memory."""
        facts = self.unread(member, *self._not_answering("the process"))
        return dataclasses.replace(facts, answered=False)

    def crashed(self, member: Member) -> Facts:
        """Return the facts of a process on which the reader child died."""
        return self.unread(
            member,
            "reading the process ended the child that read it",
            "Run envprobe again, with more memory if its limit is tight; if it happens again, "
            "report it with the version of envprobe.",
        )

    def unread(self, member: Member, reason: str, remedy: str) -> Facts:
        """Return facts in which both views are unreadable for one reason."""
        start = start_time(member.start_ticks, self.boot)
        return Facts(
            member=member,
            identity=Identity(member.pid, member.start_ticks),
            start_time=start,
            exec_view=_unreadable(View.EXEC, reason, remedy, start),
            libc_view=_unreadable(View.LIBC, reason, remedy),
            libraries=libraries.unread(reason, remedy, self.patterns),
            notes=(reason,),
        )

    def _not_answering(self, what: str) -> tuple[str, str]:
        return (
            f"{what} does not answer within {self.deadline:g} s",
            "Look for a stalled file system that it has mapped (NFS, FUSE) and for its kernel "
            "stack (/proc/PID/stack, as root), and run envprobe again once that answers.",
        )

    def _once(self, handle: ProcessHandle, member: Member) -> Facts:
        """Read all, then look whether it still is the process and image that it was."""
        stat = handle.stat()
        zombie = stat.state in "ZX" and handle.living_task() is None
        # A zombie and a process in the middle of an exec show no title: they are what they were.
        title = title_through(handle) or member.title
        exe = _try(lambda: handle.readlink("exe"), member.exe if zombie else None)
        auxv = _try(lambda: handle.read("auxv"), b"")
        start = start_time(handle.start_ticks, self.boot)
        exec_view = read_exec(handle, at=start, wanted=self.wanted)
        if self.memory:
            identity, (libc_view, runtime, objects), alive = self._live(handle)
        else:
            libc_view, runtime, objects = self._closed(
                *self._not_answering("the memory of the process")
            )
            identity, alive = handle.identity(), handle.same()
        status = _try(handle.status, None)
        return Facts(
            member=dataclasses.replace(
                member,
                ppid=stat.ppid,
                state=stat.state,
                comm=stat.comm,
                title=title,
                exe=exe,
                random=identity.random,
                vector=digest(auxv),
                run_id=_run_id(libc_view, exec_view),
            ),
            identity=identity,
            start_time=start,
            exec_view=exec_view,
            libc_view=libc_view,
            answered=self.memory,
            uid=status.uids[1] if status and status.uids else -1,
            inner_pid=status.inner_pid if status else None,
            exe_deleted=bool(exe and exe.endswith(_DELETED)),
            cwd=_try(lambda: handle.readlink("cwd"), None),
            secure=_secure(handle),
            interpreter=runtime,
            cgroup=_cgroup(handle),
            same_user_namespace=_same_namespace(handle, "user"),
            same_mount_namespace=_same_namespace(handle, "mnt"),
            ended=zombie or not alive,
            dead=zombie,
            libraries=objects,
        )

    def _live(self, handle: ProcessHandle) -> tuple[Identity, _Live, bool]:
        """Read the memory: the identity, what is in it, and whether all held."""
        try:
            memory = Memory.open(handle)
        except (AccessRefused, Unsupported) as failure:
            closed = self._closed(*explain(handle, failure, _LIVE))
            return handle.identity(), closed, handle.same()
        with memory:
            identity = handle.identity(memory)
            live = self._libc(handle, memory)
            alive = memory.alive() and handle.verify(identity, memory)
        # glibc makes the stack protector's secret of these bytes: they must not leave this process.
        named = dataclasses.replace(identity, random=digest(bytes.fromhex(identity.random)))
        return named, live, alive

    def _libc(self, handle: ProcessHandle, memory: Memory) -> _Live:
        try:
            space = AddressSpace(handle)
        except AccessRefused as refused:
            return self._closed(*explain(handle, refused, _LIVE))
        with space:
            try:
                scope = Scope(handle, memory, space)
            except (AccessRefused, MemoryFault, NotElf, ProcessGone, Unsupported):
                view = read_libc(handle, memory, space, self.wanted)
                return view, None, libraries.unread(view.reason, view.remedy, self.patterns)
            view = read_libc(handle, memory, space, self.wanted, scope=scope)
            runtime = _try(lambda: interpreter(scope), None)
            return view, runtime, libraries.loaded(scope, space, self.patterns)

    def _closed(self, reason: str, remedy: str) -> _Live:
        """Return what is said where the memory cannot be read."""
        objects = libraries.unread(reason, remedy, self.patterns)
        return _unreadable(View.LIBC, reason, remedy), None, objects


def _try(read: Callable[[], T], instead: T) -> T:
    """Return what can be read, `instead` if the kernel refuses it; raises ProcessGone."""
    try:
        return read()
    except AccessRefused:
        return instead


def digest(raw: bytes) -> str:
    """Return what stands for bytes that must not leave this process; "" for none."""
    return hashlib.sha256(raw).hexdigest()[:32] if raw else ""


def _words(pid: int, refused: AccessRefused) -> tuple[str, str]:
    return explain(pid, refused, "the process")


def _unreadable(view: View, reason: str, remedy: str, at: float | None = None) -> Environment:
    block = BlockState.UNREADABLE if view is View.EXEC else None
    status = EnvironmentStatus.UNREADABLE
    return Environment(view, status, block=block, at=at, reason=reason, remedy=remedy)


def _secure(handle: ProcessHandle) -> bool | None:
    try:
        vector = handle.auxv()
    except (AccessRefused, Unsupported):
        return None
    return bool(vector[AT_SECURE]) if AT_SECURE in vector else None


def _cgroup(handle: ProcessHandle) -> str:
    raw = _try(lambda: handle.read("cgroup"), b"")
    return cgroups.main_group(cgroups.parse(os.fsdecode(raw)))


def _same_namespace(handle: ProcessHandle, kind: str) -> bool | None:
    theirs = handle.namespace(kind)
    return None if theirs is None else theirs == _own_namespace(kind)


@functools.cache
def _own_namespace(kind: str) -> int:
    return os.stat(f"/proc/self/ns/{kind}").st_ino


def _run_id(*views: Environment) -> str:
    """Return SGLANG_RUN_ID from the first view that has it; "" if none does."""
    for view in views:
        value = view.entries.get(_RUN_ID)
        if value is not None:
            return os.fsdecode(value.reveal()[:_MAX_RUN_ID])
    return ""
