"""Why a process cannot be read: real refusals of the kernel, each named with its remedy."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envprobe.process import access
from envprobe.process.access import Reader, diagnose, explain
from envprobe.process.handle import (
    AccessRefused,
    ProcessGone,
    ProcessHandle,
    Unsupported,
)
from envprobe.process.memory import Memory
from envprobe.process.obstacles import WORDS, Obstacle
from envprobe.process.syscalls import process_vm_readv
from envprobe.runner.forked import run_each
from tests.programs.raw import running
from tests.programs.requirement import missing

NOBODY = 65534
libc = ctypes.CDLL(None, use_errno=True)


def need_root() -> None:
    if os.geteuid():
        missing("root", "this test changes users and namespaces")


def need_mounts() -> None:
    need_root()
    if not Reader.own().capabilities & 1 << 21:
        missing("root", "this test mounts a file system, which needs CAP_SYS_ADMIN")


def checked(result: int) -> None:
    """Raise the error of a libc call that failed."""
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def as_reader(prepare: Callable[[], None], look: Callable[[], object]) -> object:
    """Return what `look` sees in a process that did `prepare` first."""

    def work(_: object) -> object:
        prepare()
        return look()

    def failed(_: object) -> object:
        raise AssertionError("the reader died or hung")

    results = run_each([None], work, deadline=30, on_timeout=failed, on_crash=failed)
    return next(result for _, result in results)


def become_nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


@contextlib.contextmanager
def forked_target(prepare: Callable[[], object]) -> Iterator[int]:
    """Give the pid of a fork child that did `prepare` and lives on."""
    ready, told = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            prepare()
            os.write(told, b"x")
            signal.pause()
        finally:
            os._exit(1)
    try:
        os.close(told)
        assert os.read(ready, 1) == b"x"
        yield pid
    finally:
        os.close(ready)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def refusal(pid: int, name: str = "environ") -> tuple[Obstacle, str, str]:
    """Open a process, be refused, and return the obstacle with its reason and remedy."""
    with ProcessHandle.open(pid) as handle:
        try:
            with Memory.open(handle) if name == "mem" else contextlib.nullcontext():
                handle.read(name)
        except AccessRefused as refused:
            return diagnose(handle, refused), *explain(handle, refused, "the thing")
    raise AssertionError("nothing was refused")


@pytest.mark.root
def test_another_user() -> None:
    need_root()
    with running([b"A=1"]) as pid:
        for name in ("environ", "mem"):
            obstacle, reason, remedy = as_reader(
                become_nobody, lambda name=name: refusal(pid, name)
            )
            assert obstacle is Obstacle.OTHER_USER
            assert reason == (
                "the thing cannot be read: the process runs as uid 0, gid 0, envprobe as uid 65534,"
                " gid 65534 without CAP_SYS_PTRACE"
            )
            assert remedy.startswith("Run envprobe as root; or run it as the server's own user")
            assert "CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE" in remedy


@pytest.mark.root
def test_the_same_user_with_another_group() -> None:
    need_root()

    def other_group() -> None:
        os.setgroups([])
        os.setgid(NOBODY - 1)
        os.setuid(NOBODY)

    with forked_target(become_nobody) as pid:
        obstacle, reason, _ = as_reader(other_group, lambda: refusal(pid))
    assert obstacle is Obstacle.OTHER_USER
    assert "gid 65533" in reason


@pytest.mark.root
def test_a_process_that_is_not_dumpable() -> None:
    need_root()

    def prepare() -> None:
        become_nobody()
        checked(libc.prctl(4, 0, 0, 0, 0))  # PR_SET_DUMPABLE

    with forked_target(prepare) as pid:
        obstacle, reason, remedy = as_reader(become_nobody, lambda: refusal(pid))
    assert obstacle is Obstacle.NOT_DUMPABLE
    assert "PR_SET_DUMPABLE" in reason
    assert remedy.startswith("Run envprobe as root; or grant envprobe CAP_SYS_PTRACE")


@pytest.mark.root
def test_root_without_capabilities_meets_root_with_them() -> None:
    need_root()

    def drop_capabilities() -> None:
        header = struct.pack("<II", 0x20080522, 0)
        checked(libc.capset(header, bytes(24)))

    with running([]) as pid:
        obstacle, reason, remedy = as_reader(drop_capabilities, lambda: refusal(pid))
    assert obstacle is Obstacle.MORE_CAPABILITIES
    assert "capabilities that envprobe lacks" in reason
    assert remedy.startswith("Grant envprobe CAP_SYS_PTRACE"), "it already is root"


def enter_user_namespace() -> None:
    uid, gid = os.getuid(), os.getgid()
    try:
        checked(libc.unshare(0x10000000))  # CLONE_NEWUSER
    except OSError as error:
        os._exit(error.errno or 1)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def test_another_user_namespace() -> None:
    if subprocess.run(["unshare", "-Ur", "true"], capture_output=True, check=False).returncode:
        missing("user-namespaces", "this kernel does not let us make one")
    with running([]) as pid:
        obstacle, reason, remedy = as_reader(enter_user_namespace, lambda: refusal(pid))
    assert obstacle is Obstacle.OTHER_USER_NAMESPACE
    assert "another user namespace" in reason
    assert remedy.startswith("Run envprobe as root on the host, outside this user namespace")


@pytest.mark.root
def test_another_user_in_another_user_namespace() -> None:
    need_root()
    with forked_target(become_nobody) as pid:
        obstacle, _, _ = as_reader(enter_user_namespace, lambda: refusal(pid))
    assert obstacle is Obstacle.OTHER_USER_NAMESPACE, "being root there would not help"


def hide_processes(option: bytes) -> None:
    """Mount a /proc that hides other users' processes, in a mount namespace of our own."""
    checked(libc.unshare(0x00020000))  # CLONE_NEWNS
    checked(libc.mount(b"none", b"/", None, 0x4000 | 0x40000, None))  # MS_REC | MS_PRIVATE
    checked(libc.mount(b"proc", b"/proc", b"proc", 0, option))
    become_nobody()


@pytest.mark.root
@pytest.mark.parametrize("option", [b"hidepid=1", b"hidepid=2"])
def test_a_proc_that_hides_processes(option: bytes) -> None:
    need_mounts()

    def look() -> tuple[type, Obstacle, str, str]:
        try:
            ProcessHandle.open(pid)
        except (ProcessGone, AccessRefused) as failure:
            return type(failure), diagnose(pid, failure), *explain(pid, failure, "the thing")
        raise AssertionError("nothing was hidden")

    with running([]) as pid:
        kind, obstacle, reason, remedy = as_reader(lambda: hide_processes(option), look)
    assert kind is (AccessRefused if option == b"hidepid=1" else ProcessGone)
    assert obstacle is Obstacle.HIDDEN
    assert "the process exists, but this /proc hides it" in reason
    assert remedy.startswith("Run envprobe as root; or join the group")


def test_a_process_that_is_gone() -> None:
    with running([]) as pid, ProcessHandle.open(pid) as handle:
        pass
    with running([]) as pid:
        handle = ProcessHandle.open(pid)
    with handle, pytest.raises(ProcessGone) as gone:
        handle.read("environ")
    for target in (handle, pid):
        assert diagnose(target, gone.value) is Obstacle.GONE
        reason, remedy = explain(target, gone.value, "the thing")
        assert "the process does not exist" in reason
        assert remedy.startswith("Run envprobe again")
    assert diagnose(1 << 40, ProcessGone(1 << 40)) is Obstacle.GONE


def test_a_zombie() -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with ProcessHandle.open(child.pid) as handle:
            reason, remedy = explain(handle, None, "the thing")
            assert diagnose(handle, None) is Obstacle.ZOMBIE
    finally:
        child.wait()
    assert "zombie" in reason
    assert "log" in remedy


def test_a_kernel_thread() -> None:
    try:
        handle = ProcessHandle.open(2)
    except ProcessGone:
        missing("kernel-threads", "none are visible in this pid namespace")
    with handle:
        if handle.stat().comm != "kthreadd":
            missing("kernel-threads", "none are visible in this pid namespace")
        assert diagnose(handle, AccessRefused(errno.ESRCH, "mem")) is Obstacle.KERNEL_THREAD
        assert "kernel thread" in explain(handle, None, "the thing")[0]


def forbid_process_vm_readv() -> None:
    """Install a seccomp filter, as containers have it: EPERM for process_vm_readv(2)."""
    number = {"x86_64": 310, "aarch64": 270}[os.uname().machine]
    load, equal, end = 0x20, 0x15, 0x06
    program = [(load, 0, 0, 0), (equal, 0, 1, number), (end, 0, 0, 0x50000 | errno.EPERM)]
    program.append((end, 0, 0, 0x7FFF0000))
    code = b"".join(struct.pack("<HBBI", *line) for line in program)
    buffer = ctypes.create_string_buffer(code)
    filters = struct.pack("<HxxxxxxQ", len(program), ctypes.addressof(buffer))
    checked(libc.prctl(38, 1, 0, 0, 0))  # PR_SET_NO_NEW_PRIVS
    checked(libc.prctl(22, 2, ctypes.c_char_p(filters), 0, 0))  # PR_SET_SECCOMP


def test_a_seccomp_filter_on_the_reader() -> None:
    if os.geteuid() and access.yama_scope():
        missing("root", "Yama refuses the same read, and the kernel does not say which it was")

    def look() -> tuple[Obstacle, str, str]:
        with ProcessHandle.open(pid) as handle:
            try:
                process_vm_readv(pid, 4096, 1)
            except OSError as error:
                refused = AccessRefused(error.errno or 0, "process_vm_readv")
            return diagnose(handle, refused), *explain(handle, refused, "the thing")

    with running([]) as pid:
        obstacle, reason, remedy = as_reader(forbid_process_vm_readv, look)
    assert obstacle is Obstacle.SECCOMP
    assert "process_vm_readv: Operation not permitted" in reason
    assert remedy.startswith("Start the server with SPT_NOENV=1 next time")


YAMA = {
    1: (Obstacle.YAMA_ANCESTORS, "ptrace_scope is 1: only an ancestor"),
    2: (Obstacle.YAMA_CAPABILITY, "ptrace_scope is 2: only who holds CAP_SYS_PTRACE"),
    3: (Obstacle.YAMA_NOBODY, "ptrace_scope is 3: nobody"),
}


@pytest.mark.parametrize("scope", YAMA)
def test_yama_with_a_faked_scope(scope: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scope is faked: a kernel with Yama is needed for more. The target is a real one."""
    reader = Reader(1000, 1000, 0, False, True, scope)
    monkeypatch.setattr(Reader, "own", classmethod(lambda cls: reader))
    with running([]) as pid, ProcessHandle.open(pid) as handle:
        refused = AccessRefused(errno.EACCES, "mem")
        assert diagnose(handle, refused) is YAMA[scope][0]
        reason, remedy = explain(handle, refused, "the memory")
    assert YAMA[scope][1] in reason
    ways = ["SPT_NOENV=1", "as root", "CAP_SYS_PTRACE"] if scope < 3 else ["SPT_NOENV=1", "boot"]
    places = [remedy.index(way) for way in ways]
    assert places == sorted(places)
    assert ("envprobe run -- " in remedy) == (scope == 1)


@pytest.mark.parametrize("scope", [1, 2])
def test_yama_with_a_faked_scope_spares_who_may_trace(scope: int) -> None:
    """A refusal in spite of the capability has another reason."""
    reader = Reader(0, 0, 1 << 19, False, True, scope)
    with running([]) as pid, ProcessHandle.open(pid) as handle:
        refused = AccessRefused(errno.EACCES, "mem")
        assert diagnose(handle, refused, reader) is Obstacle.SECURITY_MODULE


def test_the_scope_is_read_from_the_kernel(tmp_path: Path) -> None:
    file = tmp_path / "ptrace_scope"
    assert access.yama_scope(str(file)) is None
    file.write_text("2\n")
    assert access.yama_scope(str(file)) == 2
    assert access.yama_scope() == Reader.own().yama_scope
    assert Path(access.YAMA_FILE).exists() == (access.yama_scope() is not None)


def test_what_the_process_does_not_have() -> None:
    with running([]) as pid, ProcessHandle.open(pid) as handle:
        with pytest.raises(AccessRefused) as refused:
            handle.read("no_such_file")
        assert diagnose(handle, refused.value) is Obstacle.NOT_OFFERED
        assert "no_such_file: No such file" in explain(handle, refused.value, "the thing")[0]
        with pytest.raises(AccessRefused) as refused:
            handle.read("maps", limit=1)
        assert diagnose(handle, refused.value) is Obstacle.TOO_LONG
        reason, _ = explain(handle, Unsupported("32-bit target"), "the thing")
        assert "32-bit target" in reason
        assert diagnose(handle, AccessRefused(errno.ESRCH, "mem")) is Obstacle.NO_MEMORY


def test_the_exec_block_is_a_way_out_only_where_an_environment_was_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = Reader(1000, 1000, 0, False, True, 2)
    monkeypatch.setattr(Reader, "own", classmethod(lambda cls: reader))
    failures = (AccessRefused(errno.EACCES, "mem"), Unsupported("32-bit target"))
    with running([]) as pid, ProcessHandle.open(pid) as handle:
        for failure, block, other in zip(
            failures,
            ("SPT_NOENV=1", "exec block"),
            ("Run envprobe as root", "Look at"),
            strict=True,
        ):
            _, wanted = explain(handle, failure, "the memory")
            reason, remedy = explain(handle, failure, "the memory", environment=False)
            assert block in wanted
            assert remedy.startswith(other)
            for text in (reason, remedy):
                assert "SPT_NOENV" not in text
                assert "exec block" not in text


@pytest.mark.parametrize("obstacle", Obstacle)
def test_each_obstacle_has_a_sentence_and_ways_out(obstacle: Obstacle) -> None:
    cause, ways = WORDS[obstacle]
    assert cause
    assert ways
    for text in (cause, *ways):
        assert text.rstrip(".") == text, "the pieces are joined into a sentence"
