"""What would fill the machine with processes is ended within bounds, and nothing of it is left.

Every process of a storm carries a marker variable. A net below envprobe's own bounds keeps a test
that fails from becoming one: a number of generations, of processes, and of seconds.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs.restart import NAME, Change, Stage
from tests.programs.usermanager import user_manager

MARKER = f"ENVPROBE_STORM_OF_{os.getpid()}"
SECONDS = 50
"""Less than envprobe gives an interpreter that hangs: the number ends a storm, not the time."""
MARKED = ("Environment=NCCL_ALGO=Ring", f"Environment=NCCL_ALGO=Ring\nEnvironment={MARKER}=1")
BREEDS = """
import os, subprocess, sys

generation = int(os.environ.get("STORM", "0"))
if generation < 6:
    os.environ["STORM"] = str(generation + 1)
    for _ in range(2):
        words = [sys.executable, "-c", "import time; time.sleep(60)"]
        subprocess.Popen(words, start_new_session=True)
"""
FORKS = """
import os, time

ends = time.monotonic() + 60
for number in range(1000):
    if not os.fork():
        if number % 2:
            os.setsid()
        time.sleep(max(0.0, ends - time.monotonic()))
        os._exit(0)
time.sleep(max(0.0, ends - time.monotonic()))
"""
BACKEND = "\n\nclass Backend:\n    def plain(self):\n        pass\n"
UNGUARDED = """
import multiprocessing
import os

open("{folder}/was-run", "a").write("x")
if int(os.environ.setdefault("STORM", "0")) < 6:
    os.environ["STORM"] = str(int(os.environ["STORM"]) + 1)
    multiprocessing.get_context("spawn").Process(target=print).start()
"""


@dataclasses.dataclass(frozen=True)
class Storm:
    """What makes processes without end, and the checks that name it: one of each part."""

    name: str
    change: Change
    checks: tuple[str, ...]


STORMS = (
    Storm(
        "a wrapper without a main guard",
        Change(unit=(MARKED, ("{served}", "{folder}/launch.py")), files={"launch.py": UNGUARDED}),
        ("main-guard-missing",),
    ),
    Storm(
        "a hook that starts two processes in each",
        Change(unit=(MARKED,), hook=BREEDS),
        ("hook-starts-processes", "rehearsal-storm"),
    ),
    Storm(
        "a hook that forks for ever",
        Change(unit=(MARKED,), hook=FORKS),
        ("hook-starts-processes", "rehearsal-storm"),
    ),
    Storm(
        "a patched module that forks for ever",
        Change(unit=(MARKED,), files={"app/engine.py": FORKS + BACKEND}),
        ("rehearsal-storm",),
    ),
)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("storms")
    with user_manager(folder / "manager") as manager:
        yield Stage(manager, folder)


def marked() -> list[int]:
    """Return every process that has the marker in the environment it was started with."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                block = (entry / "environ").read_bytes()
            except OSError:
                continue
            if MARKER.encode() in block:
                found.append(int(entry.name))
    return found


def test_what_is_left_would_be_found() -> None:
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, env={MARKER: "1"}) as left:
        assert marked() == [left.pid]
    assert marked() == []


@pytest.mark.parametrize("storm", STORMS, ids=lambda one: one.name)
def test_a_storm_is_ended_and_named(here: Stage, storm: Storm) -> None:
    with here.changed(storm.change):
        began = time.monotonic()
        judged = here.judged("gate", "-c", str(here.config), "--user", "--unit", NAME)
        assert time.monotonic() - began < SECONDS
        assert marked() == []
        assert not (here.folder / "was-run").exists()
        assert judged.code == 1
        named = {one["check"] for one in judged.report["findings"] if one["who"]}
        assert named >= {*storm.checks}
