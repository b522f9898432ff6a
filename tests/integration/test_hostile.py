"""Hostile targets cost one reading at most, in bounded time and memory; their text does nothing."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import time
import tty
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from envprobe import tables
from tests.programs.cbuild import build
from tests.programs.cli import Run
from tests.programs.ctarget import CTarget
from tests.programs.envprobe_cli import environment, script
from tests.programs.peak import telling_peak
from tests.programs.requirement import missing

SET = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"}
SECONDS = 3.0
PEAK_MIB = 128
LIMIT_S = 60

UNREADABLE = (
    *("million", "wild", "kernel", "noncanonical", "unterminated-string", "unterminated-name"),
    *("endless-value", "unterminated-array", "misaligned", "wild-array", "device"),
)
READ = ("many", "cycle", "scattered")


def measured(*arguments: str) -> tuple[Run, float, float]:
    """Run `envprobe workers`; return it with its wall time and the peak of its memory in MiB."""
    began = time.monotonic()
    read_end, write_end = os.pipe()
    with open(read_end, "rb") as peak:
        ran = subprocess.run(
            telling_peak([*script(), "workers", "--format=json", *arguments], write_end),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment(),
            cwd="/",
            pass_fds=(write_end,),
            check=False,
        )
        os.close(write_end)
        spent = time.monotonic() - began
        return Run(ran.returncode, ran.stdout, ran.stderr), spent, int(peak.read()) / 1024


@contextlib.contextmanager
def beside_others(how: str) -> Iterator[tuple[int, list[int], str]]:
    """Give a hostile worker, two that are none, and a pattern that matches all three."""
    title = f"hostile-{os.getpid()}"
    with contextlib.ExitStack() as stack:
        others = [
            stack.enter_context(CTarget(build("target"), env=SET, argv0=f"{title}-{number}"))
            for number in range(2)
        ]
        try:
            target = stack.enter_context(
                CTarget(build("hostile"), how, env=SET, argv0=f"{title}-9")
            )
        except RuntimeError:
            if how != "device":
                raise
            missing("dev-mem", "/dev/mem cannot be mapped here")
        yield target.pid, [other.pid for other in others], f"--match={title}-*"


@pytest.mark.parametrize("how", [*UNREADABLE, *READ])
def test_a_scribbled_environ_costs_one_reading_at_most(how: str) -> None:
    with beside_others(how) as (pid, others, pattern):
        run, spent, peak = measured(pattern, "--var=*", "--expect=NCCL_ALGO=Ring")
    assert spent < SECONDS
    assert peak < PEAK_MIB
    assert run.workers() == {pid, *others}
    for other in others:
        assert {name: run.text(other, name) for name in SET} == SET
        assert run.process(other)["environments"]["libc"]["status"] == "complete"
    # What it was handed over is the kernel's word, and is not touched.
    assert run.text(pid, "NCCL_ALGO", "exec") == "Ring"
    view, reading = run.process(pid)["environments"]["libc"], run.reading(pid, "NCCL_ALGO")
    if how in READ:
        # Its own getenv would find nothing either.
        assert (view["status"], reading["state"]) == ("complete", "absent")
        assert (run.code, run.pids("env-missing")) == (1, {pid})
        assert run.pids("worker-unreadable") == run.pids("env-unknown") == set()
    else:
        assert (view["status"], reading["state"]) == ("unreadable", "unreadable")
        assert reading["reason"]
        assert reading["remedy"].endswith(".")
        assert run.code == 3
        assert run.pids("worker-unreadable") == run.pids("env-unknown") == {pid}
        assert run.loud(others) == []


def test_many_hostile_workers_at_once() -> None:
    title = f"hostiles-{os.getpid()}"
    hows = [how for how in UNREADABLE if how != "device"]
    with contextlib.ExitStack() as stack:
        hostile = {
            stack.enter_context(CTarget(build("hostile"), how, env=SET, argv0=f"{title}-1")).pid
            for how in hows
        }
        healthy = stack.enter_context(CTarget(build("target"), env=SET, argv0=f"{title}-0")).pid
        run, spent, peak = measured(f"--match={title}-*", "--var=*")
    assert run.code == 3
    assert run.pids("worker-unreadable") == hostile
    assert run.workers() == {healthy, *hostile}
    assert run.text(healthy, "NCCL_ALGO") == "Ring"
    assert spent < SECONDS
    assert peak < PEAK_MIB


# --- text -----------------------------------------------------------------------------------------

COMMANDS = (
    *(b"\x1b[31mred\x1b[0m", b"\x1b]0;owned\x07", b"\x1b[2J\x1b[H", b"\xc2\x9b31m", b"\x9b31m"),
    *(b"one\r\ntwo\rthree\n::error::gate", b"::warning file=a::b", b"\n##[error]x", b"\x08\x7f"),
    *(b"some words to be wrapped ::error::x " * 4, b"##vso[task.complete]", b"##teamcity[x]"),
    *(b"[bold red]x[/]", b"[link=file:///etc/passwd]y[/link]", b"<script>alert(1)</script>"),
    *(b"\xff\xfe", b"\xed\xa0\x80", "\u202etxt.exe\u2066".encode(), "e\u0301\u0489".encode()),
    *(b"%s%n{0.__class__}", b"]]>&amp;", "\U000e0041\u200b\ufeff".encode(), b"'; rm -rf /; '"),
)
ALL = b"".join(COMMANDS)
EVIL = {
    **{b"NCCL_%d" % number: text for number, text in enumerate(COMMANDS)},
    **{b"NCCL_" + text.replace(b"=", b""): b"x" for text in COMMANDS},
    **{text.replace(b"=", b""): b"x" for text in COMMANDS},
    b"NCCL_ALGO": ALL,
}


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CTarget]:
    """A worker whose title, program, folder and variables are full of such text."""
    names = [text.replace(b"/", b"")[:60] for text in COMMANDS]
    folder = os.path.join(os.fsencode(tmp_path_factory.mktemp("evil")), *names)
    os.makedirs(folder)
    program = os.path.join(folder, b"\x1b[7m\r\n::error::[red]\xff")
    shutil.copy(build("target"), os.fsdecode(program))
    with CTarget(
        os.fsdecode(program),
        env=EVIL,
        argv0=os.fsdecode(b"\x1b[31m[red]\r::error::\xff" + ALL),
        before_exec=lambda: os.chdir(folder),
    ) as target:
        yield target


@pytest.fixture(scope="module")
def plain() -> Iterator[CTarget]:
    """A peer of it, so that their differences are told."""
    with CTarget(build("target"), env={"NCCL_ALGO": "Ring"}, argv0="plain") as target:
        yield target


def arguments(evil: CTarget, plain: CTarget, *more: str) -> list[str]:
    title = Path(f"/proc/{evil.pid}/cmdline").read_bytes().partition(b"\0")[0]
    pattern = "".join(f"[{one}]" if one in "*?[" else one for one in os.fsdecode(title))
    assert title.endswith(ALL)
    return [f"--match={pattern}", "--match=plain", "--expect=NCCL_ALGO=Ring", "--var=*", *more]


def said(*command: str) -> bytes:
    done = subprocess.run(
        [*script(), "workers", *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(),
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, b"")
    return done.stdout


def invisible(text: str) -> set[str]:
    """Return the characters that move the cursor, hide, combine or reorder."""
    kinds = ("Cc", "Cf", "Cs", "Co", "Cn", "Mn")
    return {one for one in text if unicodedata.category(one) in kinds}


def harmless(text: str) -> None:
    """Check that lines can do nothing to a terminal or to a CI system that logs them."""
    assert invisible(text) == {"\n"}
    assert not re.search(r"(?m)^[^\S\n]*::", text), "GitHub's runner obeys such a line"
    assert not re.search(r"##\w*\[", text), "and this anywhere in it, as others do"


def test_text_does_nothing(evil: CTarget, plain: CTarget) -> None:
    for more in ((), ("--show-all",), ("--show-all", "--unmask")):
        text = said(*arguments(evil, plain, *more)).decode("utf-8", "strict")
        harmless(text)
        assert text.startswith("FAILS")
        assert f"(PID {evil.pid})" in text
        assert "\\x1b[31m" in text, "it is shown, escaped"
        assert "[bold red]x[/]" in text, "markup is text"


def test_text_on_a_terminal_has_no_escapes_but_our_own(evil: CTarget, plain: CTarget) -> None:
    outer, inner = pty.openpty()
    tty.setraw(inner)  # else the terminal itself adds carriage returns
    command = [*script(), "workers", *arguments(evil, plain, "--show-all")]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=inner,
        stderr=inner,
        env=environment(TERM="xterm-256color"),
    )
    os.close(inner)
    chunks = []
    with contextlib.suppress(OSError):  # EIO: the other end has been closed
        while chunk := os.read(outer, 1 << 16):
            chunks.append(chunk)
    os.close(outer)
    assert process.wait(LIMIT_S) == 1
    text = b"".join(chunks).decode("utf-8", "strict")
    assert "\x1b[1;31mFAILS\x1b[0m" in text
    harmless(re.sub(r"\x1b\[(?:1;3[1236]|1|0)m", "", text))


def test_json_is_valid_and_gives_every_byte_back(evil: CTarget, plain: CTarget) -> None:
    raw = said(*arguments(evil, plain, "--format=json"))
    assert raw.isascii()
    assert b"##" not in raw
    document = json.loads(raw)
    jsonschema.validate(document, tables.load("report.schema"))
    run = Run(1, raw.decode(), "")
    assert run.pids("env-wrong-value", "NCCL_ALGO") == {evil.pid}
    assert run.text(evil.pid, "NCCL_ALGO") == os.fsdecode(ALL)
    for number, text in enumerate(COMMANDS):
        assert run.text(evil.pid, f"NCCL_{number}") == os.fsdecode(text)
    process = run.process(evil.pid)
    for field in ("command", "exe", "cwd", "comm"):
        assert invisible(process[field]) == set()
        assert "\\x1b" in process[field]
    for finding in run.findings():
        for sentence in (finding["message"], finding["remedy"], *finding["evidence"]):
            assert invisible(sentence) == set()


def test_what_is_said_of_the_command_line_is_harmless_too() -> None:
    """The patterns and names that a script passes on may come from a target."""
    wrong = dict.fromkeys(("--expect", "--config", "--container", "--pid", "--output"), 2)
    for option, code in {**wrong, "--match": 3, "--cgroup": 4}.items():
        done = subprocess.run(
            [sys.executable, "-I", "-m", "envprobe", "workers", f"{option}=".encode() + ALL],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment(),
            timeout=LIMIT_S,
            check=False,
        )
        assert (done.returncode, done.stdout) == (code, b"")
        harmless(done.stderr.decode("utf-8", "strict"))
