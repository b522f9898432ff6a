"""How a run ends when it cannot do what was asked: one message, one remedy, one exit code."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from envprobe import configfile, demo, isolation, tables
from envprobe.process import roletable
from envprobe.report import matrix
from tests.programs.envprobe_cli import SECONDS, environment, envprobe, parsed, script
from tests.programs.requirement import missing


@pytest.fixture(scope="module")
def tree() -> Iterator[demo.Tree]:
    with demo.tree() as running:
        yield running


@pytest.mark.parametrize(
    ("arguments", "code", "message", "remedy"),
    [
        ((), 2, "no command was given", "--help"),
        (("wrokers",), 2, "No such command 'wrokers'", "--help"),
        (("workers", "--foo"), 2, "No such option", "envprobe workers --help"),
        (("workers", "--pid", "x"), 2, "Invalid value for '--pid'", "envprobe workers --help"),
        (("workers", "--format", "xml"), 2, "Invalid value for '--format'", "--help"),
        (("workers", "--pid", "1", "--cgroup", "/x"), 2, "exclude each other", "one of the three"),
        (("workers", "--pid", "-5"), 2, "-5 is no process number", "between 1 and"),
        (("workers", "--pid", "0"), 4, "PID 0 is no process", "systemctl status"),
        (("workers", "--pid", "4194303"), 4, "there is no process 4194303", "pgrep"),
        (("workers", "--from-facts", "f", "--pid", "1"), 2, "cannot be used with --pid", "Leave"),
        (("workers", "--from-facts", "/none"), 2, "/none", ""),
        (("workers", "-o", "xml=/tmp/x"), 2, "-o takes FORMAT=PATH", "json=report.json"),
        (("workers", "-o", "json="), 2, "-o takes FORMAT=PATH", "json=report.json"),
        (("workers", "-o", "json=/a", "-o", "text=/a"), 2, "-o names /a twice", "its own file"),
        (("workers", "--deadline", "0"), 2, "--deadline takes a number of seconds", "10"),
        (
            ("workers", "--wait=1", "--timeout", "nan"),
            2,
            "--timeout takes a number of seconds",
            "10",
        ),
        (("workers", "--wait", "many"), 2, "--wait takes [ROLE=]N", "scheduler=8"),
        (("workers", "--wait", "schedler=8"), 2, "no role 'schedler'", "'scheduler'"),
        (("workers", "--expect", "!A=1"), 2, "takes no value", "NAME=VALUE"),
        (("workers", "--allow-unknown", "no-worker"), 2, "no check 'no-worker'", "no-workers"),
        (("workers", "--config", "/none.toml"), 2, "/none.toml", "existing file"),
        (("workers", "--timeout", "5"), 2, "there is no --wait", "--wait scheduler=8"),
        (("workers", "--pid=1", "--pid=2"), 2, "--pid is given twice", "--help"),
        (("workers", "--format=json", "--format=text"), 2, "--format is given twice", "--help"),
        (("inspect", "--pid=1", "--pid", "1"), 2, "--pid is given twice", "--help"),
        (("workers", "--match", ""), 2, "--match is empty", "leave --match out"),
        (("workers", "--var", ""), 2, "--var is empty", "leave --var out"),
        (("workers", "--cgroup", ""), 2, "--cgroup is empty", "leave --cgroup out"),
        (("workers", "--save-facts", ""), 2, "--save-facts is empty", "leave --save-facts out"),
        (("workers", "--save-facts", "-"), 2, "--save-facts - names no file", "/dev/stdout"),
        (("workers", "-o", "text=-"), 2, "-o text=- names no file", "-o text=/dev/stdout"),
        (("workers", "--allow-unknown", "EP003"), 2, "env-missing: this check always", "[ignore]"),
        (("explain", "EP999"), 2, "there is no check 'EP999'", "Did you mean 'EP"),
        (("explain",), 2, "Missing argument", "envprobe explain --help"),
    ],
)
def test_every_error_is_one_message_with_a_remedy(
    arguments: tuple[str, ...], code: int, message: str, remedy: str
) -> None:
    run = envprobe(*arguments)
    first, *rest = run.stderr.splitlines()
    assert (run.returncode, run.stdout) == (code, "")
    assert first.startswith("envprobe: ")
    assert message in first
    assert remedy in " ".join(rest)
    assert all(line.startswith("  ") for line in rest)


def test_a_value_given_wrongly_is_not_repeated() -> None:
    run = envprobe("workers", "--expect", "HF_TOKEN~=topsecret:other")
    assert run.returncode == 2
    assert "HF_TOKEN" in run.stderr
    assert "topsecret" not in run.stderr


# --- report files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["-o", "--save-facts"])
def test_a_file_that_cannot_be_written_ends_the_run_before_the_scan(
    option: str, tmp_path: Path
) -> None:
    for path in (tmp_path / "none" / "x", tmp_path, "/proc/nothing"):
        given = f"json={path}" if option == "-o" else str(path)
        # With a scan this would be exit code 4: there is no such process.
        run = envprobe("workers", "--pid", "4194303", option, given)
        assert (run.returncode, run.stdout) == (2, "")
        assert f"envprobe: {path} cannot be written: " in run.stderr


def test_one_scan_gives_every_report_that_was_asked_for(tree: demo.Tree, tmp_path: Path) -> None:
    paths = {kind: tmp_path / f"report.{kind}" for kind in ("json", "text")}
    outputs = [f"-o{kind}={path}" for kind, path in paths.items()]
    run = envprobe("workers", "--pid", str(tree.pid), "--format=json", *outputs)
    assert json.loads(paths["json"].read_text()) == parsed(run)
    assert paths["text"].read_text().startswith("FAILS: ")
    assert sorted(tmp_path.iterdir()) == sorted(paths.values())


def test_a_planted_link_is_replaced_and_not_followed(tree: demo.Tree, tmp_path: Path) -> None:
    victim, link = tmp_path / "victim", tmp_path / "report.json"
    victim.write_text("precious")
    link.symlink_to(victim)
    run = envprobe("workers", "--pid", str(tree.pid), f"-ojson={link}")
    assert run.returncode == 1
    assert victim.read_text() == "precious"
    assert not link.is_symlink()
    assert json.loads(link.read_text())["verdict"]["exit"] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--pid", "4194303"), 4, "there is no process 4194303"),
        (("--pid", "1", "--config", "/none.toml"), 2, "/none.toml: there is no such file"),
        (("--pid", "1", "--timeout", "5"), 2, "there is no --wait"),
        (("--match", "no such process anywhere", "--cgroup", ""), 2, "--cgroup is empty"),
    ],
)
def test_a_failed_run_leaves_no_old_report_that_looks_current(
    arguments: tuple[str, ...], code: int, message: str, tmp_path: Path
) -> None:
    paths = {kind: tmp_path / f"report.{kind}" for kind in ("json", "text")}
    for path in paths.values():
        path.write_text("HOLDS: the report of yesterday")
    outputs = [f"-o{kind}={path}" for kind, path in paths.items()]
    run = envprobe("workers", "--format=json", *arguments, *outputs)
    assert run.returncode == code
    assert run.stderr.startswith(f"envprobe: {message}") or message in run.stderr
    found = parsed(run)
    jsonschema.validate(found, tables.load("report.schema"))
    assert found["verdict"]["exit"] == code
    assert message in found["error"]["message"]
    assert json.loads(paths["json"].read_text()) == found
    (line,) = paths["text"].read_text().splitlines()
    assert line.startswith("NO REPORT: ")
    assert f"{message}" in line
    assert f"(exit {code})" in line
    assert sorted(tmp_path.iterdir()) == sorted(paths.values())


def test_a_report_that_was_written_is_not_replaced_by_a_later_error(
    tree: demo.Tree, tmp_path: Path
) -> None:
    good = tmp_path / "report.json"
    run = envprobe("workers", "--pid", str(tree.pid), f"-ojson={good}", "-otext=/dev/full")
    assert run.returncode == 2
    assert "/dev/full cannot be written" in run.stderr
    assert json.loads(good.read_text())["verdict"]["exit"] == 1


def test_a_fifo_of_facts_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    run = envprobe("workers", f"--from-facts={tmp_path / 'fifo'}")
    assert (run.returncode, run.stdout) == (2, "")
    assert f"{tmp_path / 'fifo'} is no regular file" in run.stderr


def test_what_saved_facts_do_not_hold_is_said(tree: demo.Tree, tmp_path: Path) -> None:
    facts = tmp_path / "facts.json"
    envprobe("workers", "--pid", str(tree.pid), f"--save-facts={facts}")
    run = envprobe("workers", f"--from-facts={facts}", "--var=PATH", "--var=NCCL_*")
    assert run.stdout.startswith("FAILS: ")
    assert run.stderr == (
        f"note: --var PATH: {facts} does not hold the value of a variable; scan again with --var"
        " PATH and --save-facts to have them read\n"
    )
    envprobe("workers", "--pid", str(tree.pid), f"--save-facts={facts}", "--var=PATH")
    assert envprobe("workers", f"--from-facts={facts}", "--var=PATH").stderr == ""


def test_a_device_is_written_in_place(tree: demo.Tree) -> None:
    run = envprobe("workers", "--pid", str(tree.pid), "-ojson=/dev/null", "-otext=/dev/stdout")
    assert run.stdout.count("FAILS: ") == 4
    full = envprobe("workers", "--pid", str(tree.pid), "-ojson=/dev/full")
    assert full.returncode == 2
    assert "envprobe: /dev/full cannot be written: No space left on device" in full.stderr


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/./stdout"])
def test_a_name_of_stdout_is_never_replaced(path: str, tmp_path: Path) -> None:
    """Where stdout is a regular file, such a name looks like one; as root it could be replaced."""
    code = (
        "import os, sys; from envprobe.cli_output import Destination;"
        "one = Destination(sys.argv[1]); assert os.path.islink('/dev/stdout');"
        "assert not [name for name in os.listdir('/dev') if name.endswith('.tmp')];"
        "one.write('the report'); one.close()"
    )
    with (tmp_path / "out").open("w") as out:
        subprocess.run([sys.executable, "-c", code, path], stdout=out, check=True, timeout=30)
    assert (tmp_path / "out").read_text() == "the report"


def test_unmasked_reports_and_facts_are_for_their_owner_alone(
    tree: demo.Tree, tmp_path: Path
) -> None:
    report, facts, masked = (tmp_path / name for name in ("r", "f", "m"))
    envprobe(
        "workers", "--pid", str(tree.pid), "--unmask", f"-ojson={report}", f"--save-facts={facts}"
    )
    envprobe("workers", "--pid", str(tree.pid), f"-ojson={masked}")
    assert [path.stat().st_mode & 0o077 for path in (report, facts)] == [0, 0]
    assert masked.stat().st_mode & 0o044


def test_saved_facts_are_judged_as_the_live_tree_was(tree: demo.Tree, tmp_path: Path) -> None:
    facts = tmp_path / "facts.json"
    live = envprobe(
        "workers", "--pid", str(tree.pid), "--format=json", f"--save-facts={facts}", "--expect=X"
    )
    saved = envprobe("workers", f"--from-facts={facts}", "--format=json", "--expect=X")
    assert parsed(live) == parsed(saved)
    assert live.returncode == saved.returncode == 1
    both = parsed(envprobe("workers", *[f"--from-facts={facts}"] * 2, "--format=json"))
    assert len(both["scans"]) == 2


# --- verdict and exit code ------------------------------------------------------------------------


def test_exit_zero_only_reports(tree: demo.Tree) -> None:
    run = envprobe("workers", "--pid", str(tree.pid), "--format=json", "--exit-zero")
    assert run.returncode == 0
    assert parsed(run)["verdict"]["exit"] == 1
    assert parsed(run)["verdict"]["exit_zero"] is True
    told = envprobe("workers", "--pid", str(tree.pid), "--exit-zero")
    assert told.returncode == 0
    assert "(exit 0 by --exit-zero, would be 1)" in " ".join(told.stdout.split())


def test_an_error_is_no_verdict_that_exit_zero_could_lift() -> None:
    run = envprobe("workers", "--pid", "4194303", "--exit-zero", "--format=json")
    assert (run.returncode, parsed(run)["verdict"]["exit"]) == (4, 4)


def test_nothing_but_the_report_is_on_stdout(tree: demo.Tree) -> None:
    run = envprobe("workers", "--pid", str(tree.pid), "--wait", "4", "--format=json")
    assert parsed(run)["verdict"]["exit"] == run.returncode == 1
    assert "Traceback" not in run.stderr


# --- waiting --------------------------------------------------------------------------------------


def test_fewer_workers_at_the_timeout_are_a_finding(tree: demo.Tree) -> None:
    run = envprobe(
        "workers", "--pid", str(tree.pid), "--wait=scheduler=6", "--timeout=0.5", "--format=json"
    )
    found = parsed(run)
    (finding,) = [one for one in found["scans"][0]["findings"] if one["check"] == "workers-missing"]
    assert (run.returncode, finding["severity"]) == (1, "error")
    assert sorted(finding["pids"]) == sorted(tree.workers.values())
    assert "waiting: 4 of 6 scheduler" in run.stderr
    assert "\r" not in run.stderr


class Waiting:
    """A run that waits for workers that never come."""

    def __init__(self, pid: int) -> None:
        self.process = subprocess.Popen(
            [*script(), "workers", "--pid", str(pid), "--wait=99", "--timeout=60"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        assert self.process.stderr is not None
        assert self.process.stderr.readline().startswith("waiting: ")

    def __enter__(self) -> Waiting:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=SECONDS)

    def ended(self) -> tuple[int, str, str]:
        """Return exit code, stdout and what else came on stderr."""
        out, err = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, out, err


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_signal_ends_it_at_once_and_without_a_word(
    tree: demo.Tree, number: signal.Signals, code: int
) -> None:
    with Waiting(tree.pid) as waiting:
        waiting.process.send_signal(number)
        assert waiting.ended() == (code, "", "")


def test_a_root_that_ends_while_it_is_waited_for_is_gone() -> None:
    with demo.tree() as tree:
        waiting = Waiting(tree.pid)
    with waiting:
        code, out, err = waiting.ended()
    assert (code, out) == (4, "")
    assert f"the server ended while it was waited for (process {tree.pid})" in err
    assert "Look in its log" in err


# --- stdout ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [("--help",), ("checks",), ("workers",)])
def test_a_closed_pipe_ends_it_without_a_word(tree: demo.Tree, arguments: tuple[str, ...]) -> None:
    if arguments == ("workers",):
        arguments = ("workers", "--pid", str(tree.pid))
    reader, writer = os.pipe()
    os.close(reader)
    run = subprocess.run(
        [*script(), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=SECONDS,
        env=environment(),
        check=False,
    )
    os.close(writer)
    assert (run.returncode, run.stderr) == (141, b"")


@pytest.mark.parametrize("closed", ["2>&-", "<&-", "<&- 2>&-"])
def test_descriptors_that_are_closed_change_no_verdict(tree: demo.Tree, closed: str) -> None:
    shell = ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *script()]
    run = envprobe("workers", "--pid", str(tree.pid), command=shell)
    assert run.returncode == 1
    assert run.stderr == ""
    assert run.stdout.startswith("FAILS: ")


@pytest.mark.parametrize("closed", [">&-", "<&- >&-"])
def test_a_report_that_nobody_can_get_is_no_verdict(
    tree: demo.Tree, closed: str, tmp_path: Path
) -> None:
    shell = ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *script()]
    path = tmp_path / "report.json"
    run = envprobe("workers", "--pid", str(tree.pid), f"-ojson={path}", command=shell)
    assert run.returncode == 2
    assert run.stderr.startswith("envprobe: stdout cannot be written: it is closed")
    assert json.loads(path.read_text())["verdict"]["exit"] == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("workers", "--pid", "abc"), 2), (("workers", "--pid", "4194303"), 4), (("demo",), 0)],
)
def test_a_full_stderr_changes_no_exit_code(arguments: tuple[str, ...], code: int) -> None:
    shell = ["/bin/sh", "-c", 'exec "$@" 2> /dev/full', "sh", *script()]
    run = envprobe(*arguments, command=shell)
    assert run.returncode == code
    assert bool(run.stdout) == (code == 0)


def test_too_few_open_files_are_a_limit_and_no_internal_error(tree: demo.Tree) -> None:
    shell = ["/bin/sh", "-c", 'ulimit -n 8 && exec "$@"', "sh", *script()]
    run = envprobe("workers", "--pid", str(tree.pid), command=shell)
    assert (run.returncode, run.stdout) == (3, "")
    assert "envprobe may open no more than 8 files" in run.stderr
    assert "ulimit -n 1024" in run.stderr


def test_a_full_disk_is_said() -> None:
    shell = ["/bin/sh", "-c", 'exec "$@" > /dev/full', "sh", *script()]
    run = envprobe("checks", command=shell)
    assert run.returncode == 2
    assert run.stderr.startswith("envprobe: stdout cannot be written: No space left on device")


def on_terminal(*arguments: str, **env: str) -> str:
    """Return what a run prints on a terminal of 90 columns."""
    try:
        pid, terminal = pty.fork()
    except OSError as error:
        missing("pty", f"no pseudo-terminal can be opened: {error}")
    if pid == 0:
        os.execve(script()[0], [script()[0], *arguments], environment(COLUMNS="90", **env))
    shown = b""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            shown += os.read(terminal, 65536)
        except OSError:
            # EIO: the last writer has closed the terminal.
            break
    os.close(terminal)
    os.waitpid(pid, 0)
    return shown.decode()


def test_colours_only_on_a_terminal_that_wants_them(tree: demo.Tree) -> None:
    arguments = ("workers", "--pid", str(tree.pid))
    colored = on_terminal(*arguments, TERM="xterm")
    assert "\x1b[1;31mFAILS\x1b[0m" in colored
    for env in ({"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in on_terminal(*arguments, **env)
    assert "\x1b" not in envprobe(*arguments, env=environment(TERM="xterm")).stdout


# --- interrupts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_signal_from_before_the_first_line_ends_it_in_the_second_interpreter(
    number: signal.Signals, code: int
) -> None:
    """It is held back over the exec, where no handler could take it, and not lost."""
    program = (
        "import os, signal, sys\n"
        f"signal.pthread_sigmask(signal.SIG_BLOCK, [{int(number)}])\n"
        f"os.kill(os.getpid(), {int(number)})\n"
        "os.execv(sys.argv[1], sys.argv[1:])\n"
    )
    run = envprobe("demo", command=[sys.executable, "-c", program, *script()])
    assert (run.returncode, run.stdout, run.stderr) == (code, "", "")


def test_an_interrupt_during_the_imports_is_no_traceback() -> None:
    program = (
        "import os, runpy, signal, sys\n"
        "from importlib import abc\n"
        "class Interrupting(abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'envprobe.cli':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "runpy.run_module('envprobe', run_name='__main__')\n"
    )
    option = f"{isolation.PATH_OPTION}=x"
    run = envprobe("checks", command=[sys.executable, "-X", option, "-c", program])
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "")


def test_an_ignored_interrupt_stays_ignored(tree: demo.Tree) -> None:
    shell = ["/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh", *script()]
    waiting = [*shell, "workers", "--pid", str(tree.pid), "--wait=99", "--timeout=1"]
    with subprocess.Popen(
        waiting, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("waiting: ")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert out.startswith("FAILS: ")


# --- help -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["", "workers", "explain", "checks", "demo"])
def test_help_has_an_example_and_the_exit_codes(command: str) -> None:
    run = envprobe(*([command] if command else []), "--help")
    assert (run.returncode, run.stderr) == (0, "")
    assert f"  envprobe {command or 'workers'}" in run.stdout
    assert re.search(r"Exit codes:\n +0 |Exits with 0", run.stdout)
    assert max(map(len, run.stdout.splitlines())) <= 100


def test_the_help_of_workers_says_all_that_its_report_and_options_need(tmp_path: Path) -> None:
    shown = envprobe("workers", "--help").stdout
    for mark, meaning in matrix.MEANINGS.items():
        assert re.search(rf"^ +{re.escape(mark)} +{re.escape(meaning)}$", shown, re.M), mark
    words = " ".join(shown.split())
    for role in {row.role for row in roletable.rows()}:
        assert role in words
    example = shown.partition("envprobe.toml, in")[2].partition("Exit codes:")[0]
    text = "\n".join(line.strip() for line in example.splitlines()[1:])
    path = tmp_path / "envprobe.toml"
    path.write_text(text)
    config = configfile.load(path, str, [row.role for row in roletable.rows()])
    assert (len(config.expectations), config.workers) == (3, {"scheduler": 8})
    assert "unless --unmask" in words


def test_every_option_of_workers_says_what_it_does() -> None:
    shown = envprobe("workers", "--help").stdout
    options = re.findall(r"^  (?:-., )?(--[a-z-]+)(?: [^ ]+)*?  +\S", shown, re.M)
    assert {"--pid", "--wait", "--from-facts", "--output", "--allow-unknown"} <= set(options)
    assert len(options) == len(re.findall(r"^  -", shown, re.M))
