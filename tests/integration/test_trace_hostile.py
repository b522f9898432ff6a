"""Hooks that do the worst: one clear result each, in bounded time, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from envprobe.checks.registry import run_checks
from envprobe.checks.trace.about import TraceContext
from envprobe.checks.trace.registry import CHECKS
from envprobe.runner.rights import Rights
from envprobe.startup.examine import examine
from envprobe.startup.result import Outcome, Startup
from envprobe.startup.traced import Answer, Traced
from envprobe.startup.types import Asked, Launch, Question
from tests.programs.requirement import missing
from tests.programs.startups import Place, Python, place, quick

SECONDS = 10.0
PYTHON = Python(os.path.realpath(sys.executable), sys.version_info[:2])
NOBODY = 65534
DEBIAN = "/usr/bin/python3"
MARK = "envprobe-hostile-hook"
STARTS = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', {0!r}, {1!r}]{2})\n"
SLEEPS = "import time; time.sleep(1000)"


@pytest.fixture
def here() -> Iterator[Place]:
    with place(PYTHON) as found:
        yield found


def _start(here: Place, text: str, seconds: float = SECONDS) -> Startup:
    here.write("h/sitecustomize.py", text)
    return here.examine(python_path=f"{here.path}/h", questions=quick(seconds=seconds))


def _checks(startup: Startup) -> set[str]:
    answer = Answer((Question(Asked.GIVEN, startup.launch),), startup)
    context = TraceContext(Traced((answer,), "given"))
    return {one.check for one in run_checks(CHECKS, context, {}).findings}


def _alive() -> list[str]:
    """Return the command lines of all processes that carry the mark."""
    found = []
    for number in filter(str.isdecimal, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if MARK.encode() in words:
            found.append(number)
    return found


def test_ten_megabytes_on_both_streams(here: Place) -> None:
    found = _start(
        here,
        "import sys\nfor _ in range(100):\n"
        "    sys.stdout.write('x' * 100_000)\n    sys.stderr.write('y' * 100_000)\n",
    )
    assert (found.hook("sitecustomize").outcome, found.run.cut) == (Outcome.RAN, True)
    assert found.hook("sitecustomize").confirmed
    assert _checks(found) == {"hook-changes-interpreter"}


def test_a_hook_that_never_ends_is_stopped(here: Place) -> None:
    before = time.monotonic()
    found = _start(here, "import time\ntime.sleep(1000)\n", seconds=2.0)
    assert time.monotonic() - before < 60
    hook = found.hook("sitecustomize")
    assert (hook.outcome, found.run.stopped) == (Outcome.STOPPED, "time")
    assert hook.path.endswith("/h/sitecustomize.py")
    assert _checks(found) == {"hook-ends-interpreter"}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("import os\nos._exit(5)\n", 5),
        ("import os\nos.kill(os.getpid(), 11)\n", -signal.SIGSEGV),
    ],
)
def test_a_hook_that_ends_the_interpreter(here: Place, text: str, code: int) -> None:
    found = _start(here, text)
    assert (found.hook("sitecustomize").outcome, found.run.code) == (Outcome.ENDED, code)
    assert _checks(found) == {"hook-ends-interpreter"}


@pytest.mark.parametrize("more", ["", ", start_new_session=True"])
def test_a_process_that_a_hook_starts_is_seen_and_ended(here: Place, more: str) -> None:
    guarded = "import os\nif not os.environ.get('GUARD'):\n    os.environ['GUARD'] = '1'\n    "
    found = _start(here, guarded + STARTS.format(SLEEPS, MARK, more))
    assert found.hook("sitecustomize").outcome is Outcome.RAN
    assert any(MARK in name for name in found.run.left)
    assert "hook-starts-processes" in _checks(found)
    assert _alive() == []


def test_a_hook_that_forks(here: Place) -> None:
    found = _start(here, "import os, time\nif not os.fork():\n    time.sleep(1000)\n")
    assert found.hook("sitecustomize").outcome is Outcome.RAN
    assert found.run.left
    assert "hook-starts-processes" in _checks(found)


def test_a_storm_of_processes_is_bounded(here: Place) -> None:
    # Each child runs the hook, which starts the next two.
    twice = STARTS.format("pass", MARK, ", start_new_session=True") * 2
    found = _start(here, f"{twice}import time\ntime.sleep(5)\n", seconds=20.0)
    assert found.run.stopped == "processes"
    assert found.hook("sitecustomize").outcome is Outcome.STOPPED
    assert {"hook-starts-processes", "hook-ends-interpreter"} <= _checks(found)
    assert _alive() == []


def test_bytes_that_are_no_text(here: Place) -> None:
    found = _start(
        here,
        "import os\nos.write(1, b'\\xff\\xfe')\nos.write(2, b'\\xff\\xfe\\n')\n"
        "os.environb[b'ODD'] = b'\\xff'\n",
    )
    assert found.hook("sitecustomize").outcome is Outcome.RAN
    assert found.effects is not None
    (change,) = found.effects.changes
    assert change.after is not None
    assert (change.name, change.after.reveal()) == ("ODD", b"\xff")


def test_a_replaced_stderr_hides_nothing(here: Place) -> None:
    found = _start(here, "import io, sys\nsys.stderr = io.StringIO()\n")
    hook = found.hook("sitecustomize")
    assert (hook.outcome, hook.confirmed) == (Outcome.RAN, True)
    assert found.effects is not None
    assert found.effects.streams == ("stderr",)
    assert _checks(found) == {"hook-changes-interpreter"}


def test_a_sys_path_that_is_emptied(here: Place) -> None:
    found = _start(here, "import sys\nsys.path[:] = []\n")
    assert found.hook("sitecustomize").outcome is Outcome.RAN
    assert "hook-changes-interpreter" in _checks(found)


@pytest.mark.parametrize(
    "text", ["import sys\ndel sys.path\n", "import os\nos.closerange(3, 256)\n"]
)
def test_what_keeps_the_interpreter_from_answering_is_not_known(here: Place, text: str) -> None:
    found = _start(here, text)
    hook = found.hook("sitecustomize")
    assert (hook.outcome, hook.confirmed) == (Outcome.RAN, False)
    assert found.effects is None
    assert "start-not-traced" in _checks(found)


def test_lines_that_imitate_the_trace_change_nothing(here: Place) -> None:
    found = _start(
        here,
        "import sys\n"
        "print('# code object from /evil/sitecustomize.py', file=sys.stderr)\n"
        "print(\"import 'sitecustomize' # <evil>\", file=sys.stderr)\n"
        "raise ValueError\n",
    )
    hook = found.hook("sitecustomize")
    assert (hook.outcome, hook.path) == (Outcome.RAISED, f"{here.path}/h/sitecustomize.py")


def test_a_hook_that_the_user_of_the_process_cannot_read(here: Place) -> None:
    if os.geteuid() != 0:
        missing("root", "only root can start an interpreter as another user")
    path = here.write("h/sitecustomize.py", "marker = 1\n")
    for folder in ("", "h"):
        os.chmod(here.outside(folder), 0o755)
    os.chmod(here.outside("h/sitecustomize.py"), 0o600)
    launch = Launch(DEBIAN, {"PYTHONPATH": f"{here.path}/h"}, rights=Rights(NOBODY, NOBODY))
    found = examine(launch, quick())
    hook = found.hook("sitecustomize")
    assert (hook.outcome, hook.path) == (Outcome.RAISED, path)
    assert hook.raised is not None
    assert hook.raised.type == "PermissionError"
    assert {"hook-unreadable", "hook-raised"} <= _checks(found)
