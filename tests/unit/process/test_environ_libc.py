"""The live C environ against each target's own getenv, for every way of building a program."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from envprobe.model import Confidence, Environment, EnvironmentStatus, State
from envprobe.process.environ_libc import read_libc
from envprobe.process.handle import AccessRefused, ProcessHandle
from envprobe.process.memory import Memory
from envprobe.process.symtab import open_mapped_file
from envprobe.values import Value
from tests.programs.cbuild import build
from tests.programs.ctarget import CTarget
from tests.programs.requirement import missing
from tests.unit.process.looking import agree, look, opened, texts

BASE = {"PLAIN": "1", "EMPTY": "", "NCCL_ALGO": "Ring", "DROPPED": "x", "ODD": "a=b\n\x1b[31m"}
ACTIONS = ["set:LATE=late", "put:NCCL_ALGO=Tree", "unset:DROPPED"]

DYNAMIC = {
    "pie": (("-DREFER", "-fPIE", "-pie"), "gcc", "__environ in the executable (copy relocation)"),
    "no-pie": (
        ("-DREFER", "-fno-pie", "-no-pie"),
        "gcc",
        "__environ in the executable (copy relocation)",
    ),
    "sysv-hash": (
        ("-DREFER", "-fPIE", "-pie", "-Wl,--hash-style=sysv"),
        "gcc",
        "__environ in the executable (copy relocation)",
    ),
    "pic": (("-DREFER", "-fPIC", "-pie"), "gcc", "__environ in libc.so.6"),
    "no-reference": (("-fPIE", "-pie"), "gcc", "__environ in libc.so.6"),
    "own-environ": (("-DDEFINE", "-fcommon", "-rdynamic"), "gcc", "__environ in libc.so.6"),
    "musl": (("-DREFER",), "musl-gcc", "__environ in the executable (copy relocation)"),
    "musl-no-reference": ((), "musl-gcc", "__environ in ld-musl-x86_64.so.1"),
}
STATIC = {
    "static": (("-static", "-DREFER"), "gcc"),
    "static-pie": (("-static-pie", "-DREFER"), "gcc"),
    "static-decoy": (("-static", "-DDECOY"), "gcc"),
    "musl-static": (("-static", "-DREFER"), "musl-gcc"),
}


EXPECTED = frozenset({*BASE, "LATE", "NEVER_SET", "NCCL_ALGO"})


@pytest.mark.parametrize("build_name", DYNAMIC)
def test_dynamic_programs_agree_with_their_own_getenv(build_name: str) -> None:
    flags, compiler, source = DYNAMIC[build_name]
    with CTarget(build("target", *flags, compiler=compiler), *ACTIONS, env=BASE) as target:
        found = look(target.pid)
        agree(target, found, EXPECTED)
    assert set(found.entries) == {"PLAIN", "EMPTY", "NCCL_ALGO", "ODD", "LATE"}
    assert found.source == source
    assert found.confidence is Confidence.PROVED
    assert found.at == pytest.approx(time.time(), abs=60)


@pytest.mark.parametrize("build_name", STATIC)
def test_static_programs_agree_by_their_symbol_table(build_name: str) -> None:
    flags, compiler = STATIC[build_name]
    with CTarget(build("target", *flags, compiler=compiler), *ACTIONS, env=BASE) as target:
        found = look(target.pid)
        agree(target, found, EXPECTED)
    assert found.source == "__environ in the executable (.symtab)"
    assert found.confidence is Confidence.PROVED


@pytest.mark.parametrize("build_name", [*DYNAMIC, *STATIC])
def test_cleared_environ_is_empty_and_complete(build_name: str) -> None:
    flags, compiler, *_ = {**DYNAMIC, **STATIC}[build_name]
    with CTarget(build("target", *flags, compiler=compiler), "clear", env=BASE) as target:
        found = look(target.pid)
        assert target.getenv("PLAIN") is None
    assert (found.status, found.entries) == (EnvironmentStatus.COMPLETE, {})


def test_cleared_then_set_holds_only_the_new_one() -> None:
    with CTarget(build("target", "-DREFER"), "clear", "set:NEW=1", env=BASE) as target:
        found = look(target.pid)
        agree(target, found, EXPECTED | {"NEW"})
    assert texts(found) == {"NEW": b"1"}


def test_empty_environment_from_the_start_is_complete() -> None:
    with CTarget(build("target", "-DREFER"), env={}) as target:
        found = look(target.pid)
    assert (found.status, found.entries) == (EnvironmentStatus.COMPLETE, {})


def test_preloaded_library_that_defines_only_environ_misleads_nobody() -> None:
    library = build("only_environ", "-shared", "-fPIC", "-nostdlib")
    program = build("target", "-fPIC", "-pie")
    with CTarget(program, *ACTIONS, env={**BASE, "LD_PRELOAD": str(library)}) as target:
        found = look(target.pid)
        agree(target, found, EXPECTED)
    assert found.source == "__environ in libc.so.6"


def test_before_libc_has_started_it_is_unreadable_not_empty() -> None:
    library = build("early", "-shared", "-fPIC", "-nostdlib", "-Wl,-z,initfirst")
    for flags in (("-DREFER", "-fPIE", "-pie"), ("-fPIC", "-pie")):
        with CTarget(build("target", *flags), env={"LD_PRELOAD": str(library), **BASE}) as target:
            found = look(target.pid)
            assert found.status is EnvironmentStatus.UNREADABLE
            assert "has not set up its environ yet" in found.reason
            assert found.remedy
            assert target.process.stdin is not None
            assert target.process.stdout is not None
            target.process.stdin.write(b"x")
            target.process.stdin.flush()
            assert target.process.stdout.readline() == b"ready\n"
            agree(target, look(target.pid), frozenset(BASE))


@pytest.mark.parametrize("compiler", ["gcc", "musl-gcc"])
def test_while_the_loader_still_loads_it_is_unreadable(tmp_path: Path, compiler: str) -> None:
    """A FIFO as preloaded library holds the loader in open(2), before libc is mapped."""
    fifo = tmp_path / "library.so"
    os.mkfifo(fifo)
    program = build("target", "-DREFER", "-fPIE", "-pie", compiler=compiler)
    process = subprocess.Popen([program], env={"LD_PRELOAD": str(fifo)}, stdin=subprocess.PIPE)
    try:
        _wait_until(lambda: _opens(process.pid, fifo))
        found = look(process.pid)
    finally:
        process.kill()
        process.communicate(timeout=30)
    assert found.status is EnvironmentStatus.UNREADABLE
    assert "environ" in found.reason
    assert found.remedy


def _opens(pid: int, path: Path) -> bool:
    """Return whether a process is blocked in open(2) or openat(2) of `path`."""
    with ProcessHandle.open(pid) as handle, Memory.open(handle) as memory:
        fields = handle.read("syscall").split()
        number = {b"2": 1, b"257": 2}.get(fields[0])
        if number is None:
            return False
        return memory.read_some(int(fields[number], 16), 4096).startswith(bytes(path) + b"\0")


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_first_of_duplicates_counts_and_oddities_are_kept() -> None:
    program = build("target", "-DREFER")
    entries = ["DUP=first", "DUP=second", "novalue", "=hidden", "", "OTHER=1", "DUP=third"]
    with CTarget(build("launch"), str(program), *entries, env={}) as target:
        found = look(target.pid)
        agree(target, found, frozenset({"DUP", "OTHER", "novalue"}))
    assert [value.reveal() for value in found.duplicates["DUP"] if value] == [b"second", b"third"]
    assert [value.reveal() for value in found.oddities] == [b"novalue", b"=hidden", b""]
    assert texts(found) == {"DUP": b"first", "OTHER": b"1"}


def test_values_are_read_for_wanted_names_only() -> None:
    with CTarget(build("target", "-DREFER"), env=BASE) as target:
        found = look(target.pid, wanted="NCCL_")
    kept = {name for name, value in found.entries.items() if value is not None}
    assert kept == {"NCCL_ALGO"}
    assert found.entries.keys() == BASE.keys()


def test_bytes_that_are_no_utf8_survive() -> None:
    env = {b"RAW\xff": b"\x80\x81=\xfe", b"PLAIN": b"1"}
    with CTarget(build("target", "-DREFER"), env=env) as target:
        found = look(target.pid)
        agree(target, found, frozenset())
    assert texts(found)["RAW\udcff"] == b"\x80\x81=\xfe"


def test_long_value_and_long_name() -> None:
    env = {"LONG": "v" * 131_000, "N" * 4096: "ok", "M" * 4097: "too long", "LAST": "1"}
    with CTarget(build("target", "-DREFER"), env=env) as target:
        found = look(target.pid)
        agree(target, found, frozenset({"LONG", "LAST", "N" * 4096}))
    assert texts(found).keys() == {"LONG", "LAST", "N" * 4096}
    assert [value.reveal() for value in found.oddities] == [b"M" * 4096]


def test_value_beyond_a_mebibyte_is_cut_with_length_and_digest() -> None:
    with CTarget(build("grow"), str(3 << 20), env={}) as target:
        found = look(target.pid)
    value = found.entries["HUGE"]
    assert value is not None
    assert value.truncated
    assert value.length == 3 << 20
    assert len(value.reveal()) == 1 << 20
    assert value == Value(b"g" * (3 << 20))


def test_twenty_thousand_variables() -> None:
    env = {f"VARIABLE_{n}": f"value {n}" for n in range(20_000)}
    with CTarget(build("target", "-DREFER"), "set:ONE_MORE=1", env=env) as target:
        found = look(target.pid)
        assert target.getenv("VARIABLE_19999") == b"value 19999"
    expected = {name: value.encode() for name, value in env.items()}
    assert texts(found) == {**expected, "ONE_MORE": b"1"}


HOSTILE = {
    "million": "more than 200,000 entries",
    "cycle": None,
    "wild": "points to memory that does not exist",
    "kernel": "points to memory that does not exist",
    "noncanonical": "points to memory that does not exist",
    "unterminated-string": "points to memory that does not exist",
    "unterminated-name": "points to memory that does not exist",
    "unterminated-array": "points to memory that does not exist",
    "endless-value": "more than 16 MiB",
    "misaligned": "points to memory that does not exist",
    "wild-array": "points to memory that does not exist",
}


@pytest.mark.parametrize("how", HOSTILE)
def test_hostile_environ_costs_one_unreadable(how: str) -> None:
    with CTarget(build("hostile"), how) as target:
        tracemalloc.start()
        begun = time.process_time()
        found = look(target.pid)
        took = time.process_time() - begun
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    reason = HOSTILE[how]
    if reason is None:
        assert found.status is EnvironmentStatus.COMPLETE
        assert not found.entries
    else:
        assert found.status is EnvironmentStatus.UNREADABLE
        assert reason in found.reason
        assert found.remedy
        assert not found.entries
    assert took < 5
    assert peak < 64 << 20


@pytest.mark.root
def test_strings_in_a_mapped_device_are_not_read(tmp_path: Path) -> None:
    """A file below /dev stands for a device; elsewhere the very same bytes are read."""
    if os.geteuid():
        missing("root", "making a file in /dev needs root")
    with tempfile.NamedTemporaryFile(dir="/dev") as device:
        for path in (Path(device.name), tmp_path / "file"):
            path.write_bytes(b"NAME=value".ljust(4096, b"\0"))
            with CTarget(build("hostile"), str(path)) as target:
                found = look(target.pid)
            if path.parent == tmp_path:
                assert texts(found) == {"NAME": b"value"}
            else:
                assert found.status is EnvironmentStatus.UNREADABLE
                assert "is no ordinary memory" in found.reason
                assert found.remedy


@pytest.mark.parametrize("how", ["many", "scattered"])
def test_repeated_entries_are_duplicates_within_bounds(how: str) -> None:
    with CTarget(build("hostile"), how) as target:
        tracemalloc.start()
        found = look(target.pid)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert len(texts(found)) == 1
    (later,) = found.duplicates.values()
    assert len(later) == {"many": 49_999, "scattered": 49_998}[how]
    assert peak < 64 << 20


class Meddling(Memory):
    """Lets the target change its environ right after each of the first reads of its strings."""

    target: CTarget
    action: str
    times: int

    def read_some(self, address: int, size: int) -> bytes:
        data = super().read_some(address, size)
        if b"MARK=" in data and self.times > 0:
            self.times -= 1
            self.target.act(self.action.format(self.times))
        return data


@pytest.mark.parametrize(
    ("action", "name", "value"),
    [
        ("set:STABLE=changed", "STABLE", b"changed"),
        ("set:NEW=1", "NEW", b"1"),
        ("unset:GOES", "GOES", None),
        ("clear", "STABLE", None),
    ],
)
def test_a_change_during_the_read_is_noticed(action: str, name: str, value: bytes | None) -> None:
    env = {"MARK": "m", "STABLE": "old", "GOES": "x"}
    with CTarget(build("target", "-DREFER"), env=env) as target:
        found = _look_meddling(target, action, times=1)
        agree(target, found, {"MARK", "STABLE", "GOES", "NEW"})
    assert texts(found).get(name) == value


def test_an_environ_that_changes_each_time_is_changing() -> None:
    with CTarget(build("target", "-DREFER"), env={"MARK": "m", "STABLE": "old"}) as target:
        found = _look_meddling(target, "set:NEW_{}=1", times=1000)
    assert found.status is EnvironmentStatus.CHANGING
    assert not found.entries
    assert found.reason
    assert found.remedy
    assert found.reading("STABLE").state is State.CHANGING


def _look_meddling(target: CTarget, action: str, times: int) -> Environment:
    with opened(target.pid) as (handle, _, space), Meddling.open(handle) as memory:
        assert isinstance(memory, Meddling)
        memory.target, memory.action, memory.times = target, action, times
        return read_libc(handle, memory, space, lambda name: True)


@pytest.mark.parametrize("how", ["replace", "move"])
def test_a_restless_environ_is_right_or_said_to_change(how: str) -> None:
    with CTarget(build("churn"), how, env={"STABLE": "yes", "OTHER": "1"}) as target:
        seen = [look(target.pid) for _ in range(100)]
    for found in seen:
        if found.status is EnvironmentStatus.CHANGING:
            assert not found.entries
        else:
            values = texts(found)
            assert (values["STABLE"], values["OTHER"]) == (b"yes", b"1")
            rounds = sorted(int(text) for name, text in values.items() if name[:6] == "CHURN_")
            assert not rounds or rounds[-1] - rounds[0] < 16


def test_a_file_that_is_not_the_mapped_one_is_not_used(tmp_path: Path) -> None:
    program = build("target", "-static")
    other = tmp_path / "other"
    shutil.copy(build("target", "-static", "-DREFER"), other)

    class OtherFile(ProcessHandle):
        """A process whose exe link was changed, as PR_SET_MM_EXE_FILE can."""

        def open_file(self, name: str, flags: int = os.O_RDONLY) -> int:
            if name == "exe":
                return os.open(other, flags | os.O_CLOEXEC)
            return super().open_file(name, flags)

    with (
        CTarget(program, env=BASE) as target,
        opened(target.pid) as process,
        OtherFile.open(target.pid) as handle,
    ):
        executable = process.scope().executable
        assert executable is not None
        descriptor = open_mapped_file(handle, process.space, executable)
        assert descriptor is not None
        assert os.fstat(descriptor).st_ino == program.stat().st_ino
        os.close(descriptor)
        found = read_libc(handle, process.memory, process.space, lambda name: True)
        agree(target, found, set(BASE))


@pytest.mark.parametrize("same", [True, False])
def test_a_file_found_by_its_path_must_be_the_mapped_one(tmp_path: Path, same: bool) -> None:
    program = build("target", "-static")
    root = Path("/")
    if not same:  # as in another mount namespace: the same path, another file
        root = tmp_path
        (root / program.parent.relative_to("/")).mkdir(parents=True)
        shutil.copy(program, root / program.relative_to("/"))

    class NoLinks(ProcessHandle):
        """A process of which the kernel gives neither exe nor map_files."""

        def open_file(self, name: str, flags: int = os.O_RDONLY) -> int:
            if name == "root":
                return os.open(root, flags | os.O_CLOEXEC)
            if name == "exe" or name.startswith("map_files"):
                raise AccessRefused(errno.EACCES, name)
            return super().open_file(name, flags)

    with (
        CTarget(program, env=BASE) as target,
        opened(target.pid) as process,
        NoLinks.open(target.pid) as handle,
    ):
        executable = process.scope().executable
        assert executable is not None
        descriptor = open_mapped_file(handle, process.space, executable)
        assert (descriptor is not None) is same
        if descriptor is not None:
            assert os.fstat(descriptor).st_ino == program.stat().st_ino
            os.close(descriptor)


def test_main_thread_gone_but_others_live() -> None:
    with CTarget(build("main_gone", "-pthread"), env=BASE) as target:
        found = look(target.pid)
    assert texts(found)["SET_BY"] == b"thread"
    assert texts(found)["PLAIN"] == b"1"


def test_ended_process_is_unreadable_not_empty() -> None:
    program = build("target", "-DREFER")
    with CTarget(program, env=BASE) as target, opened(target.pid) as process:
        target.close()
        found = read_libc(*process, lambda name: True)
    assert found.status is EnvironmentStatus.UNREADABLE
    assert "does not exist" in found.reason
    assert found.remedy


@pytest.mark.parametrize("scope_first", [False, True])
def test_exec_during_the_read_is_unreadable_not_mixed(scope_first: bool) -> None:
    """The memory of before the exec is dead, so that no byte of the new program gets in."""
    program = build("target", "-DREFER")
    shell = ["-c", 'echo ready; read line; exec "$0"', str(program)]
    with CTarget("/bin/sh", *shell, env=BASE) as target:
        with opened(target.pid) as process:
            scope = process.scope() if scope_first else None
            assert target.process.stdin is not None
            assert target.process.stdout is not None
            target.process.stdin.write(b"\n")
            target.process.stdin.flush()
            assert target.process.stdout.readline() == b"ready\n"
            found = read_libc(*process, lambda name: True, scope=scope)
            assert not process.memory.alive()
        agree(target, look(target.pid), set(BASE))
    assert found.status is EnvironmentStatus.UNREADABLE
    assert "started another program" in found.reason
    assert found.remedy


def test_deleted_and_replaced_files_make_no_difference(tmp_path: Path) -> None:
    libc = Path("/lib/x86_64-linux-gnu/libc.so.6")
    if not libc.exists():
        missing("glibc", f"{libc} is not there")
    copy = tmp_path / "libc.so.6"
    shutil.copy(libc, copy)
    program = tmp_path / "program"
    shutil.copy(build("target", "-fPIC", "-pie"), program)
    with CTarget(program, env={**BASE, "LD_LIBRARY_PATH": str(tmp_path)}) as target:
        copy.unlink()
        copy.write_bytes(b"not a library")
        program.unlink()
        program.write_bytes(b"not a program")
        found = look(target.pid)
        agree(target, found, frozenset(BASE))
    assert found.source == "__environ in libc.so.6"


@pytest.mark.parametrize("replaced", [False, True])
def test_static_program_whose_file_is_gone(tmp_path: Path, replaced: bool) -> None:
    program = tmp_path / "program"
    shutil.copy(build("target", "-static"), program)
    with CTarget(program, env=BASE) as target:
        program.unlink()
        if replaced:
            shutil.copy(build("hostile", "-static"), program)
        agree(target, look(target.pid), frozenset(BASE))


def test_program_started_through_the_loader() -> None:
    loader = Path("/lib64/ld-linux-x86-64.so.2")
    if not loader.exists():
        missing("glibc", f"{loader} is not there")
    program = build("target", "-DREFER", "-fPIE", "-pie")
    with CTarget(loader, str(program), *ACTIONS, env=BASE) as target:
        agree(target, look(target.pid), EXPECTED)


@pytest.mark.root
def test_chroot_with_its_own_libc(tmp_path: Path) -> None:
    if os.geteuid():
        missing("root", "chroot needs root")
    program = build("target", "-DREFER", compiler="musl-gcc")
    loader = Path("/lib/ld-musl-x86_64.so.1")
    (tmp_path / "lib").mkdir()
    shutil.copy(loader.resolve(), tmp_path / "lib" / loader.name)
    shutil.copy(program, tmp_path / "program")
    with CTarget("/program", env=BASE, before_exec=lambda: os.chroot(tmp_path)) as target:
        agree(target, look(target.pid), frozenset(BASE))
    static = build("target", "-static")
    shutil.copy(static, tmp_path / "static")
    with CTarget("/static", env=BASE, before_exec=lambda: os.chroot(tmp_path)) as target:
        agree(target, look(target.pid), frozenset(BASE))
