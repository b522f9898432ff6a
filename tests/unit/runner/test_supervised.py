"""Running a command to its end: its answer, its bounds, its rights, and nothing left behind."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from envprobe.errors import UndeterminedError
from envprobe.runner.rights import Rights
from envprobe.runner.started import Bounds
from envprobe.runner.supervised import ANSWER, CONTROL, Command, Ended, run, running
from envprobe.runner.taskgroup import TaskGroup
from tests.programs.requirement import missing

BOUNDS = Bounds(seconds=20.0, output_bytes=1000, processes=20, grace_seconds=5.0)
NOBODY = 65534


def _python(code: str, bounds: Bounds = BOUNDS, **more: object) -> Ended:
    words = (sys.executable, "-I", "-S", "-c", code)
    given = {"environment": {"GIVEN": "1"}, **more}
    return run(Command(sys.executable, words, **given), bounds)  # type: ignore[arg-type]


def test_output_answer_and_code_are_kept_apart() -> None:
    ended = _python(
        f"import os, sys; os.write({ANSWER}, b'answer'); print('out'); sys.exit(print('err', "
        "file=sys.stderr) or 7)"
    )
    assert (ended.stdout, ended.stderr, ended.answer) == (b"out\n", b"err\n", b"answer")
    assert (ended.code, ended.stopped, ended.cut) == (7, "", False)


def test_the_environment_is_exactly_what_was_given(tmp_path: Path) -> None:
    ended = _python(
        "import os, sys; print(sorted(os.environ.items()), os.getcwd(), sys.stdin.read() == '')",
        cwd=str(tmp_path),
        environment={"A": "\udcff", "LC_ALL": "C.UTF-8"},
    )
    expected = f"[('A', '\\udcff'), ('LC_ALL', 'C.UTF-8')] {tmp_path} True\n"
    assert ended.stdout.decode() == expected


def test_signals_have_their_usual_meaning() -> None:
    ended = _python(
        "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, ()),"
        " signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN)"
    )
    assert ended.stdout == b"set() True\n"  # Python itself ignores SIGPIPE


def test_output_beyond_the_bound_is_dropped_and_the_command_ends_by_itself() -> None:
    ended = _python("print('x' * 1_000_000); import os; os.write(2, b'end')")
    assert (len(ended.stdout), ended.cut, ended.code) == (1000, True, 0)
    assert ended.stderr == b"end"


def test_time_is_bounded() -> None:
    before = time.monotonic()
    ended = _python("import time; time.sleep(600)", Bounds(seconds=0.5, grace_seconds=5.0))
    assert (ended.stopped, ended.code) == ("time", -9)
    assert time.monotonic() - before < 60


def test_what_outlives_the_command_is_ended_wherever_it_went(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    ended = _python(
        "import os, subprocess, sys\n"
        "for new in (False, True):\n"
        "    p = subprocess.Popen([sys.executable, '-I', '-S', '-c', 'import time;"
        " time.sleep(600)'], start_new_session=new, stdout=subprocess.DEVNULL)\n"
        f"    print(p.pid, file=open({str(file)!r}, 'a'))\n"
    )
    assert (ended.code, ended.stopped) == (0, "")
    assert len(ended.left) == 2
    for pid in file.read_text().split():
        assert not os.path.exists(f"/proc/{pid}")


def test_a_fork_bomb_is_ended_before_the_machine_is_full() -> None:
    group = TaskGroup.make(10)
    if group is None and os.geteuid() == 0:
        missing("pids-cgroup", "no control group can be made here, and nothing else binds root")
    if group is not None:
        group.remove()
    first = _newest()
    ended = _python("import os\nwhile True:\n    os.fork()\n")
    assert ended.stopped == "processes"
    assert ended.code != 0
    assert (_newest() - first) % 32768 < 3000


def _newest() -> int:
    """Return the number of the process that was started last (proc_loadavg(5))."""
    return int(Path("/proc/loadavg").read_text().split()[-1])


def test_a_group_refuses_tasks_beyond_its_bound_and_goes_away() -> None:
    group = TaskGroup.make(3)
    if group is None:
        missing("pids-cgroup", "no control group can be made here")
    child = os.fork()
    if not child:
        os._exit(_forks_until_refused(group))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert group.was_full()
    group.remove()
    assert not os.path.exists(group.directory)


def _forks_until_refused(group: TaskGroup) -> int:
    """Return how many children the group allowed beside this process, at most 9; they are ended."""
    group.enter()
    children: list[int] = []
    try:
        while len(children) < 9:
            if not (child := os.fork()):
                signal.pause()
                os._exit(0)
            children.append(child)
    except BlockingIOError:
        pass
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return len(children)


def test_a_descriptor_that_stays_open_elsewhere_is_not_waited_for() -> None:
    before = time.monotonic()
    ended = _python(
        f"import socket\na, b = socket.socketpair()\nsocket.send_fds(a, [b'x'], [{ANSWER}])\n"
    )
    assert ended.code == 0
    assert time.monotonic() - before < 60


def test_what_cannot_be_executed_says_why() -> None:
    for path, said in (("/nothing", "No such file"), ("/etc/passwd", "Permission denied")):
        with pytest.raises(UndeterminedError, match=said):
            run(Command(path, ("x",), {}), BOUNDS)
    with pytest.raises(UndeterminedError, match="No such file"):
        _python("pass", cwd="/nothing")


def test_rights_are_taken_on_before_the_command_runs() -> None:
    if os.geteuid() != 0:
        missing("root", "only root can become another user")
    code = (
        "import os; print(os.getresuid(), os.getresgid(), os.getgroups());"
        "lines = open('/proc/self/status');"
        "print([line for line in lines if line.startswith(('CapEff', 'NoNew'))])"
    )
    words = ("python3", "-I", "-S", "-c", code)
    rights = Rights(NOBODY, NOBODY, (NOBODY,))
    ended = run(Command("/usr/bin/python3", words, {}, rights=rights), BOUNDS)
    ids, capabilities = ended.stdout.decode().splitlines()
    assert ids == f"({NOBODY}, {NOBODY}, {NOBODY}) ({NOBODY}, {NOBODY}, {NOBODY}) [{NOBODY}]"
    assert "CapEff:\\t0000000000000000" in capabilities
    assert "NoNewPrivs:\\t1" in capabilities


# --- while it runs

ECHO = (
    f"import os\nos.write({ANSWER}, b'ready\\n')\nheard = os.read({CONTROL}, 100)\n"
    f"os.write({ANSWER}, b'heard ' + heard)\nassert os.read({CONTROL}, 100) == b''\n"
)


def _command(code: str) -> Command:
    words = (sys.executable, "-I", "-S", "-c", code)
    return Command(sys.executable, words, {}, told=True)


def test_a_running_command_is_told_and_answers() -> None:
    with running(_command(ECHO), BOUNDS) as command:
        assert command.read_line() == b"ready"
        assert Path(f"/proc/{command.pid}/cmdline").read_bytes().split(b"\0")[4] == ECHO.encode()
        assert command.tell(b"this\n")
        assert command.read_line() == b"heard this"
        ended = command.end()
    assert (ended.code, ended.stopped, ended.answer) == (0, "", b"ready\nheard this\n")


def test_a_command_that_is_left_is_ended() -> None:
    with running(_command(ECHO), BOUNDS) as command:
        pid = command.pid
    assert not os.path.exists(f"/proc/{pid}")


def test_no_line_comes_from_a_command_that_has_ended() -> None:
    with running(_command("raise SystemExit(3)"), BOUNDS) as command:
        assert command.read_line() is None
        assert not command.tell(b"x" * (1 << 20))
        assert command.end().code == 3


def test_no_line_comes_when_the_time_is_up() -> None:
    with running(_command(f"import os\nos.write({ANSWER}, b'a\\nb\\n')\n"), BOUNDS) as command:
        assert command.read_line() == b"a"
        command._lines_until = time.monotonic() - 1
        assert command.read_line() is None
        assert command.end().answer == b"a\nb\n"


def test_a_running_command_that_cannot_be_executed_says_why() -> None:
    with (
        running(Command("/nothing", ("x",), {}, told=True), BOUNDS) as command,
        pytest.raises(UndeterminedError, match="No such file"),
    ):
        command.end()


def test_memory_of_all_processes_together_is_bounded() -> None:
    bounds = Bounds(seconds=60.0, memory_bytes=64 << 20)
    code = "import signal\nheld = bytearray(40 << 20)\nsignal.alarm(60)\nsignal.pause()\n"
    alone = f"import os\nos.fork()\n{code}"
    ended = _python(alone, bounds)
    assert (ended.stopped, ended.code) == ("memory", -9)
