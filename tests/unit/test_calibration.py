"""What `calibration.measure` executes: how it is started, and that it stays within its bounds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from envprobe import calibration
from envprobe.errors import UndeterminedError
from envprobe.process.handle import ProcessHandle
from envprobe.runner.started import Bounds
from tests.programs.raw import running


@pytest.fixture
def handle() -> Iterator[ProcessHandle]:
    with running([b"OF_TARGET=1"]) as pid, ProcessHandle.open(pid) as opened:
        yield opened


def refused(handle: ProcessHandle, folder: Path, script: str) -> tuple[UndeterminedError, str]:
    """Run a script in place of an interpreter; return the error and what was told before."""
    program = folder / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    told: list[str] = []
    with pytest.raises(UndeterminedError) as caught:
        calibration.measure(handle, str(program), 10, told.append)
    (line,) = told
    assert str(program) in line
    return caught.value, line


def test_it_is_isolated(
    handle: ProcessHandle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/of/envprobe")
    monkeypatch.setenv("OF_ENVPROBE", "1")
    seen = tmp_path / "seen"
    rights = "grep -E '^(NoNewPrivs|CapEff):' /proc/self/status"
    script = f'{{ echo "$1 $2 $3 $4"; wc -c; {rights}; env; }} >{seen}; echo "{{}}"'
    error, told = refused(handle, tmp_path, script)
    assert "nothing that can be used" in error.message
    assert "--calibrate-with" in error.remedy
    assert told.startswith("--calibrate executes foreign code: ")
    arguments, stdin, capabilities, privileges, *lines = seen.read_text().splitlines()
    assert (arguments, stdin) == ("-I -S -B -c", "0")
    assert (capabilities, privileges) == (f"CapEff:\t{0:016x}", "NoNewPrivs:\t1")
    environment = dict(line.partition("=")[::2] for line in lines)
    assert environment["CUDA_VISIBLE_DEVICES"] == ""
    own = {"PATH", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PWD", "OLDPWD", "SHLVL", "_"}
    assert {name for name in environment if not name.endswith("_VISIBLE_DEVICES")} <= own


@pytest.mark.parametrize(
    ("script", "bounds", "said"),
    [
        ("sleep 60", Bounds(0.5, grace_seconds=0.1), "did not answer in 0.5 s"),
        ("while :; do echo no >&2; done", Bounds(30, 4096, grace_seconds=0.1), "more than 4096"),
        ("echo last words >&2; exit 1", Bounds(30), "ended before it was ready"),
    ],
)
def test_it_is_bounded(
    handle: ProcessHandle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    bounds: Bounds,
    said: str,
) -> None:
    monkeypatch.setattr(calibration, "_BOUNDS", bounds)
    noted = tmp_path / "pid"
    error, _ = refused(handle, tmp_path, f"echo $$ >{noted}\n{script}")
    assert said in error.message
    with pytest.raises(ProcessLookupError):
        os.kill(int(noted.read_text()), 0)


def test_files_that_never_answer_are_no_reason_to_wait(
    handle: ProcessHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stalled(handle: ProcessHandle, copy: str | None) -> None:
        os.read(os.pipe()[0], 1)

    monkeypatch.setattr(calibration, "_choose", stalled)
    with pytest.raises(UndeterminedError, match="do not answer") as caught:
        calibration.measure(handle, None, 0.2, lambda line: None)
    assert "--deadline" in caught.value.remedy
