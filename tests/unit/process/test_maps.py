"""Mappings: the ioctl and the text agree, and what is no ordinary memory is never read."""

from __future__ import annotations

import itertools
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envprobe.process.handle import MemoryFault, ProcessHandle
from envprobe.process.maps import AddressSpace, Mapping, parse
from tests.programs.cbuild import build
from tests.programs.ctarget import CTarget
from tests.unit.process.looking import opened
from tests.unit.process.standin import Regions

MAPPER = """
import mmap, os, sys
keep = [mmap.mmap(-1, 4096 * (1 + n % 3), prot=1 + n % 2 * 2) for n in range(50)]
for name in sys.argv[1:]:
    file = open(name, "w+b")
    file.write(bytes(8192))
    file.flush()
    keep.append(mmap.mmap(file.fileno(), 8192, flags=mmap.MAP_SHARED))
    if "gone" in name:
        os.unlink(name)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("query", [True, False])
def test_look_ups_agree_with_the_whole_text(tmp_path: Path, query: bool) -> None:
    names = [str(tmp_path / name) for name in ("plain", "with space ", "new\nline", "cr\r", "gone")]
    with (
        CTarget(sys.executable, "-I", "-c", MAPPER, *names) as target,
        ProcessHandle.open(target.pid) as handle,
        AddressSpace(handle, query=query) as space,
    ):
        every = space.mappings()
        for mapping in every:
            if mapping.start >= 1 << 63:
                assert space.at(mapping.start) is None
                continue
            assert space.at(mapping.start) == mapping
            assert space.at(mapping.end - 1) == mapping
        ends = {mapping.end for mapping in every} - {mapping.start for mapping in every}
        assert ends
        assert all(space.at(end) is None for end in ends)
        assert space.at(every[0].start - 1) is None
    paths = {mapping.path: mapping.deleted for mapping in every}
    assert {name: paths[name] for name in names} == {name: "gone" in name for name in names}
    kinds = {mapping.path for mapping in every if mapping.path.startswith("[")}
    assert {"[stack]", "[heap]"} <= kinds


def test_both_ways_see_one_process_alike() -> None:
    with (
        CTarget(build("target")) as target,
        ProcessHandle.open(target.pid) as handle,
        AddressSpace(handle) as asked,
        AddressSpace(handle, query=False) as parsed,
    ):
        for mapping in parsed.mappings():
            assert asked.at(mapping.start + 1) == parsed.at(mapping.start + 1)


@pytest.mark.parametrize("query", [True, False])
def test_an_ended_process_has_no_mappings(query: bool) -> None:
    with CTarget(build("target")) as target, ProcessHandle.open(target.pid) as handle:
        with AddressSpace(handle) as other:
            start = other.mappings()[0].start
        with AddressSpace(handle, query=query) as space:
            target.close()
            assert space.at(start) is None
            assert not space.readable_regular(start)


@pytest.mark.parametrize(
    ("perms", "path", "regular"),
    [
        ("rw-p", "", True),
        ("rw-p", "[heap]", True),
        ("rw-p", "[stack]", True),
        ("r-xp", "[vdso]", True),
        ("rw-p", "[anon:pool]", True),
        ("r--p", "/usr/lib/libc.so.6", True),
        ("rw-s", "/dev/shm/psm_1", True),
        ("rw-s", "/dev/zero", True),
        ("rw-s", "/memfd:pool", True),
        ("---p", "", False),
        ("-w-p", "", False),
        ("r--p", "[vvar]", False),
        ("r--p", "[vvar_vclock]", False),
        ("--xp", "[vsyscall]", False),
        ("rw-s", "/dev/nvidia0", False),
        ("rw-s", "/dev/nvidia-uvm", False),
        ("rw-s", "/dev/infiniband/uverbs0", False),
        ("rw-s", "/dev/mem", False),
        ("rw-s", "/sys/devices/pci0000:00/0000:00:02.0/resource0", False),
        ("rw-s", "/proc/bus/pci/00/02.0", False),
        ("rw-s", "anon_inode:[io_uring]", False),
        ("rw-s", "anon_inode:i915.gem", False),
        ("rw-s", "socket:[1234]", False),
    ],
)
def test_only_ordinary_memory_is_regular(perms: str, path: str, regular: bool) -> None:
    assert Mapping(0, 4096, perms, 0, (0, 0), 0, path, False).regular is regular


def test_regular_memory_may_span_mappings_but_no_hole() -> None:
    with CTarget(build("target")) as target, opened(target.pid) as process:
        space = process.space
        every = [mapping for mapping in space.mappings() if mapping.end < 1 << 63]
        joined = next(
            (one, two)
            for one, two in itertools.pairwise(every)
            if one.regular and two.regular and one.end == two.start
        )
        one, two = joined
        assert space.readable_regular(one.end - 8, 16)
        assert space.regular_end(one.start, two.end - one.start) == two.end
        vvar = next(mapping for mapping in every if mapping.path == "[vvar]")
        assert not space.readable_regular(vvar.start)
        assert space.regular_end(vvar.start, 4096) == vvar.start
        assert not space.readable_regular(0)
        assert not space.readable_regular((1 << 64) - 8, 16)


@given(
    st.integers(0, 2**47),
    st.integers(1, 2**40),
    st.integers(0, 2**63),
    st.tuples(st.integers(0, 4095), st.integers(0, 2**20 - 1)),
    st.integers(0, 2**64 - 1),
    st.binary(max_size=50).filter(lambda raw: b"\\012" not in raw and b"\0" not in raw),
    st.booleans(),
)
def test_any_path_survives_the_text(
    start: int,
    size: int,
    offset: int,
    device: tuple[int, int],
    inode: int,
    name: bytes,
    deleted: bool,
) -> None:
    path = b"/" + name + (b" (deleted)" if deleted else b"")
    line = b"%x-%x rw-p %08x %02x:%02x %d %s" % (
        start,
        start + size,
        offset,
        *device,
        inode,
        b"        " + path.replace(b"\n", b"\\012"),
    )
    mapping = parse(line)
    assert (mapping.start, mapping.end, mapping.perms) == (start, start + size, "rw-p")
    assert (mapping.offset, mapping.device, mapping.inode) == (offset, device, inode)
    whole = mapping.path.encode("utf-8", "surrogateescape")
    assert whole + (b" (deleted)" if mapping.deleted else b"") == path
    assert mapping.deleted or not deleted


class TestCheckedMemory:
    """Reads through the page cache, on a stand-in whose ends are known."""

    regions = Regions({0x1000: bytes(range(256)) * 48, 0x10000: b"x" * 4096})

    @given(st.integers(0, 0x12000), st.integers(1, 9000))
    def test_reads_equal_the_bytes_or_fault(self, address: int, size: int) -> None:
        memory = self.regions.checked()
        for start, data in self.regions.regions.items():
            if start <= address and address + size <= start + len(data):
                assert memory.read(address, size) == data[address - start : address - start + size]
                assert memory.read(address, size) == memory.read(address, size)
                return
        with pytest.raises(MemoryFault):
            memory.read(address, size)

    def test_strings_end_at_a_nul_within_the_limit(self) -> None:
        memory = self.regions.checked()
        assert memory.cstring(0x1001, 255) == bytes(range(1, 256))
        for address, limit in ((0x1001, 254), (0x10000, 8192), (0x0, 10), (-4096, 10)):
            with pytest.raises(MemoryFault):
                memory.cstring(address, limit)

    def test_what_was_read_stays_until_it_is_forgotten(self) -> None:
        regions = Regions({0x1000: bytes(4096)})
        memory = regions.checked()
        assert memory.word(0x1000) == 0
        regions.regions[0x1000] = b"\1" * 4096
        assert memory.word(0x1000) == 0
        memory.forget()
        assert memory.word(0x1000) == 0x0101010101010101

    def test_the_cache_is_bounded(self) -> None:
        size = 40 << 20
        memory = Regions({0: bytes(size)}).checked()
        tracemalloc.start()
        for address in range(0, size, 4096):
            memory.read(address, 1)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert memory.read(size - 8, 8) == bytes(8)
        assert peak < 24 << 20
