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


def wheel(path: Path, method: int, content: bytes) -> tuple[bytearray, zipfile.ZipInfo]:
    """Write a wheel with one library; return its bytes and where that is."""
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("k/lib.so", content)
    return bytearray(path.read_bytes()), archive.getinfo("k/lib.so")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
@pytest.mark.parametrize("value", [0, 255])
def test_a_packed_library_that_is_damaged_is_told(method: int, value: int, tmp_path: Path) -> None:
    path = tmp_path / "k.whl"
    raw, info = wheel(path, method, shared_object(WHOLE))
    begin = 30 + len(info.filename) + 9
    raw[begin : begin + 40] = bytes([value]) * 40
    path.write_bytes(raw)
    (found,) = library.read(str(path))
    assert found.problem.startswith("it cannot be unpacked: ")
    assert not found.units


@pytest.mark.parametrize(
    ("at", "word"),
    [(8, b"\x20\x00"), (10, b"\x63\x00"), (46, b"\0"), (46, b"\xff\xfe"), (24, b"\xff" * 4)],
)
def test_no_damaged_directory_of_a_wheel_raises_anything_else(
    at: int, word: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "k.whl"
    raw, _ = wheel(path, zipfile.ZIP_DEFLATED, shared_object(WHOLE))
    entry = raw.index(b"PK\x01\x02")
    raw[entry + 9] |= 8  # the name is UTF-8
    raw[entry + at : entry + at + len(word)] = word
    path.write_bytes(raw)
    try:
        problems = [one.problem for one in library.read(str(path))]
    except UsageError as error:
        problems = [error.message]
    assert all(problems)


def test_a_member_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "k.whl"
    wheel(path, zipfile.ZIP_DEFLATED, shared_object(WHOLE * 2000))
    unpacked = 0
    original = zipfile.ZipExtFile.read

    def counted_read(self: zipfile.ZipExtFile, size: int | None = -1) -> bytes:
        nonlocal unpacked
        got = original(self, size)
        unpacked += len(got)
        return got

    monkeypatch.setattr(zipfile.ZipExtFile, "read", counted_read)
    (found,) = library.read(str(path))
    assert len(found.units) == 2000 * len(UNITS)
    assert unpacked == len(shared_object(WHOLE * 2000))


def test_what_is_beyond_the_cap_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "k.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("a.so", "b.so"):
            archive.writestr(name, shared_object(WHOLE))
    monkeypatch.setattr(library, "_MAX_UNPACKED", len(shared_object(WHOLE)))
    first, second = library.read(str(path))
    assert (named(first), first.problem) == (UNITS, "")
    assert "are unpacked" in second.problem
    monkeypatch.setattr(library, "_MAX_MEMBER_BYTES", 100)
    assert all("it is larger than" in one.problem for one in library.read(str(path)))


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
