"""When a process replaces itself, and with what."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import envprobe
from envprobe import isolation

MAIN = str(Path(envprobe.__file__).with_name("__main__.py"))

Calls = list[tuple[str, list[str], dict[bytes, bytes]]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    seen: Calls = []
    monkeypatch.setattr(os, "execve", lambda *given: seen.append(given))
    monkeypatch.setattr(sys, "_xoptions", {})
    return seen


@pytest.fixture
def block(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    def give(raw: bytes) -> None:
        monkeypatch.setattr(isolation, "_own_block", lambda: raw)

    return give


def test_it_becomes_an_isolated_interpreter_with_the_same_arguments(calls: Calls) -> None:
    isolation.isolate(MAIN, ["workers", "--pid", "1"])
    ((program, command, _),) = calls
    assert program == command[0] == sys.executable
    assert command[1:4] == ["-I", "-S", "-X"]
    assert command[5:] == [MAIN, "workers", "--pid", "1"]
    option, _, path = command[4].partition("=")
    assert option == isolation.PATH_OPTION
    entries = path.split(os.pathsep)
    assert entries[0] == str(Path(envprobe.__file__).parent.parent)
    assert any(Path(entry, "typer").is_dir() for entry in entries)


def test_it_happens_once(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_xoptions", {isolation.PATH_OPTION: "/a"})
    isolation.isolate(MAIN, [])
    assert not calls


@pytest.mark.parametrize("executable", ["", None])
def test_an_interpreter_without_an_executable_goes_on_as_it_is(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, executable: Any
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    isolation.isolate(MAIN, [])
    assert not calls


def test_a_package_in_an_archive_goes_on_as_it_is(calls: Calls) -> None:
    isolation.isolate("/x/app.zip/envprobe/__main__.py", [])
    assert not calls


def test_a_refused_exec_goes_on_as_it_is(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> None:
        raise OSError(7, "Argument list too long")

    monkeypatch.setattr(os, "execve", refuse)
    isolation.isolate(MAIN, [])
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, []) & {signal.SIGINT, signal.SIGTERM}


def test_pythonpath_is_not_handed_over(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    isolation.isolate(MAIN, [])
    assert str(tmp_path) not in calls[0][1][4]


def test_the_path_is_appended_after_the_standard_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", ["/lib/python"])
    monkeypatch.setattr(sys, "_xoptions", {isolation.PATH_OPTION: "/a:/lib/python:/b"})
    isolation.extend_path()
    assert sys.path == ["/lib/python", "/a", "/b"]


def test_of_duplicates_the_first_counts_and_bytes_survive(
    block: Callable[[bytes], None],
) -> None:
    block(b"A=1\0A=2\0B=\xff=x\0odd\0=y\0EMPTY=\0")
    assert isolation.caller_environment() == {b"A": b"1", b"B": b"\xff=x", b"EMPTY": b""}


@pytest.mark.parametrize("wiped", [b"", b"\0\0\0\0"])
def test_without_a_block_the_interpreters_own_view_stands_in(
    block: Callable[[bytes], None], wiped: bytes
) -> None:
    block(wiped)
    assert isolation.caller_environment() == dict(os.environb)
