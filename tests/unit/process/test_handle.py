"""The handle of a process: what it reads, and that it never speaks of another process."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

import envprobe.process.syscalls  # noqa: F401 - a child that is nobody may not be able to import
from envprobe.process.environ_libc import read_libc
from envprobe.process.handle import (
    AT_RANDOM,
    AccessRefused,
    ProcessGone,
    ProcessHandle,
    Stat,
    Status,
    Unsupported,
    boot_id,
)
from envprobe.process.maps import AddressSpace
from envprobe.process.memory import Memory
from tests.programs import elf32
from tests.programs.cbuild import build
from tests.programs.ctarget import CTarget
from tests.programs.requirement import missing
from tests.unit.process.looking import opened

WAITER = "import sys; print('ready', flush=True); sys.stdin.read()"


def waiter(code: str = "") -> CTarget:
    return CTarget(sys.executable, "-I", "-c", f"{code}\n{WAITER}")


def test_it_agrees_with_psutil() -> None:
    with waiter() as target, ProcessHandle.open(target.pid) as handle:
        other = psutil.Process(target.pid)
        stat, status = handle.stat(), handle.status()
        assert (stat.pid, stat.ppid, stat.comm) == (target.pid, os.getpid(), other.name())
        assert tuple(other.uids()) == status.uids[:3]
        assert tuple(other.gids()) == status.gids[:3]
        assert handle.readlink("exe") == other.exe()
        assert handle.readlink("cwd") == other.cwd()
        ticks = os.sysconf("SC_CLK_TCK")
        assert stat.start_ticks / ticks + psutil.boot_time() == pytest.approx(
            other.create_time(), abs=1.5
        )
        assert status.tgid == target.pid
        assert status.inner_pid is not None
        assert str(target.pid) in handle.listdir("task")


def test_addresses_of_the_exec_block_hold_the_environment() -> None:
    program = build("target")
    with (
        CTarget(program, env={"ONE": "1", "TWO": "2"}) as target,
        opened(target.pid) as (handle, memory, _),
    ):
        stat = handle.stat()
        block = memory.read(stat.env_start, stat.env_end - stat.env_start)
        arguments = memory.read(stat.arg_start, stat.arg_end - stat.arg_start)
    assert block == b"ONE=1\0TWO=2\0"
    assert arguments == bytes(program) + b"\0"


@pytest.mark.parametrize("name", ["a) Z 1 (b", ") (", "(((", "x\n) R 2"])
def test_names_cannot_forge_the_fields_after_them(name: str) -> None:
    code = f"open('/proc/self/comm', 'wb').write({name.encode()!r})"
    with waiter(code) as target, ProcessHandle.open(target.pid) as handle:
        stat = handle.stat()
        assert (stat.comm, stat.ppid) == (name, os.getpid())
        assert stat.state in "RS"
        assert handle.status().tgid == target.pid


@given(st.binary(max_size=64), st.lists(st.integers(0, 2**64 - 1), min_size=49, max_size=49))
def test_stat_survives_any_name(comm: bytes, numbers: list[int]) -> None:
    fields = [str(number).encode() for number in numbers]
    stat = Stat.parse(b"7 (" + comm + b") S " + b" ".join(fields) + b"\n")
    assert os.fsencode(stat.comm) == comm
    assert stat.state == "S"
    assert (stat.ppid, stat.start_ticks) == (numbers[0], numbers[18])
    assert (stat.arg_start, stat.arg_end) == (numbers[44], numbers[45])
    assert (stat.env_start, stat.env_end) == (numbers[46], numbers[47])


def test_status_of_nested_namespaces_and_old_kernels() -> None:
    status = Status.parse(b"Name:\ta: b\nTgid:\t40\nNSpid:\t40\t7\t1\nCapEff:\t00000000a80425fb\n")
    assert (status["Name"], status.tgid, status.inner_pid) == ("a: b", 40, 1)
    assert status.effective_capabilities == 0xA80425FB
    assert status.seccomp is None
    assert Status.parse(b"").inner_pid is None
    assert Status.parse(b"").uids == ()


def test_every_reading_of_an_ended_process_says_gone() -> None:
    with waiter() as target:
        handle = ProcessHandle.open(target.pid)
        identity = handle.identity()
        assert handle.same()
        assert handle.verify(identity)
    readings: list[Callable[[], object]] = [
        handle.stat,
        handle.status,
        handle.auxv,
        handle.living_task,
        handle.identity,
        lambda: handle.read("environ"),
        lambda: handle.readlink("exe"),
        lambda: handle.listdir("task"),
        lambda: handle.open_file("mem"),
        lambda: handle.namespace("user"),
        lambda: Memory.open(handle),
        lambda: AddressSpace(handle),
    ]
    for reading in readings:
        with pytest.raises(ProcessGone) as caught:
            reading()
        assert caught.value.pid == target.pid
    assert not handle.same()
    assert not handle.verify(identity)
    handle.close()


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1, 2**31, 2**70])
def test_numbers_that_are_no_process_are_gone(pid: int) -> None:
    with pytest.raises(ProcessGone):
        ProcessHandle.open(pid)


@pytest.mark.root
def test_a_reused_number_is_another_process() -> None:
    """The kernel's next number is set; other programs may take it first, so this is repeated."""
    last = Path("/proc/sys/kernel/ns_last_pid")
    if os.geteuid() or not os.access(last, os.W_OK):
        missing("root", f"{last} cannot be written")
    for _ in range(50):
        with waiter() as target:
            handle = ProcessHandle.open(target.pid)
            identity = handle.identity()
        last.write_text(str(target.pid - 1))
        with waiter() as second:
            if second.pid != target.pid:
                handle.close()
                continue
            with handle, ProcessHandle.open(second.pid) as new:
                assert not handle.same()
                assert not handle.verify(identity)
                with pytest.raises(ProcessGone):
                    handle.read("environ")
                assert new.same()
                assert new.identity() != identity or new.start_ticks == identity.start_ticks
            return
    missing("root", "other programs took every number first")


def test_a_zombie_has_a_state_but_no_memory() -> None:
    with waiter() as target, ProcessHandle.open(target.pid) as handle:
        target.process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, target.pid, os.WEXITED | os.WNOWAIT)
        assert handle.stat().state == "Z"
        assert handle.same()
        assert handle.living_task() is None
        with pytest.raises(AccessRefused) as caught:
            handle.auxv()
        # Rights are looked at first: what has no memory is not dumpable (__ptrace_may_access).
        assert caught.value.errno == (errno.EACCES if os.geteuid() else errno.ESRCH)
        with pytest.raises(AccessRefused) as caught:
            handle.readlink("exe")
        assert caught.value.errno == errno.ENOENT
        with pytest.raises(AccessRefused):
            Memory.open(handle)


def test_a_kernel_thread_has_neither_program_nor_memory() -> None:
    try:
        handle = ProcessHandle.open(2)
    except ProcessGone:
        missing("kernel-thread", "no kernel thread is visible in this pid namespace")
    with handle:
        if handle.stat().comm != "kthreadd":
            missing("kernel-thread", "no kernel thread is visible in this pid namespace")
        for reading in (handle.auxv, lambda: handle.readlink("exe"), lambda: Memory.open(handle)):
            with pytest.raises(AccessRefused):
                reading()
        assert handle.same()


def test_threads_that_outlive_the_main_thread_speak_for_it() -> None:
    program = build("main_gone", "-pthread")
    with CTarget(program, env={"ONE": "1"}) as target, opened(target.pid) as process:
        handle = process.handle
        assert handle.stat().state == "Z"
        assert handle.living_task() == handle.memory_task
        assert handle.memory_task != target.pid
        assert handle.read("environ") == b"ONE=1\0"
        assert handle.auxv()[AT_RANDOM]
        assert handle.readlink("exe") == str(program)
        assert handle.readlink("cwd") == os.getcwd()
        assert process.memory.alive()
        assert process.space.mappings()
        identity = handle.identity(process.memory)
        assert len(identity.random) == 32
        assert handle.verify(identity, process.memory)


def test_an_exec_makes_another_identity_of_the_same_process() -> None:
    shell = ["-c", 'echo ready; read line; exec "$0"', str(build("target"))]
    with CTarget("/bin/sh", *shell) as target, opened(target.pid) as process:
        handle = process.handle
        before = handle.identity(process.memory)
        assert handle.verify(before, process.memory)
        assert target.process.stdin is not None
        assert target.process.stdout is not None
        target.process.stdin.write(b"\n")
        target.process.stdin.flush()
        assert target.process.stdout.readline() == b"ready\n"
        assert handle.same()
        assert not handle.verify(before, process.memory)
        with Memory.open(handle) as memory:
            after = handle.identity(memory)
            assert not handle.verify(before, memory)
            assert handle.verify(after, memory)
    assert after.random != before.random
    assert after.start_ticks == before.start_ticks
    assert after.boot_id == before.boot_id == boot_id()


def test_a_fork_child_shares_the_random_bytes_but_not_the_start() -> None:
    code = (
        "import os\n"
        "if not (child := os.fork()):\n"
        "    os.read(0, 1); os._exit(0)\n"
        "sys_stdout = os.write(1, b'%d\\n' % child)"
    )
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", f"{code}\nos.read(0, 1); os.waitpid(child, 0)"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        with opened(process.pid) as parent, opened(child) as other:
            one, two = (each.handle.identity(each.memory) for each in (parent, other))
    finally:
        process.communicate(timeout=30)
    assert one.random == two.random != ""
    assert one.pid != two.pid


def test_a_32_bit_target_is_named_as_such(tmp_path: Path) -> None:
    program = tmp_path / "program32"
    elf32.write(program)
    try:
        target = CTarget(program)
    except OSError:
        missing("ia32", "this kernel runs no 32-bit programs")
    with target, opened(target.pid) as (handle, memory, space):
        with pytest.raises(Unsupported, match="32-bit target"):
            handle.auxv()
        found = read_libc(handle, memory, space, lambda name: True)
    assert found.status.value == "unreadable"
    assert "32-bit target" in found.reason
    assert found.remedy


def test_a_file_beyond_the_limit_is_refused_not_cut() -> None:
    with waiter() as target, ProcessHandle.open(target.pid) as handle:
        assert len(handle.read("maps")) > 100
        with pytest.raises(AccessRefused) as caught:
            handle.read("maps", limit=100)
    assert (caught.value.errno, caught.value.what) == (errno.EFBIG, "maps")


def test_a_file_that_the_kernel_lacks_is_not_a_vanished_process() -> None:
    with waiter() as target, ProcessHandle.open(target.pid) as handle:
        with pytest.raises(AccessRefused) as caught:
            handle.read("no_such_file")
        assert caught.value.errno == errno.ENOENT


@pytest.mark.root
def test_another_user_is_refused_but_may_read_the_public_files() -> None:
    if os.geteuid():
        missing("root", "changing the user needs root")
    with waiter() as target:
        child = os.fork()
        if child == 0:
            code = 99
            try:
                code = _as_nobody(target.pid)
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _as_nobody(pid: int) -> int:
    """Return 0 if a stranger is refused exactly what the kernel guards, else which check failed."""
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    with ProcessHandle.open(pid) as handle:
        if handle.stat().ppid != os.getppid() or handle.status().uids != (0, 0, 0, 0):
            return 1
        readings: list[Callable[[], object]] = [
            handle.auxv,
            lambda: handle.read("environ"),
            lambda: handle.readlink("exe"),
            lambda: Memory.open(handle),
        ]
        for number, reading in enumerate(readings, 2):
            try:
                reading()
            except AccessRefused as refused:
                if refused.errno in (errno.EACCES, errno.EPERM):
                    continue
            return number
        identity = handle.identity()
        return 0 if identity.pid_namespace is None and handle.verify(identity) else 9


def test_importing_the_layer_loads_nothing_slow() -> None:
    code = (
        "import sys; import envprobe.process.environ_libc, envprobe.process.runtime; "
        "print(sorted({'ctypes', 'subprocess', 'json', 'asyncio', 'psutil'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
