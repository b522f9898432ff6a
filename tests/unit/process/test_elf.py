"""Symbols of images in memory against pyelftools on the files, and damaged images."""

from __future__ import annotations

import struct
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from hypothesis import given, settings
from hypothesis import strategies as st

from envprobe.process import symtab
from envprobe.process.elf import Image, NotElf, gnu_hash, sysv_hash
from envprobe.process.handle import MemoryFault
from tests.programs.cbuild import build
from tests.programs.ctarget import CTarget
from tests.programs.interpreters import Interpreter
from tests.programs.interpreters import found as interpreters
from tests.unit.process.looking import opened
from tests.unit.process.standin import Regions


class Expected(NamedTuple):
    """What a file's symbol table says: values by name (versions share names), and what is not to be
    found: names that are only undefined or thread-local.
    """

    values: dict[str, set[int]]
    others: set[str]


def expected_symbols(path: str, section: str) -> Expected:
    values: dict[str, set[int]] = defaultdict(set)
    others: set[str] = set()
    with open(path, "rb") as file:
        table = ELFFile(file).get_section_by_name(section)
        assert isinstance(table, SymbolTableSection)
        for symbol in table.iter_symbols():
            if symbol["st_info"]["bind"] == "STB_LOCAL" or symbol["st_shndx"] == "SHN_ABS":
                continue
            if symbol["st_shndx"] == "SHN_UNDEF" or symbol["st_info"]["type"] == "STT_TLS":
                others.add(symbol.name)
            else:
                values[symbol.name].add(symbol["st_value"])
    return Expected(values, others - values.keys())


def compare(pid: int) -> list[str]:
    """Look up every exported symbol of every object of a process; return the objects' names."""
    names = []
    with opened(pid) as process:
        scope = process.scope()
        for number, loaded in enumerate(scope.objects()):
            path = loaded.name or process.handle.readlink("exe")
            if not Path(path).exists():
                continue
            image = scope.image(loaded)
            expected = expected_symbols(path, ".dynsym")
            assert expected.values or number == 0
            for name, values in expected.values.items():
                symbol = image.lookup(name.encode())
                assert symbol is not None, name
                assert symbol.address - image.bias in values, name
            for absent in ("no_such_symbol", "__environ_", "", *expected.others):
                assert image.lookup(absent.encode()) is None
            names.append(Path(path).name)
    return names


@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
@pytest.mark.parametrize("kind", [("-fPIE", "-pie"), ("-fno-pie", "-no-pie"), ("-fPIC", "-pie")])
def test_every_exported_symbol_of_glibc_programs(style: str, kind: tuple[str, ...]) -> None:
    program = build("target", "-DREFER", "-rdynamic", f"-Wl,--hash-style={style}", *kind)
    with CTarget(program) as target:
        names = compare(target.pid)
    assert program.name in names
    assert "libc.so.6" in names


def test_every_exported_symbol_of_musl_programs() -> None:
    program = build("target", "-DREFER", compiler="musl-gcc")
    with CTarget(program) as target:
        names = compare(target.pid)
    assert program.name in names
    assert any("musl" in name for name in names)


@pytest.mark.parametrize("interpreter", interpreters()[:1] + interpreters()[-1:], ids=str)
def test_every_exported_symbol_of_an_interpreter(interpreter: Interpreter) -> None:
    code = "print('ready', flush=True); import sys; sys.stdin.read()"
    with CTarget(interpreter.path, "-I", "-c", code) as target:
        assert "libc.so.6" in compare(target.pid)


def test_the_vdso_whose_tables_nobody_relocated() -> None:
    with CTarget(build("target")) as target, opened(target.pid) as process:
        mapping = next(one for one in process.space.mappings() if one.path == "[vdso]")
        image = Image.at_header(process.scope().memory, mapping.start)
        symbol = image.lookup(b"__vdso_clock_gettime") or image.lookup(b"__kernel_clock_gettime")
        assert symbol is not None
        assert mapping.start <= symbol.address < mapping.end
        assert image.lookup(b"__environ") is None


def test_hashes_of_the_specifications() -> None:
    assert gnu_hash(b"") == 0x1505
    assert gnu_hash(b"printf") == 0x156B2BB8
    assert sysv_hash(b"printf") == 0x077905A6
    assert sysv_hash(b"") == 0


@pytest.mark.parametrize("flags", [("-static",), ("-static-pie",), ("-static", "-DDECOY")])
def test_symbol_tables_of_files_agree_with_pyelftools(flags: tuple[str, ...]) -> None:
    program = build("target", *flags)
    expected = expected_symbols(str(program), ".symtab").values
    assert expected["__environ"]
    names = ["__environ", "environ", "__progname_full", "program_invocation_name", "nothing"]
    with program.open("rb") as file:
        found = symtab.lookup(file.fileno(), [name.encode() for name in names], 0x1000)
    for name in names:
        addresses = {value + 0x1000 for value in expected.get(name, set())}
        symbol = found.get(name.encode())
        assert ({symbol.address} if symbol else set()) == addresses, name


def sample() -> bytes:
    """A real image in the form in which it is mapped: the vDSO, one piece of 8 KiB or so."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        line = next(line for line in maps if "[vdso]" in line)
    start, end = (int(part, 16) for part in line.split()[0].split("-"))
    with open("/proc/self/mem", "rb") as memory:
        memory.seek(start)
        return memory.read(end - start)


VDSO = sample()
BASE = 0x7F0000000000


@settings(deadline=2000, max_examples=300)
@given(
    st.lists(
        st.tuples(st.integers(0, len(VDSO) - 8), st.binary(min_size=1, max_size=8)), max_size=30
    ),
    st.sampled_from([b"__vdso_time", b"__vdso_getcpu", b"nothing"]),
)
def test_damaged_images_end_in_time(patches: list[tuple[int, bytes]], name: bytes) -> None:
    image = bytearray(VDSO)
    for place, piece in patches:
        image[place : place + len(piece)] = piece
    regions = Regions({BASE: bytes(image)})
    try:
        symbol = Image.at_header(regions.checked(), BASE).lookup(name)
    except (MemoryFault, NotElf):
        return
    assert symbol is None or 0 <= symbol.address < 1 << 64


@settings(deadline=2000)
@given(st.binary(min_size=64, max_size=2048))
def test_random_bytes_are_no_image(raw: bytes) -> None:
    regions = Regions({BASE: raw})
    with pytest.raises((MemoryFault, NotElf)):
        Image.at_header(regions.checked(), BASE)


@settings(deadline=2000)
@given(st.data())
def test_random_tables_end_in_time(data: st.DataObject) -> None:
    """A dynamic section that is right but leads to tables of any content."""
    table = data.draw(st.binary(min_size=256, max_size=4096))
    hash_tag = data.draw(st.sampled_from([4, 0x6FFFFEF5]))
    places = [BASE + data.draw(st.integers(0, len(table))) for _ in range(3)]
    entries = [(hash_tag, places[0]), (5, places[1]), (6, places[2]), (0, 0)]
    dynamic = b"".join(struct.pack("<2Q", *entry) for entry in entries)
    regions = Regions({BASE: table, 0x10000: dynamic.ljust(4096, b"\0")})
    try:
        symbol = Image(regions.checked(), BASE, 0x10000).lookup(b"__environ")
    except (MemoryFault, NotElf):
        return
    assert symbol is None


def test_a_dynamic_section_without_end_is_refused() -> None:
    regions = Regions({0x10000: b"\1" * (1 << 20)})
    with pytest.raises(NotElf, match="without end"):
        Image(regions.checked(), 0, 0x10000)


@pytest.mark.parametrize("style", ["gnu", "sysv"])
def test_a_hash_chain_without_end_is_refused(style: str) -> None:
    """One bucket; the chain of GNU has no end mark, that of the gABI points to itself."""
    if style == "gnu":
        value = gnu_hash(b"x") & ~1
        tables = struct.pack("<4IQI", 1, 1, 1, 0, (1 << 64) - 1, 1)
        tables += struct.pack("<I", value) * (1 << 18)
        tag = 0x6FFFFEF5
    else:
        tables = struct.pack("<2I", 1, 2) + struct.pack("<3I", 1, 0, 1)
        tag = 4
    symbols = struct.pack("<I2BH2Q", 0, 0x11, 0, 1, 0, 8) * (1 << 16)
    dynamic = b"".join(
        struct.pack("<2Q", *entry) for entry in [(tag, 0x100000), (5, 0x50000), (6, 0x1000000)]
    )
    regions = Regions(
        {
            0x10000: dynamic.ljust(4096, b"\0"),
            0x50000: b"other\0",
            0x100000: tables,
            0x1000000: symbols,
        }
    )
    with pytest.raises(NotElf, match="without end"):
        Image(regions.checked(), 0, 0x10000).lookup(b"x")


@pytest.mark.parametrize("place", [4, 5])
def test_32_bit_and_big_endian_images_are_refused(place: int) -> None:
    raw = bytearray(VDSO)
    raw[place] ^= 3
    with pytest.raises(NotElf, match="little-endian ELF64"):
        Image.at_header(Regions({BASE: bytes(raw)}).checked(), BASE)


@settings(deadline=2000, max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.binary(min_size=1, max_size=8)), max_size=30))
def test_damaged_files_end_in_time(
    tmp_path_factory: pytest.TempPathFactory, patches: list[tuple[int, bytes]]
) -> None:
    raw = bytearray(build("target", "-static").read_bytes())
    headers = int.from_bytes(raw[40:48], "little")
    for place, piece in patches:  # half of them into the section headers, where it matters
        at = headers + place % (len(raw) - headers) if place % 2 else place % len(raw)
        raw[at : at + len(piece)] = piece
    path = tmp_path_factory.mktemp("elf") / "damaged"
    path.write_bytes(raw)
    with path.open("rb") as file:
        try:
            found = symtab.lookup(file.fileno(), [b"__environ"], 0)
        except NotElf:
            return
    assert set(found) <= {b"__environ"}


if sys.byteorder != "little":
    pytest.skip("the tests read their own vDSO as little-endian", allow_module_level=True)
