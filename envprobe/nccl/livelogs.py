"""The log that a running process writes, and the configuration files that its NCCL reads.

Everything is found through the process's own namespaces and read in children that can be killed.
"""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Iterator
from typing import Final

from envprobe import ncclfacts
from envprobe.model import Process, Reading, State, View
from envprobe.nccl import conf, log
from envprobe.nccl.join import Source, host_in_log, joined
from envprobe.nccl.params import version_of
from envprobe.nccl.streams import Stream
from envprobe.ncclfacts import LogState, NcclLog
from envprobe.process import rootfs
from envprobe.process.handle import AccessRefused, ProcessGone, ProcessHandle, Unsupported
from envprobe.process.procfiles import Status
from envprobe.process.utsname import host_name
from envprobe.runner.forked import run_each

MAX_BYTES: Final = 64 << 20
"""A larger log is read only when it is named with --nccl-log."""

_SECONDS: Final = 10.0
"""How long one log that nobody named may take."""

_PASSWD_BYTES: Final = 1 << 20
_SHOWS: Final = ("INFO", "TRACE", "ABORT")
_NAME_IT: Final = "Name the log with --nccl-log."


@dataclasses.dataclass(frozen=True, slots=True)
class Located:
    """A log of one process: its name, and what tells files apart; `through` opens it.

    `through` is a path in the process's root, or "" for its standard output.
    """

    name: str
    through: str
    device: int
    inode: int
    written: float


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """What was found around one process: its host's name, configuration files, and its log.

    Without a log `state` and `reason` say why there is none to read.
    """

    host: str | None = None
    settings: tuple[ncclfacts.Setting, ...] = ()
    log: Located | None = None
    state: LogState = LogState.NO_LOG
    reason: str = ""
    remedy: str = ""


class _NoLog(Exception):  # noqa: N818 - it becomes an outcome, never leaves this module
    """There is no log to read; the arguments are the state, the reason and the remedy."""


def with_logs(
    processes: tuple[Process, ...], named: Source | None, deadline: float
) -> tuple[Process, ...]:
    """Return the processes, the workers that count with their part of NCCL's log.

    `named` are the logs that the user named; without them each process's own is looked for, if it
    has NCCL loaded or names a file of its own. `deadline` is in seconds for each process.
    """
    workers = [one for one in processes if one.role.worker and not one.orphan and not one.death]
    asked = [one for one in workers if named is not None or _may_log(one)]
    if not asked:
        return processes
    looks = run_each(
        asked,
        look,
        deadline=deadline,
        on_timeout=lambda _: _unread(f"its files do not answer within {deadline:g} s"),
        on_crash=lambda _: _unread("looking for it ended the child that looked"),
    )
    found = {process.pid: told for process, told in looks}
    own = {} if named is not None else _own_logs(found)
    return tuple(
        dataclasses.replace(one, nccl=_told(one, found[one.pid], named or own.get(one.pid)))
        if one.pid in found
        else one
        for one in processes
    )


def _may_log(process: Process) -> bool:
    if process.libraries is not None and process.libraries.nccl:
        return True
    return _reading(process, "NCCL_DEBUG_FILE").state is State.VALUE


def _reading(process: Process, name: str) -> Reading:
    return process.environment(View.LIBC).reading(name)


def _text(process: Process, name: str) -> str | None:
    value = _reading(process, name).value
    return None if value is None or value.truncated else os.fsdecode(value.reveal())


def _unread(reason: str) -> Look:
    return Look(state=LogState.UNREADABLE, reason=reason, remedy=_NAME_IT)


def _told(process: Process, look: Look, source: Source | Look | None) -> NcclLog:
    """Return what is known of one process: its part of the logs, or why there is none."""
    if isinstance(source, Source):
        found = joined(process, look.host, source, lambda: threads(process))
    else:
        told = source or look
        files = (look.log.name,) if look.log else ()
        found = NcclLog(told.state, files, reason=told.reason, remedy=told.remedy)
    return dataclasses.replace(found, settings=look.settings)


# --- in children that can be killed --------------------------------------------------------------


def look(process: Process) -> Look:
    """Look around one process; never raises for what the process is."""
    try:
        with ProcessHandle.open(process.pid) as handle:
            if handle.start_ticks != process.identity.start_ticks:
                raise ProcessGone(process.pid)
            host = host_name(handle)
            settings = tuple(_settings(handle, process))
            try:
                found = Look(host, settings, _locate(handle, process, host))
            except _NoLog as outcome:
                found = Look(host, settings, None, *outcome.args)
            return found
    except (AccessRefused, ProcessGone) as failure:
        return _unread(str(failure))


def threads(process: Process) -> frozenset[int]:
    """Return the numbers of a process's threads in its own pid namespace; none if it is gone."""
    found = set()
    try:
        with ProcessHandle.open(process.pid) as handle:
            for name in handle.listdir("task"):
                status = Status.parse(handle.read(f"task/{name}/status"))
                found.add(status.inner_pid or int(name))
    except (AccessRefused, ProcessGone):
        return frozenset()
    return frozenset(found)


def _locate(handle: ProcessHandle, process: Process, host: str | None) -> Located:
    """Return the log of a process; raises _NoLog."""
    level = _reading(process, "NCCL_DEBUG")
    if level.state is State.ABSENT:
        raise _NoLog(LogState.NO_LOG, "NCCL_DEBUG is not set in it", "")
    text = _text(process, "NCCL_DEBUG")
    if text is None:
        reason = level.reason or "the value of NCCL_DEBUG was not read"
        raise _NoLog(LogState.UNREADABLE, reason, level.remedy or _NAME_IT)
    if text.upper() not in _SHOWS:
        raise _NoLog(LogState.NO_LOG, "NCCL_DEBUG has a level that shows no variables", "")
    pattern = _text(process, "NCCL_DEBUG_FILE")
    if pattern:
        path = os.path.join(process.cwd or "/", expanded(pattern, process, host))
        return _opened(handle, path, path)
    return _opened(handle, "", _stdout(handle))


def expanded(pattern: str, process: Process, host: str | None) -> str:
    """Return the file that NCCL makes of NCCL_DEBUG_FILE (debug.cc ncclDebugInit).

    Raises _NoLog if the pattern asks for a host name that is not known.
    """
    number = process.pid if process.inner_pid is None else process.inner_pid
    parts = pattern.split("%")
    made, at = parts[0], 1
    while at < len(parts):
        letter, rest = parts[at][:1], parts[at][1:]
        if letter == "h":
            if host is None:
                reason = "its host name, which NCCL_DEBUG_FILE asks for, is in another namespace"
                raise _NoLog(LogState.UNREADABLE, reason, f"Run envprobe as root. {_NAME_IT}")
            made += host_in_log(host) + rest
        elif letter == "p":
            made += str(number) + rest
        elif not letter and at + 1 < len(parts):
            made += "%" + parts[at + 1]
            at += 1
        else:
            made += "%" + parts[at]
        at += 1
    return made


def _stdout(handle: ProcessHandle) -> str:
    try:
        return handle.readlink("fd/1")
    except AccessRefused:
        return "its standard output"


def _descriptor(handle: ProcessHandle, through: str) -> int:
    """Open a file of the process's root, or what is behind its standard output, for reading."""
    if through:
        return rootfs.open_regular(handle, through)
    place = handle.open_file("fd/1", os.O_PATH)
    try:
        return rootfs.reopen_regular(place, "its standard output")
    finally:
        os.close(place)


def _opened(handle: ProcessHandle, through: str, name: str) -> Located:
    try:
        descriptor = _descriptor(handle, through)
    except AccessRefused as refused:
        if refused.errno in (errno.ENOENT, errno.ENOTDIR):
            raise _NoLog(LogState.NO_LOG, f"{name} is not there", "") from None
        reason = f"{name} cannot be read: {os.strerror(refused.errno)}"
        raise _NoLog(LogState.UNREADABLE, reason, _NAME_IT) from None
    except Unsupported:
        reason = f"NCCL writes to {name}, which is no file"
        raise _NoLog(LogState.NO_LOG, reason, "") from None
    status = os.fstat(descriptor)
    os.close(descriptor)
    if status.st_size > MAX_BYTES:
        reason = f"{name} is longer than {MAX_BYTES >> 20} MiB"
        raise _NoLog(LogState.UNREADABLE, reason, _NAME_IT)
    return Located(name, through, status.st_dev, status.st_ino, status.st_mtime)


# --- reading the logs ----------------------------------------------------------------------------


def _own_logs(looks: dict[int, Look]) -> dict[int, Source | Look]:
    """Read each log once, through one of the processes that write it."""
    writers: dict[tuple[int, int], tuple[int, Located]] = {}
    for pid, one in looks.items():
        if one.log is not None:
            writers.setdefault((one.log.device, one.log.inode), (pid, one.log))
    if not writers:
        return {}
    work = run_each(
        list(writers.values()),
        _read,
        deadline=_SECONDS,
        on_timeout=lambda item: _unread(f"{item[1].name} was not read within {_SECONDS:g} s"),
        on_crash=lambda item: _unread(f"reading {item[1].name} ended the child that read it"),
    )
    sources = dict(zip(writers, (made for _, made in work), strict=True))
    return {
        pid: sources[one.log.device, one.log.inode]
        for pid, one in looks.items()
        if one.log is not None
    }


def _read(item: tuple[int, Located]) -> Source | Look:
    pid, located = item
    try:
        with ProcessHandle.open(pid) as handle:
            descriptor = _descriptor(handle, located.through)
    except (AccessRefused, ProcessGone, Unsupported) as failure:
        return _unread(str(failure))
    with open(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) != (located.device, located.inode):
            return _unread(f"{located.name} was replaced while it was read")
        found = log.read_stream(Stream(located.name, file))
    return Source(found, {located.name: status.st_mtime}, asked=False)


# --- configuration files -------------------------------------------------------------------------


def _settings(handle: ProcessHandle, process: Process) -> Iterator[ncclfacts.Setting]:
    """Yield what NCCL's configuration files hold now, in the order in which the first one counts.

    What cannot be read is passed over: nothing is concluded from its absence.
    """
    copies = process.libraries.nccl if process.libraries is not None else ()
    versions = {version_of(one.version) for one in copies}
    version = versions.pop() if len(versions) == 1 else None
    names = ("HOME", "NCCL_CONF_FILE")
    texts = {name: _text(process, name) for name in names}
    environment = {name: text for name, text in texts.items() if text is not None}
    paths = conf.paths(version, environment, _home(handle, process))

    def opened(path: str) -> bytes:
        return _bytes(handle, os.path.join(process.cwd or "/", path), conf.MAX_BYTES + 1)

    for one in conf.settings(conf.load(paths, version, opened), {}).values():
        if not one.name.startswith("NCCL_"):
            continue
        yield ncclfacts.Setting(one.name, one.value, one.path, one.line)


def _home(handle: ProcessHandle, process: Process) -> str | None:
    """Return the home of the process's user in the password file of its own root."""
    if not process.same_user_namespace:  # its numbers are others than ours
        return None
    try:
        table = _bytes(handle, "/etc/passwd", _PASSWD_BYTES)
    except OSError:
        return None
    for line in os.fsdecode(table).splitlines():
        fields = line.split(":")
        if len(fields) == 7 and fields[2] == str(process.uid):
            return fields[5]
    return None


def _bytes(handle: ProcessHandle, path: str, most: int) -> bytes:
    """Return the first bytes of a file in the process's root; OSError."""
    try:
        descriptor = rootfs.open_regular(handle, path)
    except AccessRefused as refused:
        raise OSError(refused.errno, os.strerror(refused.errno)) from None
    except (ProcessGone, Unsupported) as failure:
        raise OSError(errno.EINVAL, str(failure)) from None
    with open(descriptor, "rb", buffering=0) as file:
        return file.read(most) or b""
