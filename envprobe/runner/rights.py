"""The rights that foreign code is started with: those of the process it stands for, never more.

payload/bounded.py takes them on before it runs the command: the ids, no capability in any set, and
no_new_privs, so that no set-user-id program or file capability gives anything back.
"""

from __future__ import annotations

import dataclasses
import os
import pwd
from collections.abc import Mapping
from typing import Final

from envprobe.errors import UndeterminedError

_CAP_SETGID: Final = 1 << 6
_CAP_SETUID: Final = 1 << 7
_AS_ROOT: Final = "Run envprobe as root, which can take on the rights of every user"


@dataclasses.dataclass(frozen=True, slots=True)
class Rights:
    """One user id, one group id and the supplementary groups, in the order of the kernel."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()

    @classmethod
    def of(cls, status: Mapping[str, str]) -> Rights:
        """Return the rights of a process from its /proc/PID/status (proc_pid_status(5)) by name.

        Raises UndeterminedError if it has several user or group ids at a time, or shows none.
        """
        ids = [set(map(int, status.get(name, "").split())) for name in ("Uid", "Gid")]
        if any(len(one) != 1 for one in ids):
            raise UndeterminedError(
                "the process has real, effective and saved ids that differ",
                "Ask another process of the same program, one that runs as a single user.",
            )
        groups = map(int, status.get("Groups", "").split())
        return cls(ids[0].pop(), ids[1].pop(), tuple(groups))

    def require(self) -> None:
        """Raise UndeterminedError, with the command to use, unless this process can take them on.

        It can if it has just these ids and groups itself, or the capabilities to change them.
        """
        same_ids = {*os.getresuid()} == {self.uid} and {*os.getresgid()} == {self.gid}
        own_groups = {*os.getgroups(), os.getgid()}
        if same_ids and own_groups == {*self.groups, self.gid}:
            return
        needed = _CAP_SETGID | _CAP_SETUID
        if _own_capabilities() & needed == needed:
            return
        uid, gid = os.geteuid(), os.getegid()
        if same_ids:
            reason = f"it runs with groups {_listed(self.groups)}, envprobe {_listed(own_groups)}"
            raise UndeterminedError(reason, f"{_AS_ROOT}, or from a new login of the same user.")
        raise UndeterminedError(
            f"it runs as {self}, envprobe as uid {uid}, gid {gid} and cannot become another user",
            f"{_AS_ROOT}, or as its own user: sudo -u '#{self.uid}' envprobe ...",
        )

    def encoded(self) -> str:
        """Return them as payload/bounded.py takes them: UID:GID:GROUP,GROUP..."""
        return f"{self.uid}:{self.gid}:{','.join(map(str, self.groups))}"

    def __str__(self) -> str:
        return f"uid {self.uid}, gid {self.gid}"


def of_user(user: str) -> Rights | None:
    """Return the rights of a user, named or by number; None where they are envprobe's own.

    Raises UndeterminedError for a user that this machine does not know.
    """
    if not user:
        return None
    try:
        entry = pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)
    except KeyError:
        raise UndeterminedError(f"the user {user} is not known on this machine") from None
    if entry.pw_uid == os.geteuid():
        return None
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    return Rights(entry.pw_uid, entry.pw_gid, groups)


def _listed(groups: set[int] | tuple[int, ...]) -> str:
    return ", ".join(map(str, sorted(groups))) or "none"


def _own_capabilities() -> int:
    """Return the effective capabilities of this process as a bit mask."""
    with open("/proc/thread-self/status", encoding="utf-8", errors="replace") as file:
        lines = dict(line.partition(":")[::2] for line in file)
    return int(lines.get("CapEff", "0"), 16)
