"""Copies of libnccl in real processes: each is what it says of itself, whatever it is called."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from envprobe.collect import Request, collect
from envprobe.model import Process
from envprobe.ncclfacts import Libraries, Library
from envprobe.process import libraries
from tests.programs.cbuild import build
from tests.programs.ctarget import CTarget
from tests.unit.process.looking import opened

TEXT = "NCCL version 2.99.1+cuda12.9"


def fake(folder: Path, text: str = TEXT, pad: int = 1, name: str = "libnccl.so.2") -> Path:
    """Return a library of this name, under a path with a folder of its own."""
    made = build("fake_nccl", "-shared", "-fPIC", f'-DTEXT="{text}"', f"-DPAD={pad}")
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(made, path)
    return path


def seen(*preloaded: Path, patterns: tuple[str, ...] = ()) -> tuple[Libraries, Process]:
    """Return what the first look finds in a process with these libraries, and the second one."""
    env = {"LD_PRELOAD": ":".join(map(str, preloaded))}
    with CTarget(build("target"), env=env) as target:
        with opened(target.pid) as process:
            first = libraries.loaded(process.scope(), process.space, patterns)
        scan = collect(Request((target.pid,), (), orphans=False, libraries=patterns))
    (found,) = scan.processes
    return first, found


def copies(process: Process) -> tuple[Library, ...]:
    assert process.libraries is not None
    assert process.libraries.whole
    return process.libraries.nccl


@pytest.mark.parametrize("pad", [1, 3 << 20, (1 << 20) - 4120, (1 << 20) - 4100])
def test_the_version_is_found_wherever_it_lies(pad: int, tmp_path: Path) -> None:
    path = fake(tmp_path, pad=pad)
    first, process = seen(path)
    assert [(one.path, one.version) for one in first.nccl] == [(str(path), "")]
    (found,) = copies(process)
    assert (found.path, found.version, found.reason) == (str(path), "2.99.1+cuda12.9", "")
    assert (found.inode, found.deleted) == (path.stat().st_ino, False)


@pytest.mark.parametrize(
    "text",
    ["no version", "NCCL version %d.%d.%d", "NCCL version 2.1", "NCCL version 2.3.4 and more"],
)
def test_a_library_that_does_not_say_its_version_has_none(text: str, tmp_path: Path) -> None:
    (found,) = copies(seen(fake(tmp_path, text=text))[1])
    assert (found.version, found.reason) == ("", "no text in its image says it")


def test_nothing_is_read_beyond_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "MAX_IMAGE_BYTES", 1 << 20)
    (found,) = copies(seen(fake(tmp_path, pad=3 << 20))[1])
    assert found.version == ""


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("libnccl.so", True),
        ("libnccl.so.2.28.9", True),
        ("libnccl.so.2.old", False),
        ("libnccl-net.so", False),
        ("xlibnccl.so.2", False),
    ],
)
def test_which_names_are_nccl(name: str, counts: bool, tmp_path: Path) -> None:
    path = fake(tmp_path, name=name)
    first, _ = seen(path)
    assert bool(first.nccl) is counts
    assert first.plugins == ((str(path),) if name == "libnccl-net.so" else ())


def test_the_same_file_twice_is_two_copies_only_under_two_names(tmp_path: Path) -> None:
    one, two = fake(tmp_path / "a"), fake(tmp_path / "b", text=TEXT.replace("99", "98"))
    found = copies(seen(one, two)[1])
    assert [each.version for each in found] == ["2.99.1+cuda12.9", "2.98.1+cuda12.9"]


def test_patterns_are_matched_with_paths_and_file_names(tmp_path: Path) -> None:
    path = fake(tmp_path, name="libmine.so")
    patterns = ("libmine.so", f"{tmp_path}/*", "*/libmine*", "mine", "libnccl.so*")
    first, process = seen(path, patterns=patterns)
    assert process.libraries is not None
    for found in (first, process.libraries):
        having = {pattern for pattern, paths in found.named.items() if paths == (str(path),)}
        assert having == set(patterns[:3])
        assert set(found.named) == set(patterns)


def test_a_file_is_read_once_for_all_that_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fake(tmp_path)
    read = tmp_path / "read"
    look = libraries._look

    def counted(held: tuple[Process, Library]) -> object:
        with read.open("a") as file:
            file.write("x")
        return look(held)

    monkeypatch.setattr(libraries, "_look", counted)
    env = {"LD_PRELOAD": str(path)}
    program = build("target")
    with CTarget(program, env=env) as one, CTarget(program, env=env) as two:
        scan = collect(Request((one.pid, two.pid), (), orphans=False))
    assert [copies(each)[0].version for each in scan.processes] == ["2.99.1+cuda12.9"] * 2
    assert read.read_text() == "x"
