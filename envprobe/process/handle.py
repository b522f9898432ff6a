"""One process, held by a directory descriptor of /proc/PID: everything is read relative to it.

The descriptor names the process, not the number: once that process is gone every access gives
ESRCH, also after the number has been given to another process (measured on Linux 6.18).
"""

from __future__ import annotations

import errno
import functools
import os
import struct
from typing import Final, Protocol

from envprobe.model import Identity
from envprobe.process.closing import Closing
from envprobe.process.procfiles import Stat as Stat
from envprobe.process.procfiles import Status as Status
from envprobe.runner import lending

MAX_FILE_BYTES: Final = 16 << 20
AT_RANDOM: Final = 25
_CHUNK: Final = 1 << 16
_RANDOM_BYTES: Final = 16
_GONE: Final = (errno.ENOENT, errno.ESRCH)
_OF_IMAGE: Final = frozenset({"auxv", "cwd", "environ", "exe", "maps", "mem", "ns", "root"})
"""What a thread shares with its process and what a main thread that has exited no longer has."""


class ProcessGone(Exception):  # noqa: N818 - an outcome of looking, not a fault of the run
    """The process does not exist (any more), or is hidden from this reader (hidepid)."""

    def __init__(self, pid: int) -> None:
        super().__init__(f"process {pid} is gone")
        self.pid = pid


class AccessRefused(Exception):  # noqa: N818 - an outcome of looking, not a fault of the run
    """The process exists, but the kernel did not give `what`; `errno` says why.

    EACCES and EPERM are refusals. ENOENT and ESRCH mean that this process has no such thing (`exe`
    or memory of a kernel thread or zombie); EFBIG that it is longer than the reader's limit.
    """

    def __init__(self, number: int, what: str) -> None:
        super().__init__(f"{what}: {os.strerror(number)}")
        self.errno = number
        self.what = what


class Unsupported(Exception):  # noqa: N818 - an outcome of looking, not a fault of the run
    """The process is of a kind that cannot be read, such as a 32-bit program."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class MemoryFault(Exception):  # noqa: N818 - an outcome of looking, not a fault of the run
    """No memory can be read at `address`: nothing is mapped there, or the image is gone."""

    def __init__(self, address: int) -> None:
        super().__init__(f"no readable memory at {address:#x}")
        self.address = address


class Reads(Protocol):
    """What can read a process's memory (`envprobe.process.memory.Memory`)."""

    def read(self, address: int, size: int) -> bytes:
        """Return exactly `size` bytes, or raise."""


def read_whole(descriptor: int, limit: int, what: str) -> bytes:
    """Return all that a descriptor gives; OSError, and AccessRefused with EFBIG beyond `limit`."""
    chunks: list[bytes] = []
    size = 0
    while chunk := os.read(descriptor, _CHUNK):
        size += len(chunk)
        if size > limit:
            raise AccessRefused(errno.EFBIG, what)
        chunks.append(chunk)
    return b"".join(chunks)


class ProcessHandle(Closing):
    """An open process; a context manager that closes the descriptor.

    When the main thread has exited while others live (state Z, other entries in task/), what the
    threads share is read through one of them: the main thread's own files are empty. `memory_task`
    is the number of that thread, else the pid.
    """

    __slots__ = ("_descriptor", "_shared", "memory_task", "pid", "start_ticks")

    def __init__(self, pid: int, descriptor: int) -> None:
        self.pid = pid
        self._descriptor = descriptor
        self._shared = ""
        self.memory_task = pid
        stat = self.stat()
        self.start_ticks = stat.start_ticks
        if stat.state in "ZX" and (task := self.living_task()) is not None:
            self._shared = f"task/{task}/"
            self.memory_task = task

    @classmethod
    def open(cls, pid: int) -> ProcessHandle:
        """Open process `pid` of this pid namespace; ProcessGone, AccessRefused."""
        if not 0 < pid < 1 << 31:
            raise ProcessGone(pid)
        try:
            descriptor = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in _GONE:
                raise ProcessGone(pid) from None
            raise AccessRefused(error.errno or 0, f"/proc/{pid}") from error
        try:
            return cls(pid, descriptor)
        except BaseException:
            os.close(descriptor)
            raise

    def close(self) -> None:
        """Close the descriptor; later calls do nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _path(self, name: str) -> str:
        return self._shared + name if name.partition("/")[0] in _OF_IMAGE else name

    def _failure(self, error: OSError, name: str) -> Exception:
        """Tell a vanished process from one that lacks or refuses `name`."""
        number = error.errno or 0
        if number in _GONE and not self._exists():
            return ProcessGone(self.pid)
        return AccessRefused(number, name)

    def _exists(self) -> bool:
        try:
            os.stat("stat", dir_fd=self._descriptor)
        except OSError as error:
            return error.errno not in _GONE
        return True

    def open_file(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Return a new descriptor of /proc/PID/`name`, which the caller closes.

        Raises ProcessGone, AccessRefused.
        """
        try:
            return os.open(self._path(name), flags | os.O_CLOEXEC, dir_fd=self._descriptor)
        except OSError as error:
            raise self._failure(error, name) from error

    def borrow(self, name: str) -> int | None:
        """Return a descriptor of /proc/PID/`name` that an ancestor has opened (`runner.lending`).

        None if there is none who lends, or none is lent. The caller closes the descriptor.
        """
        return lending.borrow(self._descriptor, self._path(name))

    def read(self, name: str, limit: int = MAX_FILE_BYTES) -> bytes:
        """Return the whole of /proc/PID/`name`.

        Raises ProcessGone, AccessRefused (EFBIG when it is longer than `limit` bytes: a file is
        never cut silently).
        """
        descriptor = self.open_file(name)
        try:
            return read_whole(descriptor, limit, name)
        except OSError as error:
            raise self._failure(error, name) from error
        finally:
            os.close(descriptor)

    def readlink(self, name: str) -> str:
        """Return the target of the link /proc/PID/`name` (`exe`, `cwd`, `root`, `ns/pid`, ...).

        Raises ProcessGone, AccessRefused (ENOENT: a kernel thread or zombie has no such thing).
        """
        try:
            return os.readlink(self._path(name), dir_fd=self._descriptor)
        except OSError as error:
            raise self._failure(error, name) from error

    def listdir(self, name: str) -> list[str]:
        """Return the names in the directory /proc/PID/`name`; ProcessGone, AccessRefused."""
        descriptor = self.open_file(name, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return os.listdir(descriptor)
        except OSError as error:
            raise self._failure(error, name) from error
        finally:
            os.close(descriptor)

    def stat(self) -> Stat:
        """Read /proc/PID/stat, which every user may read; ProcessGone, AccessRefused."""
        return Stat.parse(self.read("stat"))

    def status(self) -> Status:
        """Read /proc/PID/status, which every user may read; ProcessGone, AccessRefused."""
        return Status.parse(self.read("status"))

    def living_task(self) -> int | None:
        """Return a thread that lives although the main thread has exited, or None."""
        for name in self.listdir("task"):
            if name == str(self.pid):
                continue
            try:
                if Stat.parse(self.read(f"task/{name}/stat")).state not in "ZX":
                    return int(name)
            except AccessRefused:
                continue
        return None

    def auxv(self) -> dict[int, int]:
        """Return the auxiliary vector, getauxval(3).

        Raises ProcessGone, AccessRefused (ESRCH: it has no memory, or none yet), and
        Unsupported for a 32-bit target, whose half-sized pairs show as types above 2**32.
        """
        raw = self.read("auxv")
        vector: dict[int, int] = {}
        for kind, value in struct.iter_unpack("<QQ", raw[: len(raw) & ~15]):
            if kind >> 32:
                raise Unsupported("32-bit target")
            if kind == 0:
                break
            vector[kind] = value
        if not vector:  # older kernels for lack of memory, all kernels in the middle of an exec
            raise AccessRefused(errno.ESRCH, "auxv")
        return vector

    def identity(self, memory: Reads | None = None) -> Identity:
        """Return what names this process image; with `memory`, its AT_RANDOM bytes too.

        Parts that cannot be read are None or "". Raises ProcessGone.
        """
        return Identity(
            pid=self.pid,
            start_ticks=self.start_ticks,
            boot_id=boot_id(),
            pid_namespace=self.namespace("pid"),
            random=self._random(memory) if memory else "",
        )

    def namespace(self, kind: str) -> int | None:
        """Return the inode of the process's namespace of `kind`, None if that is refused.

        Raises ProcessGone. Two processes share the namespace exactly if the numbers are equal.
        """
        try:
            _, _, number = self.readlink(f"ns/{kind}").partition(":[")
        except AccessRefused:
            return None
        return int(number.rstrip("]")) if number.endswith("]") else None

    def _random(self, memory: Reads) -> str:
        try:
            return memory.read(self.auxv()[AT_RANDOM], _RANDOM_BYTES).hex()
        except (AccessRefused, KeyError, MemoryFault, Unsupported):
            return ""

    def same(self) -> bool:
        """Return whether the opened process still exists (an exec does not end it)."""
        try:
            return self.stat().start_ticks == self.start_ticks
        except (ProcessGone, AccessRefused):
            return False

    def verify(self, identity: Identity, memory: Reads | None = None) -> bool:
        """Return whether the process still exists and runs the image of `identity`.

        Without `memory`, or when `identity` has no `random`, an exec goes unnoticed.
        """
        if identity.pid != self.pid or identity.start_ticks != self.start_ticks or not self.same():
            return False
        if memory is None or not identity.random:
            return True
        try:
            return self._random(memory) == identity.random
        except ProcessGone:
            return False


@functools.cache
def boot_id() -> str:
    """Return the id of this boot, random(4), or "" where /proc/sys does not have it."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
