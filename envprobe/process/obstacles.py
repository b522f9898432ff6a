"""What can keep us from reading a process, in words, and the ways out."""

from __future__ import annotations

import enum
from typing import Final


class Obstacle(str, enum.Enum):
    """What stands between a reader and a process."""

    GONE = "gone"
    HIDDEN = "hidden"
    ZOMBIE = "zombie"
    KERNEL_THREAD = "kernel_thread"
    OTHER_USER = "other_user"
    OTHER_USER_NAMESPACE = "other_user_namespace"
    NOT_DUMPABLE = "not_dumpable"
    MORE_CAPABILITIES = "more_capabilities"
    YAMA_ANCESTORS = "yama_ancestors"
    YAMA_CAPABILITY = "yama_capability"
    YAMA_NOBODY = "yama_nobody"
    SECCOMP = "seccomp"
    SECURITY_MODULE = "security_module"
    UNSUPPORTED = "unsupported"
    TOO_LONG = "too_long"
    NO_MEMORY = "no_memory"
    NOT_OFFERED = "not_offered"


NOENV: Final = (
    "start the server with SPT_NOENV=1 next time, which keeps its exec block readable without "
    "access to its memory"
)
EXEC_BLOCK: Final = "rely on its exec block"
AS_ROOT: Final = "run envprobe as root"
_CAPABILITY: Final = (
    "grant envprobe CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE; Kubernetes "
    "securityContext.capabilities.add: [SYS_PTRACE])"
)

WORDS: Final[dict[Obstacle, tuple[str, tuple[str, ...]]]] = {
    Obstacle.GONE: (
        "the process does not exist (any more)",
        ("run envprobe again and, if it vanishes again, look in the server's log for its end",),
    ),
    Obstacle.HIDDEN: (
        "the process exists, but this /proc hides it (mount option hidepid)",
        (
            AS_ROOT,
            "join the group that the gid= option of the /proc mount names",
            _CAPABILITY,
        ),
    ),
    Obstacle.ZOMBIE: (
        "the process has ended and waits for its parent to collect it (zombie)",
        ("look in the server's log for the reason of its end and start the server again",),
    ),
    Obstacle.KERNEL_THREAD: (
        "the process is a kernel thread, which runs no program",
        ("name a process of the server instead",),
    ),
    Obstacle.OTHER_USER: (
        "the process runs as {target}, envprobe as {reader} without CAP_SYS_PTRACE",
        (AS_ROOT, "run it as the server's own user ({target})", _CAPABILITY),
    ),
    Obstacle.OTHER_USER_NAMESPACE: (
        "the process belongs to another user namespace, where envprobe's rights do not count",
        (
            "run envprobe as root on the host, outside this user namespace",
            "run it inside the server's own container",
        ),
    ),
    Obstacle.NOT_DUMPABLE: (
        "the process runs as your user but is not dumpable (set-user-id, file capabilities or "
        "PR_SET_DUMPABLE), so that its files in /proc belong to root",
        (AS_ROOT, _CAPABILITY),
    ),
    Obstacle.MORE_CAPABILITIES: (
        "the process holds capabilities that envprobe lacks, and envprobe has no CAP_SYS_PTRACE",
        (AS_ROOT, _CAPABILITY),
    ),
    Obstacle.YAMA_ANCESTORS: (
        "kernel.yama.ptrace_scope is 1: only an ancestor of the process may read its memory",
        (
            NOENV,
            "start the server with `envprobe run -- COMMAND` next time",
            AS_ROOT,
            _CAPABILITY,
        ),
    ),
    Obstacle.YAMA_CAPABILITY: (
        "kernel.yama.ptrace_scope is 2: only who holds CAP_SYS_PTRACE may read the memory of "
        "the process",
        (NOENV, AS_ROOT, _CAPABILITY),
    ),
    Obstacle.YAMA_NOBODY: (
        "kernel.yama.ptrace_scope is 3: nobody may read another process's memory until a reboot",
        (NOENV, "boot with kernel.yama.ptrace_scope below 3"),
    ),
    Obstacle.SECCOMP: (
        "a seccomp filter on envprobe itself, usually its container's, refuses it ({refusal})",
        (NOENV, "run envprobe outside this container", _CAPABILITY),
    ),
    Obstacle.SECURITY_MODULE: (
        "the kernel refuses it by a rule that it does not show, such as AppArmor, SELinux or a "
        "root process that is not dumpable ({refusal})",
        (NOENV, AS_ROOT, _CAPABILITY, "look for the refusal in the kernel's log (journalctl -k)"),
    ),
    Obstacle.UNSUPPORTED: (
        "the process is of a kind that envprobe does not read ({refusal})",
        (EXEC_BLOCK, "look at a 64-bit process of the same server"),
    ),
    Obstacle.TOO_LONG: (
        "it is longer than execve can hand over, so the process has moved its bounds ({refusal})",
        ("rely on the other views of this process",),
    ),
    Obstacle.NO_MEMORY: (
        "the process has no memory at this moment: it is starting a program or ending",
        ("run envprobe again",),
    ),
    Obstacle.NOT_OFFERED: (
        "this kernel does not offer it ({refusal})",
        ("run envprobe on the host itself: gVisor and WSL 1 lack some files of /proc",),
    ),
}
"""The cause of each in words, then the ways out; what is in braces is filled in."""
