"""What is said of files of code: unchanged, changed or missing only where that is known."""

from __future__ import annotations

import os
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from envprobe.process.codefiles import CodeFiles
from envprobe.process.handle import ProcessHandle
from envprobe.pythonfacts import DiskState


@pytest.fixture
def handle() -> Iterator[ProcessHandle]:
    with ProcessHandle.open(os.getpid()) as opened:
        yield opened


def test_the_ctime_decides(handle: ProcessHandle, tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("")
    os.utime(file, (1, 1))
    changed = os.stat(file).st_ctime
    for start, state in ((changed - 10, DiskState.CHANGED), (changed + 10, DiskState.UNCHANGED)):
        found = CodeFiles(handle, start, None).look(str(file))
        assert (found.state, found.changed) == (state, changed)


def test_an_archive_stands_for_what_is_in_it(handle: ProcessHandle, tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("pkg/a.py", "")
    found = CodeFiles(handle, time.time() - 100, None).look(f"{archive}/pkg/a.py")
    assert found.state is DiskState.CHANGED
    assert found.changed == os.stat(archive).st_ctime


def test_missing_is_said_only_of_absolute_paths(handle: ProcessHandle, tmp_path: Path) -> None:
    (tmp_path / "here.py").write_text("")
    files = CodeFiles(handle, time.time() + 100, str(tmp_path))
    assert files.look(str(tmp_path / "gone.py")).state is DiskState.MISSING
    assert files.look("here.py").state is DiskState.UNCHANGED
    moved = files.look("gone.py")
    assert (moved.state, str(tmp_path) in moved.reason) == (DiskState.UNREADABLE, True)
    unknown = CodeFiles(handle, 0.0, None).look("here.py")
    assert (unknown.state, unknown.reason) == (
        DiskState.UNREADABLE,
        "its working directory is not known",
    )


def test_odd_paths_are_unreadable_and_never_waited_for(
    handle: ProcessHandle, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    files = CodeFiles(handle, 0.0, "/")
    for path in (str(tmp_path / "pipe"), str(tmp_path), "/a\0b", "/\ud800", "/" + "x" * 5000):
        found = files.look(path)
        assert found.state is DiskState.UNREADABLE, path
        assert found.reason, path
