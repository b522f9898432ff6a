"""The GPU code of a library: a shared object, a cubin, a fat binary, or all of these in a wheel."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import stat
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from typing import BinaryIO, Final

from envprobe.errors import UndeterminedError, UsageError
from envprobe.kernel import fatbin
from envprobe.kernel.architecture import Architecture
from envprobe.kernel.fatbin import Image, Kind, Units

_IDENT: Final = b"\x7fELF\x02\x01"
_HEADER: Final = struct.Struct("<16s2HI3QI6H")
_SECTION: Final = struct.Struct("<2I4Q2I2Q")
_EM_CUDA: Final = 190
_NOBITS: Final = 8
_MAX_SECTIONS: Final = 1 << 16
_MAX_NAMES: Final = 1 << 24
_MAX_MEMBERS: Final = 1 << 16
_MAX_MEMBER_BYTES: Final = 4 << 30
_MAX_UNPACKED: Final = 16 << 30
_CHUNK: Final = 1 << 14
_LOADED: Final = ".nv_fatbin"
_TO_BE_LINKED: Final = "__nv_relfatbin"
_CUBIN_ABI: Final = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Library:
    """One file with GPU code, or without: `units` are its fat binaries, each with its images.

    `relocatable`: it also holds code that was linked into those units and is not loaded itself.
    `problem` says why its code could not be read, or not all of it.
    """

    name: str
    units: tuple[frozenset[Image], ...] = ()
    relocatable: bool = False
    problem: str = ""

    @property
    def counts(self) -> dict[Image, int]:
        """In how many units each image is, in the order of architectures."""
        found: dict[Image, int] = {}
        for unit in self.units:
            for image in unit:
                found[image] = found.get(image, 0) + 1
        return dict(sorted(found.items(), key=lambda one: (one[0].architecture, one[0].kind)))


def read(path: str) -> tuple[Library, ...]:
    """Return the GPU libraries in a file: itself, or of a wheel each that holds code.

    Raises UsageError for what is no such file, UndeterminedError where it cannot be read.
    """
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(open(path, "rb"))
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{path} is no regular file", _REMEDY)
            if not _is_zip(file):
                return (_of(file, path, os.fstat(file.fileno()).st_size),)
            return tuple(_members(stack.enter_context(_archive(file, path)), path))
        except (IsADirectoryError, FileNotFoundError) as error:
            raise UsageError(f"{path}: {os.strerror(error.errno or 0)}", _REMEDY) from None
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else type(error).__name__
            raise UndeterminedError(f"{path} cannot be read: {why}") from None


_REMEDY: Final = "Name a shared object (.so), a cubin, a fat binary, or a wheel that holds some."


def _is_zip(file: BinaryIO) -> bool:
    magic = file.read(4)
    file.seek(0)
    return magic == b"PK\x03\x04"


def _archive(file: BinaryIO, path: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except OSError:
        raise
    except Exception as error:  # a damaged directory: ValueError, UnicodeDecodeError, and others
        raise UsageError(f"{path} is a damaged wheel: {error}", _REMEDY) from None


def _members(archive: zipfile.ZipFile, path: str) -> Iterator[Library]:
    found, unpacked = False, 0
    for info in archive.infolist()[:_MAX_MEMBERS]:
        base = info.filename.rpartition("/")[2]
        if info.filename.endswith("/") or not (
            ".so" in base or base.endswith((".cubin", ".fatbin"))
        ):
            continue
        name = f"{path}:{info.filename}"
        found = True
        problem = _unreadable(info, unpacked)
        if problem:
            yield Library(name, problem=problem)
            continue
        unpacked += info.file_size
        yield _member(archive, info, name)
    if not found:
        raise UsageError(f"{path} holds no shared object", _REMEDY)


def _unreadable(info: zipfile.ZipInfo, unpacked: int) -> str:
    """Return why a member is not even unpacked, after so many bytes of others; "" if it is."""
    if info.flag_bits & 1:
        return "it is encrypted"
    if info.file_size > _MAX_MEMBER_BYTES:
        return f"it is larger than {_MAX_MEMBER_BYTES >> 30} GiB"
    if unpacked + info.file_size > _MAX_UNPACKED:
        return f"no more than {_MAX_UNPACKED >> 30} GiB of a wheel are unpacked"
    return ""


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> Library:
    # Each step back in a packed member would unpack it from its begin, so it is unpacked once.
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(tempfile.TemporaryFile())
            with archive.open(info) as member:
                shutil.copyfileobj(member, file, _CHUNK)
        except Exception as error:  # each decoder of zipfile's has errors of its own
            return Library(name, problem=f"it cannot be unpacked: {_first_line(error)}")
        size = file.tell()
        if size != info.file_size:
            return Library(name, problem=f"it has {size} bytes, not {info.file_size}")
        file.seek(0)
        try:
            return _of(file, name, size)
        except UsageError as error:
            return Library(name, problem=error.message)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__


def _of(file: BinaryIO, name: str, size: int) -> Library:
    """Return the code of one file that begins at its first byte."""
    raw = file.read(_HEADER.size)
    if raw[:4] == struct.pack("<I", fatbin.MAGIC):
        return _library(name, fatbin.read(file, 0, size))
    if raw.startswith(b"!<arch>\n"):
        raise UsageError(
            f"{name} is a static archive", "Unpack it with `ar x`, and name its members."
        )
    if len(raw) < _HEADER.size or raw[:6] != _IDENT:
        raise UsageError(f"{name} is no ELF file of 64 bits", _REMEDY)
    header = _HEADER.unpack(raw)
    if header[2] == _EM_CUDA:
        return Library(name, (frozenset({_cubin(header)}),))
    sections = _sections(file, header, size)
    if sections is None:
        return Library(name, problem="its section table is missing or damaged")
    found = Units(())
    for section, offset, length in sections:
        if section == _LOADED:
            more = fatbin.read(file, offset, length)
            found = Units(found.units + more.units, found.damaged or more.damaged)
    relocatable = any(section == _TO_BE_LINKED for section, _, _ in sections)
    return _library(name, found, relocatable)


def _library(name: str, found: Units, relocatable: bool = False) -> Library:
    problem = f"its fat binary is damaged {found.damaged}" if found.damaged else ""
    return Library(name, found.units, relocatable, problem)


def _cubin(header: tuple[bytes, ...] | tuple[object, ...]) -> Image:
    """Return what a cubin's e_flags say (LLVM, llvm/BinaryFormat/ELF.h, EF_CUDA_*).

    From ABI version 8 on they tell no suffix.
    """
    ident, flags = header[0], header[7]
    assert isinstance(ident, bytes)
    assert isinstance(flags, int)
    if ident[8] >= _CUBIN_ABI:
        return Image(Architecture(flags >> 8 & 0xFF), Kind.SASS)
    return Image(Architecture(flags & 0xFF, "a" if flags & 0x800 else ""), Kind.SASS)


def _sections(
    file: BinaryIO, header: tuple[object, ...], size: int
) -> list[tuple[str, int, int]] | None:
    """Return name, offset and size of the sections that are in the file; None if they are not."""
    offset, entry_size, count, names_at = header[6], header[11], header[12], header[13]
    assert isinstance(offset, int)
    assert isinstance(count, int)
    assert isinstance(names_at, int)
    if not 0 < count <= _MAX_SECTIONS or entry_size != _SECTION.size or names_at >= count:
        return None
    table = _read(file, offset, count * _SECTION.size, size)
    if table is None:
        return None
    rows = list(_SECTION.iter_unpack(table))
    names = _read(file, rows[names_at][4], min(rows[names_at][5], _MAX_NAMES), size)
    if names is None:
        return None
    found = []
    for row in rows:
        name = names[row[0] : row[0] + 64].partition(b"\0")[0].decode("ascii", "replace")
        if row[1] != _NOBITS and row[4] + row[5] <= size:
            found.append((name, row[4], row[5]))
    return found


def _read(file: BinaryIO, offset: int, length: int, size: int) -> bytes | None:
    if offset + length > size:
        return None
    file.seek(offset)
    raw = file.read(length)
    return raw if len(raw) == length else None
