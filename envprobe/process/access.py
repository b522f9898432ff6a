"""Why the kernel did not let us read a process, and what to do about it.

The rules are those of ptrace(2) ("Ptrace access mode checking"), proc(5) (hidepid) and
Documentation/admin-guide/LSM/Yama.rst of the kernel.
"""

from __future__ import annotations

import dataclasses
import errno
import os
from typing import Final, TypeAlias

from envprobe.process.handle import (
    AccessRefused,
    ProcessGone,
    ProcessHandle,
    Status,
    Unsupported,
)
from envprobe.process.obstacles import AS_ROOT, EXEC_BLOCK, NOENV, WORDS, Obstacle

Failure: TypeAlias = AccessRefused | ProcessGone | Unsupported
YAMA_FILE: Final = "/proc/sys/kernel/yama/ptrace_scope"
_CAP_SYS_PTRACE: Final = 1 << 19
_PF_KTHREAD: Final = 0x00200000
_SECCOMP_FILTER: Final = 2
_ALL_IDS: Final = ["0", "0", "4294967295"]
_REFUSALS: Final = (errno.EACCES, errno.EPERM)


@dataclasses.dataclass(frozen=True, slots=True)
class Reader:
    """The rights of the process that reads: ours.

    `uid` and `gid` are the file system ids, which the kernel compares; `capabilities` the effective
    set; `initial_namespace` whether its user namespace maps every id to itself; `yama_scope` is
    None where the kernel has no Yama.
    """

    uid: int
    gid: int
    capabilities: int
    seccomp: bool
    initial_namespace: bool
    yama_scope: int | None

    @classmethod
    def own(cls) -> Reader:
        """Return the rights of this process as they are now."""
        with open("/proc/thread-self/status", "rb") as file:
            status = Status.parse(file.read())
        return cls(
            uid=status.uids[3],
            gid=status.gids[3],
            capabilities=status.effective_capabilities,
            seccomp=status.seccomp == _SECCOMP_FILTER,
            initial_namespace=_maps_all_ids(),
            yama_scope=yama_scope(),
        )

    @property
    def may_trace(self) -> bool:
        """Whether it holds CAP_SYS_PTRACE in its own user namespace."""
        return bool(self.capabilities & _CAP_SYS_PTRACE)


def yama_scope(path: str = YAMA_FILE) -> int | None:
    """Return kernel.yama.ptrace_scope, 0 to 3, or None where the kernel has no Yama."""
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _maps_all_ids() -> bool:
    """Whether this user namespace is the first one: only that one maps all ids (proc(5))."""
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            return file.read().split() == _ALL_IDS
    except OSError:
        return True


def explain(
    target: ProcessHandle | int, failure: Failure | None, what: str, *, environment: bool = True
) -> tuple[str, str]:
    """Return why `what` of a process could not be read, and the remedy: one sentence each.

    `target` is a number where no handle could be had; `failure` is None where nothing was refused
    but nothing was there either. `what` is the sentence's subject, such as "the exec block"; the
    exec block is named as a way out only where an `environment` was wanted. Equal obstacles have
    equal words, whatever the process, so that findings can be folded.
    """
    reader = Reader.own()
    cause, ways = WORDS[diagnose(target, failure, reader)]
    status = Status() if isinstance(target, int) else _status(target)
    facts = {
        "target": "uid {}, gid {}".format(*_effective(status)),
        "reader": f"uid {reader.uid}, gid {reader.gid}",
        "refusal": _refusal(failure),
    }
    useless: tuple[str, ...] = () if environment else (NOENV, EXEC_BLOCK)
    useless += (AS_ROOT,) if not reader.uid else ()
    possible = [way.format_map(facts) for way in ways if way not in useless]
    remedy = "; or ".join(possible)
    return f"{what} cannot be read: {cause.format_map(facts)}", f"{remedy[0].upper()}{remedy[1:]}."


def _effective(status: Status) -> tuple[int | str, int | str]:
    """Return the effective user and group id, "?" if they are not known."""
    return (status.uids[1], status.gids[1]) if status.uids and status.gids else ("?", "?")


def _refusal(failure: Failure | None) -> str:
    """Return the kernel's own words."""
    if isinstance(failure, AccessRefused):
        return f"{failure.what}: {os.strerror(failure.errno)}"
    return failure.reason if isinstance(failure, Unsupported) else "nothing there"


def diagnose(
    target: ProcessHandle | int, failure: Failure | None, reader: Reader | None = None
) -> Obstacle:
    """Return what stands in the way; the arguments are those of `explain`."""
    reader = reader or Reader.own()
    if isinstance(failure, Unsupported):
        return Obstacle.UNSUPPORTED
    if isinstance(target, int):
        return _unopened(target, failure)
    if isinstance(failure, ProcessGone):
        return Obstacle.GONE
    try:
        return _opened(target, failure, reader)
    except ProcessGone:
        return Obstacle.GONE
    except AccessRefused:
        return Obstacle.HIDDEN


def _unopened(pid: int, failure: Failure | None) -> Obstacle:
    """Judge a process whose directory in /proc could not be opened."""
    if isinstance(failure, AccessRefused) and failure.errno in _REFUSALS:
        return Obstacle.HIDDEN
    return Obstacle.HIDDEN if _exists(pid) and not os.path.exists(f"/proc/{pid}") else Obstacle.GONE


def _exists(pid: int) -> bool:
    """Whether a process has this number; signal 0 is checked, never sent (kill(2))."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def _opened(handle: ProcessHandle, failure: AccessRefused | None, reader: Reader) -> Obstacle:
    stat = handle.stat()
    if stat.state in "ZX" and handle.living_task() is None:
        return Obstacle.ZOMBIE
    if _is_kernel_thread(handle):
        return Obstacle.KERNEL_THREAD
    if failure is None or failure.errno == errno.ESRCH:
        return Obstacle.NO_MEMORY
    if failure.errno == errno.EFBIG:
        return Obstacle.TOO_LONG
    if failure.errno not in _REFUSALS:
        return Obstacle.NOT_OFFERED
    if _may_inspect(handle):
        return _attach_refused(failure, reader)
    return _inspection_refused(handle, reader)


def _is_kernel_thread(handle: ProcessHandle) -> bool:
    raw = handle.read("stat")
    return bool(int(raw[raw.rindex(b")") + 1 :].split()[6]) & _PF_KTHREAD)


def _may_inspect(handle: ProcessHandle) -> bool:
    """Whether the kernel grants PTRACE_MODE_READ, which `auxv` needs and Yama leaves alone."""
    try:
        os.close(handle.open_file("auxv"))
    except AccessRefused as refused:
        return refused.errno not in _REFUSALS
    return True


def _attach_refused(failure: AccessRefused, reader: Reader) -> Obstacle:
    """Judge a refusal of memory where everything else of the process may be read."""
    if reader.yama_scope == 3:
        return Obstacle.YAMA_NOBODY
    if reader.yama_scope and not reader.may_trace:
        return Obstacle.YAMA_ANCESTORS if reader.yama_scope == 1 else Obstacle.YAMA_CAPABILITY
    if reader.seccomp and failure.errno == errno.EPERM:
        return Obstacle.SECCOMP
    return Obstacle.SECURITY_MODULE


def _inspection_refused(handle: ProcessHandle, reader: Reader) -> Obstacle:
    """Judge a refusal of PTRACE_MODE_READ, in the order of the kernel's own checks."""
    target = _status(handle)
    if reader.may_trace:
        # The capability counts in the reader's user namespace and those below it only.
        return Obstacle.OTHER_USER_NAMESPACE
    if {*target.uids[:3]} != {reader.uid} or {*target.gids[:3]} != {reader.gid}:
        return Obstacle.OTHER_USER
    if _owner(handle) != target.uids[1]:
        return Obstacle.NOT_DUMPABLE
    if not reader.initial_namespace:
        return Obstacle.OTHER_USER_NAMESPACE
    if _capabilities(target) & ~reader.capabilities:
        return Obstacle.MORE_CAPABILITIES
    return Obstacle.SECURITY_MODULE


def _status(handle: ProcessHandle) -> Status:
    try:
        return handle.status()
    except (AccessRefused, ProcessGone):
        return Status()


def _owner(handle: ProcessHandle) -> int:
    """Return the owner of the files in /proc/PID: root, not its user, if it is not dumpable.

    The directory itself shows the user all the same (measured; task_dump_owner, fs/proc/base.c).
    """
    descriptor = handle.open_file("stat")
    try:
        return os.fstat(descriptor).st_uid
    finally:
        os.close(descriptor)


def _capabilities(status: Status) -> int:
    """Return the permitted capabilities, which the kernel compares with the reader's."""
    return int(status.get("CapPrm", "0"), 16)
