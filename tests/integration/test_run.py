"""`envprobe run`: the command is as if nothing stood before it, and its workers are reported."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.programs.actions import Action, leave
from tests.programs.cbuild import build
from tests.programs.cli import Run
from tests.programs.envprobe_cli import environment, envprobe, script
from tests.programs.trees import TitledTree

PLAIN = Path(__file__).parents[1] / "programs" / "plain.py"
SECONDS = 30
BOTH = ("--wait=2", "--wait=detokenizer=1")
NOBODY_COMES = ("--wait=9", "--timeout=600")


def plain(*signals: str, code: int = 0) -> list[str]:
    return [sys.executable, "-I", str(PLAIN), *signals, str(code)]


class Running:
    """A running `envprobe run`, whose command speaks on the descriptor `out`."""

    def __init__(self, process: subprocess.Popen[bytes], out: int) -> None:
        self.process = process
        self._out = out
        self._unread = b""

    def line(self) -> str:
        """Return the next line of the command."""
        limit = time.monotonic() + SECONDS
        while b"\n" not in self._unread:
            assert select.select([self._out], [], [], max(limit - time.monotonic(), 0))[0]
            chunk = os.read(self._out, 4096)
            assert chunk, f"it ended: {self._unread!r}"
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode().strip()

    def facts(self) -> Any:
        """Return what the command said it was started with; it is ready for signals then."""
        facts = json.loads(self.line())
        assert self.line() == "ready"
        return facts

    def end(self) -> tuple[int, str]:
        """Let the command end; return the exit code, and what was written to stderr."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.stdin = None
        _, errors = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, (errors or b"").decode()


@contextlib.contextmanager
def running(*arguments: str, **more: Any) -> Iterator[Running]:
    process = subprocess.Popen(
        [*script(), "run", *arguments],
        **{
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "env": environment(),
            "cwd": "/",
            **more,
        },
    )
    try:
        yield Running(process, process.stdout.fileno() if process.stdout else -1)
    finally:
        below: list[psutil.Process] = []
        if process.poll() is None:
            below = psutil.Process(process.pid).children(recursive=True)
            process.kill()
        for one in below:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        process.communicate()


def reporters(process: subprocess.Popen[bytes], command: int) -> list[psutil.Process]:
    return [one for one in psutil.Process(process.pid).children() if one.pid != command]


def until(holds: Callable[[], bool], what: str) -> None:
    limit = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < limit, what
        time.sleep(0.005)


# --- the command is as if nothing stood before it ------------------------------------------------


def test_the_command_gets_all_that_envprobe_got(tmp_path: Path) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    hook = "import os; os.environ['FROM_THE_HOOK'] = '1'; os.environ.pop('NCCL_ALGO', None)"
    (hooks / "sitecustomize.py").write_text(hook, encoding="ascii")
    given = {
        **{os.fsencode(name): os.fsencode(value) for name, value in environment().items()},
        b"NCCL_ALGO": b"Ring",
        b"NOT_UTF8": b"\xff\n",
        b"PYTHONPATH": os.fsencode(hooks),
    }
    arguments = (*NOBODY_COMES, "--", *plain(code=7))
    with running(*arguments, env=given, cwd=tmp_path, start_new_session=True) as run:
        facts = run.facts()
        (reporter,) = reporters(run.process, facts["pid"])
        code, errors = run.end()
        until(lambda: not reporter.is_running(), "the reporter has not ended")
    entries = bytes.fromhex(facts["environment"]).split(b"\0")[:-1]
    assert dict(entry.split(b"=", 1) for entry in entries) == given
    own = run.process.pid
    assert (facts["parent"], facts["group"], facts["session"]) == (own, own, own)
    assert facts["cwd"] == str(tmp_path)
    assert (int(facts["blocked"], 16), facts["descriptors"]) == (0, [0, 1, 2])
    assert code == 7
    assert "envprobe: the command ended before its workers were there" in errors


@pytest.mark.parametrize("words", [("exit 0", 0), ("exit 77", 77), ("kill -KILL $$", 137)])
def test_the_exit_code_is_that_of_the_command(words: tuple[str, int]) -> None:
    ran = envprobe("run", *NOBODY_COMES, "--", "sh", "-c", f"echo out; echo err >&2; {words[0]}")
    assert (ran.returncode, ran.stdout) == (words[1], "out\n")
    assert "err\n" in ran.stderr
    assert "the command ended before its workers were there" in ran.stderr


def test_signals_are_passed_on_once() -> None:
    names = ("SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGWINCH")
    with running(*NOBODY_COMES, "--", *plain(*names)) as run:
        run.facts()
        for name in names:
            run.process.send_signal(getattr(signal, name))
            assert run.line() == name
        assert run.end()[0] == 0
        assert run.process.stdout is not None
        assert run._unread == b""


def test_a_signal_that_ends_the_command_is_its_exit_code() -> None:
    with running(*NOBODY_COMES, "--", *plain()) as run:
        run.facts()
        run.process.terminate()
        # Its standard input is still open: nothing else ends it.
        assert run.process.wait(SECONDS) == 128 + signal.SIGTERM


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    with running(
        *NOBODY_COMES,
        "--",
        *plain(),
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    ) as run:
        assert run.facts()["hangup_ignored"] is True
        run.process.send_signal(signal.SIGHUP)
        assert run.end()[0] == 0


def test_what_the_terminal_sends_reaches_the_command_once() -> None:
    """Both are in the foreground group, so that a signal passed on as well would be a second."""
    pid, terminal = pty.fork()
    if not pid:
        words = [*script(), "run", *NOBODY_COMES, "--", *plain("SIGINT", "SIGUSR1", code=5)]
        os.execve(words[0], words, environment())
    run = Running(subprocess.Popen(["true"]), terminal)
    try:
        heard: list[str] = []

        def hear(word: str) -> None:
            """Wait for a word; lines of progress come over the same terminal."""
            while not heard or word not in heard[-1]:
                heard.append(run.line())

        hear("ready")
        os.write(terminal, b"\x03")
        hear("SIGINT")
        os.kill(pid, signal.SIGUSR1)
        hear("SIGUSR1")
        os.write(terminal, b"\x04")
        with contextlib.suppress(OSError, AssertionError):  # EIO: nobody has it open any more
            while True:
                heard.append(run.line())
        counts = [sum(name in one for one in heard) for name in ("SIGINT", "SIGUSR1")]
        assert (os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), counts) == (5, [1, 1])
    finally:
        run.process.wait()
        os.close(terminal)


def test_the_command_outlives_the_reporter() -> None:
    with running(*NOBODY_COMES, "--", *plain("SIGUSR1", code=3)) as run:
        facts = run.facts()
        (reporter,) = reporters(run.process, facts["pid"])
        reporter.kill()
        until(lambda: not reporter.is_running(), "the reporter has not been collected")
        run.process.send_signal(signal.SIGUSR1)
        assert run.line() == "SIGUSR1"
        assert run.end()[0] == 3


# --- the report ----------------------------------------------------------------------------------


def tree(*arguments: str, env: dict[str, str] | None = None) -> TitledTree:
    """Return a tree of two workers whose root is started by `envprobe run`."""
    wrapper = Action(wrapper=[*script(), "run", *BOTH, *arguments, "--"])
    return TitledTree(
        workers=2, env={"NCCL_ALGO": "Ring", **(env or {})}, actions={"root": wrapper}
    )


def report(path: Path) -> Run:
    """Return the report once it is there: it replaces nothing, and is complete when it is there."""
    until(path.exists, "no report came")
    text = path.read_text(encoding="utf-8")
    return Run(json.loads(text)["verdict"]["exit"], text, "")


def said(tree: TitledTree) -> str:
    tree._errors.seek(0)
    return str(tree._errors.read().decode())


def test_the_workers_are_reported_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    with tree("--expect=NCCL_ALGO=Ring", "-o", f"json={path}") as server:
        run = report(path)
        assert (run.code, run.loud(server.reports)) == (0, [])
        assert run.workers() == set(server.workers())
        assert run.process(server.pid("root"))["edge"]["parent"] is None
        assert psutil.Process(server.pid("root")).ppid() == server.root
        until(lambda: "the report is written: all that" in said(server), "nothing was said")


def test_a_finding_does_not_end_the_server() -> None:
    with tree("--expect=NCCL_ALGO=Tree") as server:
        until(lambda: "(exit 1)" in said(server), "no report came")
        # The report is on stderr: the tree's own lines are on stdout, which `TitledTree` parses.
        assert "error  env-wrong-value (EP004" in said(server)
        assert f"PID {server.worker(0)}" in said(server)
        server.tell(server.worker(1), ["py_set", "NCCL_ALGO", "Tree"])
        assert server.truth[server.worker(1)]["NCCL_ALGO"] == "Tree"
        server.tell(server.pid("root"), leave(9), wait=False)
        assert server._root.wait(SECONDS) == 9


def test_memory_is_lent_where_only_an_ancestor_may_open_it(tmp_path: Path) -> None:
    """A shim refuses as Yama's scope 1 does: only an ancestor may open the memory of a process."""
    shim = build("yama", "-shared", "-fPIC", "-ldl")
    path = tmp_path / "report.json"
    options = ("--expect=NCCL_ALGO=Ring", "--patch=json:dumps=json")
    with tree(*options, "-o", f"json={path}", env={"LD_PRELOAD": str(shim)}) as server:
        run = report(path)
        beside = envprobe(
            "workers",
            f"--pid={server.pid('root')}",
            "--format=json",
            *options,
            env=environment(LD_PRELOAD=str(shim)),
        )
        refused = Run(beside.returncode, beside.stdout, beside.stderr)
        assert refused.code == 3
        assert refused.pids("worker-unreadable") == set(server.workers())
        assert run.workers() == set(server.workers())
        for pid in server.workers():
            assert run.text(pid, "NCCL_ALGO") == "Ring"
        assert not run.findings("worker-unreadable")
        assert (run.code, run.loud(server.reports)) == (0, [])


# --- what is refused before anything is started --------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing says how many workers the command will have"),
        (("--wait=0x",), "--wait"),
        (("--wait=1", "--timeout=0"), "--timeout takes a number of seconds above 0"),
        (("--wait=1", "--config=/nonexistent.toml"), "/nonexistent.toml"),
        (("--wait=1", "-o", "json=/nonexistent/report.json"), "/nonexistent/report.json"),
        (("--wait=1", "--patch=nothing"), "--patch"),
        (("--wait=1", "-o", "json=/dev/stdout"), "/dev/stdout is the standard output of"),
        (("--wait=1", "--save-facts=/dev/fd/1"), "/dev/fd/1 is the standard output of"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else "",
)
def test_wrong_usage_starts_nothing(arguments: Sequence[str], message: str, tmp_path: Path) -> None:
    mark = tmp_path / "started"
    ran = envprobe("run", *arguments, "--", "touch", str(mark))
    assert (ran.returncode, ran.stdout, mark.exists()) == (2, "", False)
    assert message in " ".join(ran.stderr.split())
    assert ran.stderr.count("envprobe: ") == 1


def test_no_command() -> None:
    for words in ((), ("--",)):
        ran = envprobe("run", "--wait=1", *words)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr.startswith("envprobe: no command was given to run")


def test_a_command_that_cannot_be_executed(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.write_text("exit 0\n", encoding="ascii")
    cases = {"/nonexistent": "No such file", str(bare): "Permission denied", "": "Invalid argument"}
    path = tmp_path / "report.json"
    for command, reason in cases.items():
        ran = envprobe("run", "--wait=1", "-o", f"json={path}", "--", command)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert f"the command could not be executed: {reason}" in ran.stderr
        document = json.loads(path.read_text(encoding="utf-8"))
        assert reason in document["error"]["message"]
    bare.chmod(0o755)
    ran = envprobe("run", "--wait=1", "--", str(bare))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "Exec format error" in ran.stderr


def test_the_configuration_says_what_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "envprobe.toml").write_text("[expect.workers]\nscheduler = 2\n", encoding="ascii")
    command = ("--", "sh", "-c", "cat")
    ran = envprobe("run", "--timeout=0.1", *command, cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "")
    assert "waiting: 0 of 2 scheduler" in ran.stderr or "ended before" in ran.stderr
