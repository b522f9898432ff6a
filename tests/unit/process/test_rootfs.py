"""Files in a target's root: only regular ones, only inside, and nothing that blocks."""

from __future__ import annotations

import errno
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from envprobe.process.handle import (
    AccessRefused,
    ProcessGone,
    ProcessHandle,
    Unsupported,
    read_whole,
)
from envprobe.process.rootfs import open_regular
from tests.programs.cbuild import build
from tests.programs.ctarget import CTarget
from tests.programs.requirement import missing


def contents(handle: ProcessHandle, path: str, limit: int = 1 << 20) -> bytes:
    descriptor = open_regular(handle, path)
    try:
        return read_whole(descriptor, limit, path)
    finally:
        os.close(descriptor)


@pytest.fixture
def handle() -> Iterator[ProcessHandle]:
    with CTarget(build("target")) as target, ProcessHandle.open(target.pid) as opened:
        yield opened


def test_a_regular_file_is_read(handle: ProcessHandle, tmp_path: Path) -> None:
    file = tmp_path / "conf"
    file.write_bytes(b"NCCL_ALGO=Ring\n" * 10_000)
    assert contents(handle, str(file)) == file.read_bytes()
    link = tmp_path / "link"
    link.symlink_to("conf")
    assert contents(handle, str(link)) == file.read_bytes()
    (tmp_path / "empty").touch()
    assert contents(handle, str(tmp_path / "empty")) == b""


def test_a_file_beyond_the_limit_is_refused_not_cut(handle: ProcessHandle, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(bytes(1001))
    assert len(contents(handle, str(tmp_path / "big"), limit=1001)) == 1001
    with pytest.raises(AccessRefused) as caught:
        contents(handle, str(tmp_path / "big"), limit=1000)
    assert caught.value.errno == errno.EFBIG


def test_what_is_no_regular_file_is_never_opened(handle: ProcessHandle, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        (tmp_path / "to-fifo").symlink_to("fifo")
        for path in ("/dev/zero", tmp_path, *(tmp_path / n for n in ("fifo", "socket", "to-fifo"))):
            with pytest.raises(Unsupported, match="not a regular file"):
                open_regular(handle, str(path))


def test_a_missing_file_and_magic_links(handle: ProcessHandle, tmp_path: Path) -> None:
    for path, number in (
        (str(tmp_path / "missing"), errno.ENOENT),
        (f"/proc/{os.getpid()}/root/etc/passwd", errno.ELOOP),
        (f"/proc/{os.getpid()}/exe", errno.ELOOP),
    ):
        with pytest.raises(AccessRefused) as caught:
            open_regular(handle, path)
        assert caught.value.errno == number


def test_a_vanished_process_has_no_root() -> None:
    with CTarget(build("target")) as target:
        handle = ProcessHandle.open(target.pid)
    with handle, pytest.raises(ProcessGone):
        open_regular(handle, "/etc/passwd")


@pytest.mark.root
def test_links_stay_inside_the_root_of_the_target(tmp_path: Path) -> None:
    if os.geteuid():
        missing("root", "chroot needs root")
    outside = tmp_path / "outside"
    outside.write_text("of the host")
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc" / "secret").write_text("of the target")
    (root / "absolute").symlink_to("/etc/secret")
    (root / "climbing").symlink_to("../../../../../../etc/secret")
    (root / "host").symlink_to(outside)
    shutil.copy(build("target", "-static"), root / "program")
    with (
        CTarget("/program", before_exec=lambda: os.chroot(root)) as target,
        ProcessHandle.open(target.pid) as handle,
    ):
        for name in ("/etc/secret", "/absolute", "/climbing", "/../../etc/secret"):
            assert contents(handle, name) == b"of the target"
        with pytest.raises(AccessRefused) as caught:
            contents(handle, "/host")
        assert caught.value.errno == errno.ENOENT
