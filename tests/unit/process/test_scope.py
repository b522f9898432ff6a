"""The look-up order against the dynamic linker's own account, and damaged lists."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envprobe.model import Confidence
from envprobe.process.elf import NotElf
from envprobe.process.environ_libc import read_libc
from envprobe.process.handle import MemoryFault, ProcessHandle
from envprobe.process.scope import AT_BASE, AT_PHDR, Scope, walk_link_map
from tests.programs.cbuild import build
from tests.programs.ctarget import CTarget
from tests.unit.process.looking import agree, opened
from tests.unit.process.standin import Regions


def own_account(target: CTarget) -> list[tuple[str, int]]:
    """Return what the target's own dl_iterate_phdr(3) tells: names and biases, in order."""
    assert target.process.stdin is not None
    assert target.process.stdout is not None
    target.process.stdin.write(b"\n")
    target.process.stdin.flush()
    lines = iter(target.process.stdout.readline, b".\n")
    pairs = (line.decode().rstrip("\n").rpartition(" ") for line in lines)
    return [(name, int(bias, 16)) for name, _, bias in pairs]


@pytest.mark.parametrize(
    ("flags", "compiler"),
    [
        (("-fPIE", "-pie", "-lm", "-Wl,--no-as-needed"), "gcc"),
        (("-no-pie", "-lm", "-Wl,--no-as-needed"), "gcc"),
        ((), "musl-gcc"),
    ],
)
def test_the_order_is_that_of_the_dynamic_linker(flags: tuple[str, ...], compiler: str) -> None:
    library = build("only_environ", "-shared", "-fPIC", "-nostdlib")
    program = build("account", *flags, compiler=compiler)
    with CTarget(program, env={"LD_PRELOAD": str(library)}) as target:
        with opened(target.pid) as process:
            objects = list(Scope(*process).objects())
        account = own_account(target)
    assert [one.bias for one in objects] == [bias for _, bias in account]
    assert [one.name for one in objects[1:]] == [name or "(unnamed)" for name, _ in account[1:]]
    assert objects[0].name == ""
    assert str(library) in [one.name for one in objects]


@pytest.mark.parametrize("flag", ["-static", "-static-pie"])
def test_a_static_program_is_alone(flag: str) -> None:
    with CTarget(build("target", flag)) as target, opened(target.pid) as process:
        scope = process.scope()
        names = [one.name for one in scope.objects()]
        assert names[0] == ""
        assert set(names[1:]) <= {"linux-vdso.so.1"}  # a static-pie of glibc lists it
        assert scope.ordered
        assert not scope.interpreted
        assert scope.lookup(b"__environ") is None


def test_the_loader_as_the_program_finds_the_real_one_first() -> None:
    loader = Path("/lib64/ld-linux-x86-64.so.2")
    if not loader.exists():
        pytest.skip(f"{loader} is not there")
    program = build("target", "-DREFER", "-fPIE", "-pie")
    with CTarget(loader, str(program)) as target, opened(target.pid) as process:
        scope = process.scope()
        assert scope.ordered
        found = scope.lookup(b"__environ")
        assert found is not None
        assert found.name == ""
        first = next(scope.objects())
        mapping = process.space.at(found.symbol.address)
        assert mapping is not None
        assert mapping.path == str(program)
        assert first.bias == found.image.bias


def test_objects_may_be_walked_twice_and_in_part() -> None:
    with CTarget(build("target")) as target, opened(target.pid) as process:
        scope = process.scope()
        first = next(scope.objects())
        whole = list(scope.objects())
        assert whole[0] == first
        assert list(scope.objects()) == whole
        assert len({one.bias for one in whole}) == len(whole)


class BlindHandle(ProcessHandle):
    """A process of a kernel or sandbox that passes no program headers in its auxiliary vector."""

    hidden = frozenset({AT_PHDR})

    def auxv(self) -> dict[int, int]:
        return {kind: word for kind, word in super().auxv().items() if kind not in self.hidden}


class BlinderHandle(BlindHandle):
    hidden = frozenset({AT_PHDR, AT_BASE})


@pytest.mark.parametrize(
    ("kind", "compiler", "ordered"),
    [
        (BlindHandle, "gcc", True),
        (BlinderHandle, "gcc", False),
        (BlindHandle, "musl-gcc", True),
        (BlinderHandle, "musl-gcc", False),
    ],
)
def test_without_program_headers_the_loader_or_the_maps_stand_in(
    kind: type[BlindHandle], compiler: str, ordered: bool
) -> None:
    program = build("target", "-DREFER", "-fPIE", "-pie", compiler=compiler)
    with (
        CTarget(program, env={"ONE": "1"}) as target,
        opened(target.pid) as process,
        kind.open(target.pid) as handle,
    ):
        sighted, blind = process.scope(), Scope(handle, process.memory, process.space)
        assert blind.ordered is ordered
        assert blind.executable is None
        assert {one.bias for one in blind.objects()} >= {one.bias for one in sighted.objects()}
        expected, got = sighted.lookup(b"__environ"), blind.lookup(b"__environ")
        assert expected is not None
        assert got is not None
        assert got.symbol == expected.symbol
        found = read_libc(handle, process.memory, process.space, lambda name: True, scope=blind)
        agree(target, found, {"ONE"})
    assert found.confidence is (Confidence.PROVED if ordered else Confidence.INFERRED)


def node(bias: int, name: int, dynamic: int, following: int, previous: int) -> bytes:
    return struct.pack("<5Q", bias, name, dynamic, following, previous)


def chain(*nodes: bytes) -> Regions:
    return Regions({0x1000: b"".join(one.ljust(64, b"\0") for one in nodes).ljust(4096, b"\0")})


def test_a_list_that_leads_back_is_refused() -> None:
    regions = chain(
        node(1, 0, 2, 0x1040, 0), node(3, 0, 4, 0x1080, 0x1000), node(5, 0, 6, 0x1040, 0x1040)
    )
    walk = walk_link_map(regions.checked(), 0x1000)
    assert [next(walk).bias for _ in range(3)] == [1, 3, 5]
    with pytest.raises(NotElf):
        next(walk)


def test_a_list_that_points_to_itself_is_refused() -> None:
    with pytest.raises(NotElf):
        list(walk_link_map(chain(node(1, 0, 2, 0x1000, 0)).checked(), 0x1000))


def test_a_list_without_end_is_refused() -> None:
    count = 10_000
    raw = b"".join(
        node(n, 0, 0, 0x100000 + 40 * (n + 1), 0x100000 + 40 * (n - 1) if n else 0)
        for n in range(count)
    )
    with pytest.raises(NotElf, match="without end"):
        list(walk_link_map(Regions({0x100000: raw}).checked(), 0x100000))


def test_a_list_into_nowhere_is_a_fault() -> None:
    with pytest.raises(MemoryFault):
        list(walk_link_map(chain(node(1, 0, 2, 0x9000, 0)).checked(), 0x1000))
    with pytest.raises(MemoryFault):
        list(
            walk_link_map(
                chain(node(1, 0, 2, 0x1040, 0), node(1, 0x9000, 2, 0, 0x1000)).checked(), 0x1000
            )
        )


@settings(deadline=2000)
@given(st.binary(min_size=40, max_size=4096), st.integers(0, 4096))
def test_random_lists_end_in_time(raw: bytes, offset: int) -> None:
    try:
        objects = list(walk_link_map(Regions({0x1000: raw}).checked(), 0x1000 + offset))
    except (MemoryFault, NotElf):
        return
    assert len(objects) <= 4096
