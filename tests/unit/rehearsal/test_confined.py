"""The first process as a service: who is told anything, and its bounds."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

import pytest

from envprobe.launch.manager import Manager
from envprobe.launch.sandbox import Property
from envprobe.launch.types import Place
from envprobe.rehearsal.confined import Confined, NotConfinedError, Sandbox, confined
from envprobe.runner.started import Bounds
from envprobe.runner.supervised import Command
from tests.programs.requirement import missing
from tests.programs.usermanager import user_manager

PYTHON = "/usr/bin/python3"
BOUNDS = Bounds(seconds=30.0, processes=20, memory_bytes=1 << 30)
ANSWERS = "import os; os.write(63, b'entered\\n' + os.environb[b'SECRET'] + b'\\n'); os.read(62, 1)"
CONNECT = (
    "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
    " sys.exit(len(s.recv(1)))"
)


def _command() -> Command:
    words = (PYTHON, "-I", "-S", "-c", ANSWERS)
    return Command(PYTHON, words, {"SECRET": "s-4t"}, cwd="/")


# --- with a manager that says what a file says


@pytest.fixture
def said(tmp_path: Path) -> Path:
    """The file of properties that a `systemctl` of this test prints."""
    program = tmp_path / "systemctl"
    program.write_text(f"#!/bin/sh\nexec /bin/cat {tmp_path}/said\n")
    program.chmod(0o755)
    (tmp_path / "said").write_text("ControlGroup=\nActiveState=active\nExecMainStatus=0\n")
    return tmp_path / "said"


def _made(said: Path, bounds: Bounds) -> Confined:
    sandbox = Sandbox((), Manager(True, {"PATH": str(said.parent)}), str(said.parent))
    return Confined(sandbox, "x.service", bounds)


@pytest.mark.parametrize("uid", [-1, os.geteuid()])
def test_only_a_process_of_the_service_is_told_anything(said: Path, uid: int) -> None:
    path = str(said.parent / "socket")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        server.bind(path)
        server.listen(2)
        stranger = stack.enter_context(socket.socket(socket.AF_UNIX))
        stranger.settimeout(20)
        stranger.connect(path)
        service = stack.enter_context(subprocess.Popen([sys.executable, "-c", CONNECT, path]))
        stack.callback(service.kill)
        said.write_text(f"ControlGroup=/no/such.service\nMainPID={service.pid}\nActiveState=active")
        made = _made(said, BOUNDS)
        # It has reached the service: that one runs in the mount namespace of this test.
        with pytest.raises(NotConfinedError, match="left the sandbox out"):
            made.connect(server, _command(), uid)
        assert made.pid == service.pid
        assert stranger.recv(1) == b""
        made.close()
        assert service.wait(20) == 0


@contextlib.contextmanager
def _served(made: Confined, serve: Callable[[socket.socket], None]) -> Iterator[None]:
    """Give it a connection at whose other end a thread writes until it is closed."""
    made._connection, other = socket.socketpair()

    def written() -> None:
        with contextlib.suppress(OSError):
            while True:
                serve(other)

    thread = threading.Thread(target=written, daemon=True)
    thread.start()
    try:
        yield
    finally:
        made.close()
        thread.join(20)
        other.close()


def _trickle(other: socket.socket) -> None:
    other.send(b"x")
    time.sleep(0.005)


def _lines(other: socket.socket) -> None:
    other.sendall(b"line\n" * 100)


def test_the_time_is_up_for_a_service_that_never_stops_writing(said: Path) -> None:
    made = _made(said, Bounds(seconds=0.5))
    before = time.monotonic()
    with _served(made, _trickle):
        assert made.read_line() is None
        assert made.end().stopped == "time"
    assert time.monotonic() - before < 4


def test_all_that_a_service_writes_counts_against_the_bound(said: Path) -> None:
    made = _made(said, Bounds(seconds=60.0, output_bytes=1002))
    with _served(made, _lines):
        assert sum(1 for _ in iter(made.read_line, None)) == 200
        ended = made.end()
    assert (ended.stopped, ended.cut) == ("", True)


# --- with a real one


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    folder = tmp_path / "rehearsal"
    folder.mkdir()
    source = resources.files("envprobe") / "payload" / "rehearse_enter.py"
    shutil.copy(str(source), folder / "rehearse_enter.py")
    with user_manager(tmp_path / "manager") as manager:
        yield Sandbox(
            (Property("PrivateTmp", "yes", Place("")),),
            Manager(True, manager.environment),
            str(folder),
        )


def _strangers(path: str, heard: list[bytes], enough: threading.Event) -> None:
    """Connect again and again from before the service is there, and keep what is said."""
    while not enough.is_set():
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as stranger:
            stranger.settimeout(1)
            stranger.connect(path)
            heard.append(stranger.recv(1 << 16))


def test_strangers_that_connect_first_learn_nothing(sandbox: Sandbox) -> None:
    path = f"{sandbox.folder}/socket"
    try:
        with confined(sandbox, _command(), BOUNDS) as made:
            assert made.read_line() == b"entered"
    except NotConfinedError as error:
        missing("systemd", f"no sandbox can be made here: {error}")
    os.unlink(path)
    heard: list[bytes] = []
    enough = threading.Event()
    stranger = threading.Thread(target=_strangers, args=(path, heard, enough))
    stranger.start()
    try:
        with confined(sandbox, _command(), BOUNDS) as made:
            assert (made.read_line(), made.read_line()) == (b"entered", b"s-4t")
    finally:
        enough.set()
        stranger.join(20)
    assert heard
    assert set(heard) == {b""}


def test_a_service_outside_its_sandbox_is_left(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "readlink", lambda path: "mnt:[1]")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(NotConfinedError) as caught, confined(sandbox, _command(), BOUNDS):
        pass
    # The error keeps all that is still open.
    assert len(os.listdir("/proc/self/fd")) == before, caught
    assert "without rights" in str(caught.value)
