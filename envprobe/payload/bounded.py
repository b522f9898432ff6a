"""Limits itself, then becomes the command: python bounded.py PROCESSES SECONDS RIGHTS COMMAND...

No core file, at most PROCESSES more tasks than the user has now (RLIMIT_NPROC counts tasks of the
real user and is not applied to root, setrlimit(2)), at most SECONDS of CPU time for each process.
RIGHTS is UID:GID:GROUP,GROUP... to take on, without any capability and with no_new_privs, or "-" to
keep all rights. Standard library only, Python 3.9 to 3.15.
"""

from __future__ import annotations

import os
import resource
import sys

# include/uapi/linux/prctl.h and capability.h
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
CAPABILITY_VERSION_3 = 0x20080522
LAST_CAPABILITY = 63


def tasks_of(uid: int) -> int:
    """Return how many threads the user has."""
    count = 0
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        try:
            if os.stat("/proc/" + entry).st_uid == uid:
                count += len(os.listdir("/proc/" + entry + "/task"))
        except OSError:
            continue
    return count


def limit(kind: int, wanted: int) -> None:
    """Lower one limit, soft and hard, to what is wanted or to what it already was."""
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    resource.setrlimit(kind, (wanted, wanted))


def take_on(uid: int, gid: int, groups: list[int], proc: str = "/proc") -> None:
    """Become this user with nothing else, or end with an error; `proc` is where procfs is."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(LAST_CAPABILITY + 1):
        # Refused without CAP_SETPCAP: what remains in the bounding set cannot be gained again.
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if {*os.getgroups(), os.getgid()} != {*groups, gid}:
        os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    libc.capset(header, (ctypes.c_uint32 * 6)())
    require(uid, gid, groups, proc)


def require(uid: int, gid: int, groups: list[int], proc: str) -> None:
    """End with an error unless the kernel shows these rights and no others."""
    # Any other encoding would be imported, from where this user may not be allowed to read.
    with open(proc + "/thread-self/status", encoding="utf-8", errors="replace") as file:
        shown = dict(line.split(":", 1) for line in file)
    if {int(one) for one in shown["Uid"].split()} != {uid}:
        sys.exit("the user id could not be taken on")
    groups_now = {int(one) for name in ("Gid", "Groups") for one in shown[name].split()}
    if groups_now != {gid, *groups}:
        sys.exit("the group ids could not be taken on")
    if any(int(shown[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")):
        sys.exit("the capabilities could not be given up")
    if shown["NoNewPrivs"].strip() != "1":
        sys.exit("no_new_privs could not be set")


def main(processes: str, seconds: str, rights: str, *command: str) -> None:
    """Set the limits, take on the rights and run the command in this process."""
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_CPU, int(seconds))
    uid = os.getuid() if rights == "-" else int(rights.split(":")[0])
    limit(resource.RLIMIT_NPROC, tasks_of(uid) + int(processes))
    if rights != "-":
        _, gid, groups = rights.split(":")
        take_on(uid, int(gid), [int(one) for one in groups.split(",") if one])
    os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
