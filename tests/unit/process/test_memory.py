"""Reading memory: right bytes, right ends, both ways, and nothing from another program."""

from __future__ import annotations

import ctypes
import itertools
import os
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

import envprobe.process.syscalls  # noqa: F401 - a child that is nobody may not be able to import
from envprobe.process.handle import AccessRefused, MemoryFault, ProcessHandle
from envprobe.process.memory import Memory
from tests.programs.cbuild import build
from tests.programs.ctarget import CTarget
from tests.programs.requirement import missing
from tests.unit.process.looking import Opened, opened

NOBODY = 65534


TargetMemory: TypeAlias = tuple[CTarget, Opened, Memory]


@pytest.fixture(params=["pinned", "by_number"])
def target_memory(request: pytest.FixtureRequest) -> Iterator[TargetMemory]:
    with CTarget(build("target"), env={"ONE": "1"}) as target, opened(target.pid) as process:
        memory = process.memory if request.param == "pinned" else Memory(process.handle, None)
        yield target, process, memory


def test_it_reads_the_bytes_of_the_program(target_memory: TargetMemory) -> None:
    _, process, memory = target_memory
    first = process.space.mappings()[0]
    header = build("target").read_bytes()[:4096]
    assert memory.read(first.start, 4096) == header
    assert memory.words(first.start, 2) == tuple(
        int.from_bytes(header[place : place + 8], "little") for place in (0, 8)
    )
    assert memory.alive()


def test_reads_end_where_memory_ends(target_memory: TargetMemory) -> None:
    _, process, memory = target_memory
    mappings = process.space.mappings()
    last = next(
        one
        for one, following in itertools.pairwise(mappings)
        if "r" in one.perms and following.start > one.end
    )
    assert len(memory.read_some(last.end - 100, 4096)) == 100
    with pytest.raises(MemoryFault):
        memory.read(last.end - 100, 101)
    assert len(memory.read(last.end - 100, 100)) == 100


@pytest.mark.parametrize("address", [-1, 0, 8, 2**47, 2**63 - 8, 2**63, 2**64 - 1, 2**70])
def test_wild_addresses_are_faults(target_memory: TargetMemory, address: int) -> None:
    _, _, memory = target_memory
    with pytest.raises(MemoryFault):
        memory.read(address, 8)


def test_an_ended_process_reads_as_nothing(target_memory: TargetMemory) -> None:
    target, process, memory = target_memory
    address = process.space.mappings()[0].start
    target.close()
    assert not memory.alive()
    with pytest.raises(MemoryFault):
        memory.read(address, 1)


def test_a_closed_memory_reads_nothing() -> None:
    with CTarget(build("target")) as target, ProcessHandle.open(target.pid) as handle:
        memory = Memory.open(handle)
        memory.close()
        memory.close()
        assert not memory.alive()
        with pytest.raises(MemoryFault):
            memory.read(0x400000, 1)


@pytest.mark.root
def test_process_vm_readv_serves_where_the_file_is_refused() -> None:
    """The file is checked against the file system user id, the call against the real one."""
    if os.geteuid():
        missing("root", "changing the user needs root")

    def become_nobody() -> None:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)

    for before_exec, expected in ((become_nobody, repr(b"\x7fELF")), (None, "refused")):
        with CTarget(build("target"), before_exec=before_exec) as target:
            with opened(target.pid) as process:
                base = process.space.mappings()[0].start
            assert _in_child(lambda pid, at=base: _read_by_number(pid, at), target.pid) == expected


def _read_by_number(pid: int, address: int) -> str:
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY - 1)
    ctypes.CDLL(None).setfsuid(NOBODY - 1)
    with ProcessHandle.open(pid) as handle:
        with pytest.raises(AccessRefused):
            handle.open_file("mem")
        try:
            memory = Memory.open(handle)
        except AccessRefused as refused:
            return "refused" if refused.what == "mem" else refused.what
        assert not memory.pinned
        assert memory.alive()
        return repr(memory.read(address, 4))


class Replaced(ProcessHandle):
    """A process that turns out to be another one when asked for the n-th time."""

    good_answers = 0

    def same(self) -> bool:
        self.good_answers -= 1
        return self.good_answers >= 0


@pytest.mark.parametrize(("good_answers", "readable"), [(0, False), (1, False), (2, True)])
def test_reads_by_number_check_the_process_before_and_after(
    good_answers: int, readable: bool
) -> None:
    with CTarget(build("target")) as target, opened(target.pid) as process:
        base = process.space.mappings()[0].start
        with Replaced.open(target.pid) as handle:
            assert isinstance(handle, Replaced)
            handle.good_answers = good_answers
            try:
                assert Memory(handle, None).read(base, 4) == b"\x7fELF"
                assert readable
            except MemoryFault:
                assert not readable


def _in_child(function: Callable[[int], str], pid: int) -> str:
    """Return what `function(pid)` returns in a forked child, which may change its user."""
    inlet, outlet = os.pipe()
    child = os.fork()
    if child == 0:
        text = "raised"
        try:
            text = function(pid)
        except BaseException as error:
            text = repr(error)
        finally:
            os.write(outlet, text.encode())
            os._exit(0)
    os.close(outlet)
    with os.fdopen(inlet, "rb") as reader:
        text = reader.read().decode()
    os.waitpid(child, 0)
    return text
