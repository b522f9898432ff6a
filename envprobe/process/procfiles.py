"""The two files of /proc/PID that every user may read, parsed: stat and status."""

from __future__ import annotations

import dataclasses
import os


@dataclasses.dataclass(frozen=True, slots=True)
class Stat:
    """The fields of /proc/PID/stat in use, proc_pid_stat(5).

    `start_ticks` counts clock ticks since boot. The four addresses are 0 when the reader may not
    see them, and for kernel threads and zombies.
    """

    pid: int
    comm: str
    state: str
    ppid: int
    start_ticks: int
    arg_start: int
    arg_end: int
    env_start: int
    env_end: int

    @classmethod
    def parse(cls, raw: bytes) -> Stat:
        """Parse the file; the name may hold any byte, parentheses and newlines included."""
        opening, closing = raw.index(b"("), raw.rindex(b")")
        fields = raw[closing + 1 :].split()

        def field(number: int) -> int:
            """Return a field by its number in the manual page (0 if the kernel lacks it)."""
            return int(fields[number - 3]) if number - 3 < len(fields) else 0

        return cls(
            pid=int(raw[:opening]),
            comm=os.fsdecode(raw[opening + 1 : closing]),
            state=fields[0].decode("ascii", "replace"),
            ppid=field(4),
            start_ticks=field(22),
            arg_start=field(48),
            arg_end=field(49),
            env_start=field(50),
            env_end=field(51),
        )


class Status(dict[str, str]):
    """The lines of /proc/PID/status by name, proc_pid_status(5), with the fields in use typed."""

    @classmethod
    def parse(cls, raw: bytes) -> Status:
        """Parse the file; the kernel escapes newlines in the name."""
        lines = (line.partition(":") for line in os.fsdecode(raw).split("\n"))
        return cls({name: text.strip() for name, colon, text in lines if colon})

    def _numbers(self, name: str, base: int = 10) -> tuple[int, ...]:
        return tuple(int(word, base) for word in self.get(name, "").split())

    @property
    def uids(self) -> tuple[int, ...]:
        """Real, effective, saved and file system user id, in the reader's user namespace."""
        return self._numbers("Uid")

    @property
    def gids(self) -> tuple[int, ...]:
        """Real, effective, saved and file system group id."""
        return self._numbers("Gid")

    @property
    def tgid(self) -> int | None:
        """The process's number; another one than asked for if a thread's number was opened."""
        return next(iter(self._numbers("Tgid")), None)

    @property
    def inner_pid(self) -> int | None:
        """The process's number in its own pid namespace; None before Linux 4.1."""
        return next(reversed(self._numbers("NSpid")), None)

    @property
    def effective_capabilities(self) -> int:
        """The effective capabilities as a bit mask, 0 if not shown."""
        return next(iter(self._numbers("CapEff", 16)), 0)

    @property
    def seccomp(self) -> int | None:
        """0 no seccomp, 1 strict, 2 a filter; None if the kernel does not say."""
        return next(iter(self._numbers("Seccomp")), None)
