"""The images of fat binaries, of real ones and of damaged ones."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envprobe.errors import UsageError
from envprobe.kernel import fatbin, library

IMAGES = Path(__file__).parents[2] / "data" / "kernel" / "images.fatbin"
WHOLE = IMAGES.read_bytes()
UNITS = [
    {"sm_80 sass", "sm_90a sass", "sm_120 ptx"},
    {"sm_90 ptx", "sm_100f ptx"},
    {"sm_103a sass", "sm_120f sass", "sm_121a ptx"},
]
SECTIONS = ("", ".nv_fatbin", "__nv_relfatbin", ".shstrtab")


def named(found: fatbin.Units | library.Library) -> list[set[str]]:
    return [{f"{one.architecture} {one.kind.value}" for one in unit} for unit in found.units]


def shared_object(section: bytes, *, names: tuple[str, ...] = SECTIONS) -> bytes:
    """Return an ELF file with `section` as .nv_fatbin, and an empty __nv_relfatbin."""
    text = b"\0".join(one.encode() for one in names) + b"\0"
    offsets = [64, 64 + len(section), 64 + len(section)]
    table_at = offsets[-1] + len(text)
    header = struct.pack(
        "<16s2HI3QI6H", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 0, table_at, 0, 64, 0, 0, 64, 4, 3
    )
    rows = [(0, 0, 0), (1, offsets[0], len(section)), (1, offsets[1], 0)]
    rows.append((3, offsets[2], len(text)))
    table = b""
    for number, (kind, offset, size) in enumerate(rows):
        name = text.index(names[number].encode() + b"\0")
        table += struct.pack("<2I4Q2I2Q", name, kind, 0, 0, offset, size, 0, 0, 1, 0)
    return header + section + text + table


def test_the_images_of_a_fat_binary() -> None:
    found = library.read(str(IMAGES))
    assert [one.problem for one in found] == [""]
    assert named(found[0]) == UNITS
    counts = {str(one.architecture): number for one, number in found[0].counts.items()}
    assert counts["sm_120f"] == 1
    assert [*counts] == sorted(counts, key=lambda one: (int(one[3:].rstrip("af")), one))


def test_a_shared_object(tmp_path: Path) -> None:
    path = tmp_path / "libkernels.so"
    path.write_bytes(shared_object(WHOLE + bytes(40)))
    (found,) = library.read(str(path))
    assert (named(found), found.problem, found.relocatable) == (UNITS, "", True)


def test_the_libraries_of_a_wheel(tmp_path: Path) -> None:
    path = tmp_path / "kernels-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("kernels/__init__.py", "")
        archive.writestr("kernels/lib.abi3.so", shared_object(WHOLE))
        archive.writestr("kernels/broken.so", b"not ELF")
        archive.writestr("kernels.libs/libplain.so.1", shared_object(b""))
    found = {one.name.partition(":")[2]: one for one in library.read(str(path))}
    assert named(found["kernels/lib.abi3.so"]) == UNITS
    assert found["kernels/broken.so"].problem.endswith("is no ELF file of 64 bits")
    plain = found["kernels.libs/libplain.so.1"]
    assert (plain.units, plain.problem) == ((), "")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no ELF file"),
        (b"!<arch>\n" + b" " * 60, "static archive"),
        (b"PK\x03\x04 and no more", "damaged wheel"),
        (b"\x7fELF", "no ELF"),
    ],
)
def test_what_is_no_library_is_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=reason):
        library.read(str(path))
    with pytest.raises(UsageError, match="Is a directory"):
        library.read(str(tmp_path))
    with pytest.raises(UsageError, match="No such file"):
        library.read(str(tmp_path / "other.so"))


def test_a_device_is_no_library() -> None:
    with pytest.raises(UsageError, match="no regular file"):
        library.read("/dev/zero")


@pytest.mark.parametrize(
    ("change", "units", "reason"),
    [
        (lambda raw: raw[:-400], 2, "longer than its section"),
        (lambda raw: raw[:20], 0, "longer than its section"),
        (lambda raw: raw + b"\1" * 16, 3, "no fat binary begins here"),
        (lambda raw: raw[:12], 0, "in the middle of a header"),
        (lambda raw: raw[:16] + struct.pack("<HHI", 2, 257, 1 << 30) + raw[24:], 0, "longer"),
        (lambda raw: raw[:44] + struct.pack("<I", 1 << 20) + raw[48:], 0, "no architecture"),
        (lambda raw: raw[:24] + struct.pack("<Q", 1 << 63) + raw[32:], 0, "longer"),
    ],
)
def test_a_damaged_fat_binary_is_told(change: object, units: int, reason: str) -> None:
    raw = change(WHOLE)  # type: ignore[operator]
    found = fatbin.read(io.BytesIO(raw), 0, len(raw))
    assert reason in found.damaged
    assert named(found) == UNITS[:units]


def test_a_damaged_section_table_is_told(tmp_path: Path) -> None:
    raw = bytearray(shared_object(WHOLE))
    struct.pack_into("<Q", raw, 40, len(raw))
    path = tmp_path / "lib.so"
    path.write_bytes(raw)
    (found,) = library.read(str(path))
    assert (found.units, found.problem) == ((), "its section table is missing or damaged")


@settings(max_examples=300, deadline=None)
@given(
    at=st.integers(0, len(WHOLE) - 1),
    byte=st.integers(0, 255),
    cut=st.integers(1, len(WHOLE)),
)
def test_no_damage_raises_or_is_read_as_more(at: int, byte: int, cut: int) -> None:
    raw = (WHOLE[:at] + bytes([byte]) + WHOLE[at + 1 :])[:cut]
    found = fatbin.read(io.BytesIO(raw), 0, len(raw))
    assert len(found.units) <= len(raw) // 16
    if cut < len(WHOLE):
        assert found.damaged or len(found.units) < len(UNITS)
