"""As whom a unit starts its programs (systemd.exec(5), "USER/GROUP IDENTITY")."""

from __future__ import annotations

import dataclasses
import grp
import os
import pwd
from typing import Final

from envprobe.errors import UndeterminedError
from envprobe.launch.types import NOWHERE, Place
from envprobe.runner.rights import Rights, of_user

_NOBODY: Final = 65534
_REMEDY: Final = "Run envprobe on the machine that the unit is for."


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """A user, a group and further groups, by name or number; "" where nothing is said.

    `place` is where the user is named. `dynamic`: the user is made when the unit is started.
    `unknown` says why the user cannot be told.
    """

    user: str = ""
    group: str = ""
    groups: tuple[str, ...] = ()
    place: Place = NOWHERE
    dynamic: bool = False
    unknown: str = ""

    def rights(self) -> Rights | None:
        """Return the rights of this identity, None where they are envprobe's own.

        Those of a dynamic user are nobody's. Raises UndeterminedError, with the line, for a user or
        group that this machine does not know.
        """
        if self.unknown:
            raise UndeterminedError(
                f"{self.place}: which user it is started as is not known: {self.unknown}", _REMEDY
            )
        if self.dynamic and not _is_user(self.user):
            return Rights(_NOBODY, _NOBODY) if os.geteuid() == 0 else None
        try:
            found = of_user(self.user)
        except UndeterminedError as error:
            raise UndeterminedError(f"{self.place}: {error.message}", _REMEDY) from None
        if not self.group and not self.groups:
            return found
        uid = os.geteuid() if found is None else found.uid
        gid = self._gid(self.group) if self.group else _first_group(uid)
        named = map(self._gid, self.groups)
        return Rights(uid, gid, tuple(dict.fromkeys((*_groups(uid, gid), *named))))

    def _gid(self, group: str) -> int:
        try:
            return grp.getgrgid(int(group)).gr_gid if group.isdecimal() else _named(group)
        except KeyError:
            raise UndeterminedError(
                f"{self.place}: the group {group} is not known on this machine", _REMEDY
            ) from None


NO_ONE: Final = Identity()
"""Where nobody is named."""


def _named(group: str) -> int:
    return grp.getgrnam(group).gr_gid


def _is_user(user: str) -> bool:
    try:
        pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)
    except KeyError:
        return False
    return bool(user)


def _first_group(uid: int) -> int:
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return os.getegid()


def _groups(uid: int, gid: int) -> tuple[int, ...]:
    """Return what initgroups(3) gives."""
    try:
        return tuple(os.getgrouplist(pwd.getpwuid(uid).pw_name, gid))
    except KeyError:
        return (gid,)
