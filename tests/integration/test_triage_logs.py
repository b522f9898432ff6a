"""Logs of real failures: the cause is named with its line, however the log was cut or wrapped.

What cannot be produced without a GPU (CUDA, NCCL between GPUs) is text of the projects' sources,
in test_triage_texts.py; here everything was printed by the program that failed.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest

from envprobe import tables
from tests.programs import interpreters, sglang_server
from tests.programs.envprobe_cli import environment, envprobe
from tests.programs.interpreters import Interpreter
from tests.programs.requirement import missing

SCHEMA = jsonschema.Draft202012Validator(tables.load("triage.schema"))
NCCL = Path(__file__).parents[1] / "data" / "nccl" / "gpu" / "logs.tar.gz"
UNGUARDED = """\
import multiprocessing

def work():
    pass

def launch():
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=work) for _ in range(NUMBER)]
    for child in children:
        child.start()
    for child in children:
        child.join()

launch()
"""
MAIN = 14
"""The line of UNGUARDED that starts everything."""


def triage(log: Path, *arguments: str) -> Any:
    """Run `envprobe triage` on a log and return the report, which is valid."""
    ran = envprobe("triage", str(log), "--format", "json", *arguments)
    found = json.loads(ran.stdout)
    SCHEMA.validate(found)
    assert ran.returncode == found["verdict"]["exit"], ran.stderr
    return found


def named(found: Any, check: str, *, line: int | None = None) -> Any:
    """Return the finding that names the cause: an error that gave exit code 1."""
    assert found["verdict"]["exit"] == 1, found["findings"]
    finding = found["findings"][0]
    assert (finding["check"], finding["severity"]) == (check, "error")
    assert found["cause"]["check"] == check
    if line is not None:
        assert found["cause"]["line"]["number"] == line
    return finding


def failing(command: list[str], **changes: str) -> bytes:
    """Return what a command that fails has printed, stdout and stderr as they came."""
    ran = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(**changes),
        timeout=120,
        check=False,
    )
    return ran.stdout


@pytest.fixture(params=interpreters.found(), ids=str)
def python(request: pytest.FixtureRequest) -> Interpreter:
    found: Interpreter = request.param
    return found


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], Path]:
    def written(text: bytes, name: str = "server.log") -> Path:
        path = tmp_path / name
        path.write_bytes(text)
        return path

    return written


# --- the spawn re-import crash -------------------------------------------------------------------


def _crash(python: str, folder: Path, number: int = 1) -> tuple[Path, bytes]:
    program = folder / "serve.py"
    program.write_text(UNGUARDED.replace("NUMBER", str(number)))
    return program, failing([python, str(program)])


def test_a_spawned_child_that_ran_main_again(
    python: Interpreter, tmp_path: Path, write: Callable[[bytes], Path]
) -> None:
    program, printed = _crash(python.path, tmp_path)
    found = triage(write(printed))
    finding = named(found, "start-reimports-main")
    assert finding["id"] == "EP601"
    assert finding["confidence"] == "proved"
    assert f"{program}:{MAIN} in <module>" in finding["message"]
    assert found["cause"]["raised"]["place"] == {
        "file": str(program),
        "line": MAIN,
        "function": "<module>",
    }


def test_the_crash_is_named_wherever_its_log_is_cut(
    tmp_path: Path, write: Callable[[bytes], Path]
) -> None:
    program, printed = _crash(sys.executable, tmp_path)
    assert b"raise RuntimeError('''" in printed
    begun = printed.index(b"in _check_not_importing_main") + len(b"in _check_not_importing_main")
    cuts = [begun, printed.index(b"'''") + 3, *(at for at in range(begun, len(printed), 41))]
    for cut in cuts:
        finding = named(triage(write(printed[:cut])), "start-reimports-main")
        assert f"{program}:{MAIN}" in finding["message"], printed[:cut][-80:]
    # Before that frame the log says nothing of the cause, and is not said to.
    earlier = printed[: printed.index(b"_check_not_importing_main()")]
    assert triage(write(earlier))["verdict"]["exit"] == 3


def test_eight_children_that_crash_at_once_are_one_cause(
    tmp_path: Path, write: Callable[[bytes], Path]
) -> None:
    program, printed = _crash(sys.executable, tmp_path, 8)
    assert printed.count(b"An attempt has been made") == 8
    found = triage(write(printed))
    finding = named(found, "start-reimports-main")
    assert len(found["findings"]) == 1
    whole = found["cause"]["raised"]
    assert whole["mixed"] or f"{program}:{MAIN}" in finding["message"]


# --- hooks ---------------------------------------------------------------------------------------


def _hooked(python: Interpreter, folder: Path, name: str, text: str) -> bytes:
    """Run an interpreter with a user site directory that holds one file."""
    version = ".".join(map(str, python.version))
    site = folder / "lib" / f"python{version}" / "site-packages"
    site.mkdir(parents=True)
    (site / name).write_text(text)
    return failing([python.path, "-c", "print('runs on')"], PYTHONUSERBASE=str(folder))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("usercustomize.py", "import envprobe_lacks_this\n", "usercustomize"),
        ("zz.pth", "import envprobe_lacks_this\n", "zz.pth"),
    ],
)
def test_a_hook_that_raises_is_told_and_its_module_is_no_cause(
    python: Interpreter,
    tmp_path: Path,
    write: Callable[[bytes], Path],
    name: str,
    text: str,
    said: str,
) -> None:
    printed = _hooked(python, tmp_path, name, text)
    assert b"runs on" in printed
    found = triage(write(printed))
    finding = named(found, "start-hook-failed")
    assert finding["id"] == "EP602"
    assert said in finding["message"]
    told = json.dumps(finding["evidence"])
    assert "envprobe_lacks_this" in told
    assert not found["cause"]["fatal"]


def test_a_hook_that_ends_the_interpreter(
    python: Interpreter, tmp_path: Path, write: Callable[[bytes], Path]
) -> None:
    printed = _hooked(python, tmp_path, "usercustomize.py", "raise SystemExit(3)\n")
    finding = named(triage(write(printed)), "start-hook-failed")
    assert "usercustomize.py:1" in finding["message"]
    assert "ended the interpreter" in finding["message"]


def test_a_hook_beside_another_cause_is_a_warning(
    tmp_path: Path, write: Callable[[bytes], Path]
) -> None:
    hook = tmp_path / "sitecustomize.py"
    hook.write_text("1 / 0\n")
    # -B: no bytecode beside it.
    printed = failing(
        ["/usr/bin/python3", "-B", "-c", "import envprobe_lacks_this"], PYTHONPATH=str(tmp_path)
    )
    found = triage(write(printed))
    named(found, "start-module-missing")
    (hook_finding,) = (one for one in found["findings"] if one["check"] == "start-hook-failed")
    assert hook_finding["severity"] == "warning"
    assert "the process went on" in hook_finding["message"]


# --- arguments, modules, ports, files ------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--tp", "2", "--nccl-algo", "Ring"), "unrecognized arguments: --nccl-algo Ring"),
        (("--tp", "two"), "argument --tp: invalid int value"),
        (("--tp", "3"), "invalid choice: 3"),
        ((), "the following arguments are required: --tp"),
    ],
)
def test_what_argparse_refuses(
    python: Interpreter,
    tmp_path: Path,
    write: Callable[[bytes], Path],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    program = tmp_path / "serve.py"
    program.write_text(
        "import argparse\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--tp', type=int, choices=[1, 2, 8], required=True)\n"
        "parser.parse_args()\n"
    )
    finding = named(
        triage(write(failing([python.path, str(program), *arguments]))), "start-argument-refused"
    )
    assert finding["id"] == "EP603"
    assert said in finding["message"]


@pytest.mark.parametrize(
    ("code", "check", "said"),
    [
        ("import envprobe_lacks_this", "start-module-missing", "envprobe_lacks_this"),
        ("from json import lacks", "start-module-missing", "cannot import name 'lacks'"),
        (
            "import ctypes; ctypes.CDLL('libenvprobe-lacks.so.1')",
            "start-module-missing",
            "libenvprobe-lacks.so.1: cannot open shared object file",
        ),
        ("bytearray(1 << 62)", "start-out-of-memory", "MemoryError"),
        (
            "import os; os.setuid(65534) if not os.getuid() else 0; open('/etc/shadow')",
            "start-permission-denied",
            "/etc/shadow",
        ),
        (
            "import os, faulthandler; faulthandler.enable(); os.kill(os.getpid(), 11)",
            "start-worker-died",
            "Segmentation fault",
        ),
    ],
)
def test_what_an_interpreter_says(
    python: Interpreter, write: Callable[[bytes], Path], code: str, check: str, said: str
) -> None:
    finding = named(triage(write(failing([python.path, "-c", code]))), check)
    assert said in finding["message"]


@pytest.mark.parametrize(
    ("words", "check", "said"),
    [
        (("-m", "envprobe_lacks_this"), "start-module-missing", "envprobe_lacks_this"),
        (("-m", "envprobe_lacks_this.server"), "start-module-missing", "envprobe_lacks_this"),
        (("/nonexistent/serve.py",), "start-program-not-run", "/nonexistent/serve.py"),
    ],
)
def test_a_program_that_is_not_there(
    python: Interpreter,
    write: Callable[[bytes], Path],
    words: tuple[str, ...],
    check: str,
    said: str,
) -> None:
    assert said in named(triage(write(failing([python.path, *words]))), check)["message"]


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_a_shell_that_does_not_find_the_program(
    write: Callable[[bytes], Path], shell: str, tmp_path: Path
) -> None:
    script = tmp_path / "run.sh"
    script.write_text("/nonexistent/python serve.py\n")
    finding = named(triage(write(failing([shell, str(script)]))), "start-program-not-run")
    assert "/nonexistent/python" in finding["message"]


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.socket().bind(('127.0.0.1', PORT))",
        "import asyncio\nasync def main():\n"
        " await asyncio.start_server(print, '127.0.0.1', PORT)\nasyncio.run(main())",
    ],
    ids=["socket", "asyncio"],
)
def test_a_port_that_is_taken(
    python: Interpreter, write: Callable[[bytes], Path], code: str
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        printed = failing([python.path, "-c", code.replace("PORT", port)])
    finding = named(triage(write(printed)), "start-port-in-use")
    assert finding["id"] == "EP608"


# --- a real server -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sglang_python() -> str:
    try:
        return str(sglang_server.find_environment() / "venv" / "bin" / "python")
    except sglang_server.SglangError as error:
        missing("sglang", str(error))


@pytest.mark.sglang
def test_an_option_that_sglang_does_not_know(
    sglang_python: str, write: Callable[[bytes], Path]
) -> None:
    command = [sglang_python, "-m", "sglang.launch_server", "--model-path", "x", "--tensr", "2"]
    finding = named(triage(write(failing(command))), "start-argument-refused")
    assert "unrecognized arguments: --tensr 2" in finding["message"]


@pytest.mark.sglang
def test_a_scheduler_of_a_real_server_that_was_killed(sglang_python: str, tmp_path: Path) -> None:
    assert sglang_python
    server = sglang_server.SglangServer(sglang_server.find_environment(), tp_size=1)
    log = tmp_path / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            server.command,
            env=server.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _scheduler_of(process).kill()
            process.wait(120)
        finally:
            for left in _of_session(process.pid):
                left.kill()
            process.wait(120)
    found = triage(log)
    finding = named(found, "start-worker-died")
    assert "Rank 0 scheduler died during initialization (exit code: -9)" in finding["message"]
    assert "none of your own code" in json.dumps(finding["evidence"])


def _scheduler_of(server: subprocess.Popen[bytes]) -> psutil.Process:
    """Wait for the scheduler, which is known by its title only."""
    deadline = time.monotonic() + 180
    while server.poll() is None and time.monotonic() < deadline:
        for child in _of_session(server.pid):
            with contextlib.suppress(psutil.Error):
                if child.cmdline()[:1] == ["sglang::scheduler"]:
                    return child
    raise AssertionError("the server has no scheduler")


def _of_session(leader: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == leader:
                found.append(process)
    return found


@pytest.mark.sglang
def test_a_rank_of_torch_that_was_killed(
    sglang_python: str, tmp_path: Path, write: Callable[[bytes], Path]
) -> None:
    program = tmp_path / "ranks.py"
    program.write_text(
        "import os, signal\nimport torch.multiprocessing as mp\n"
        "def rank(number):\n    number and os.kill(os.getpid(), signal.SIGKILL)\n"
        "if __name__ == '__main__':\n    mp.spawn(rank, nprocs=2)\n"
    )
    finding = named(triage(write(failing([sglang_python, str(program)]))), "start-worker-died")
    assert "process 1 terminated with signal SIGKILL" in finding["message"]
    assert f"{program}:6" in finding["message"]


@pytest.mark.sglang
def test_uvicorn_on_a_port_that_is_taken(
    sglang_python: str, write: Callable[[bytes], Path]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code = f"import uvicorn; uvicorn.run(lambda *_: None, port={port}, lifespan='off')"
        printed = failing([sglang_python, "-c", code])
    found = triage(write(printed))
    assert "address already in use" in named(found, "start-port-in-use")["message"]
    assert found["cause"]["line"]["text"].startswith("[Errno 98]")


# --- NCCL's own logs -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("p2p-unknown-word", "Unrecognized element token"),
        ("p2p-max_nchannels-differs", "Message truncated : received 12288 bytes"),
        ("socket-buffsize-differs", "message truncated : receiving 524288 bytes"),
        ("p2p-plain", ""),
        ("socket-buffered", ""),
        ("p2p-misspelt", ""),
    ],
)
def test_real_logs_of_nccl(write: Callable[[bytes], Path], case: str, said: str) -> None:
    with tarfile.open(NCCL) as archive:
        member = next(one for one in archive if one.name.endswith(f"{case}.log"))
        log = archive.extractfile(member)
        assert log is not None
        found = triage(write(log.read()))
    if not said:
        assert (found["verdict"]["exit"], found["cause"]) == (3, None)
        return
    finding = named(found, "start-nccl-failed")
    assert finding["id"] == "EP607"
    assert said in finding["message"]


# --- how a log is wrapped ------------------------------------------------------------------------


def _docker(lines: list[str]) -> Iterator[str]:
    for line in lines:
        entry = {"log": f"{line}\n", "stream": "stderr", "time": "2026-11-30T02:20:03.123456789Z"}
        yield json.dumps(entry)


WRAPPINGS: dict[str, Callable[[list[str]], Iterator[str]]] = {
    "docker json-file": _docker,
    "CRI": lambda lines: (f"2026-11-30T02:20:03.123456789Z stderr F {one}" for one in lines),
    "docker --timestamps": lambda lines: (f"2026-11-30T02:20:03.123456789Z {one}" for one in lines),
    "docker compose": lambda lines: (f"sglang-1  | {one}" for one in lines),
    "kubectl --prefix": lambda lines: (f"[pod/sglang-0/server] {one}" for one in lines),
    "journalctl": lambda lines: (f"Nov 30 02:20:03 vm python3[41]: {one}" for one in lines),
    "short-iso": lambda lines: (f"2026-11-30T02:20:03+0000 vm python3[41]: {one}" for one in lines),
    "vLLM": lambda lines: (
        f"(EngineCore_DP0 pid=41) ERROR 11-30 02:20:03 [core.py:718] {one}" for one in lines
    ),
    "torchrun": lambda lines: (f"[default0]:{one}" for one in lines),
    "torch": lambda lines: (f"[rank0]: {one}" for one in lines),
    "srun": lambda lines: (f"0: {one}" for one in lines),
    "ray": lambda lines: (f"(RayWorker pid=41, ip=10.0.0.1) {one}" for one in lines),
    "colours": lambda lines: (f"\x1b[31m{one}\x1b[0m\r" for one in lines),
    "group": lambda lines: iter(
        ["  + Exception Group " + lines[0], *(f"  | {x}" for x in lines[1:])]
    ),
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_a_wrapped_log_tells_the_same(
    tmp_path: Path, write: Callable[[bytes], Path], wrapping: str
) -> None:
    program = tmp_path / "serve.py"
    program.write_text("def load():\n    import envprobe_lacks_this\n\nload()\n")
    lines = failing([sys.executable, str(program)]).decode().splitlines()
    wrapped = "\n".join(WRAPPINGS[wrapping](lines)) + "\n"
    found = triage(write(wrapped.encode()))
    finding = named(found, "start-module-missing", line=len(lines))
    assert f"{program}:2 in load" in finding["message"]
    assert "ModuleNotFoundError: " in found["cause"]["line"]["text"]


def test_processes_that_write_between_each_other_are_told_apart(
    tmp_path: Path, write: Callable[[bytes], Path]
) -> None:
    """Two ranks whose every line has a prefix, line by line in turns."""
    logs = []
    for rank, module in enumerate(("envprobe_lacks_a", "envprobe_lacks_b")):
        program = tmp_path / f"rank{rank}.py"
        program.write_text("\n" * rank + f"import {module}\n")
        lines = failing([sys.executable, str(program)]).decode().splitlines()
        logs.append([f"(Worker_TP{rank} pid={40 + rank}) {one}" for one in lines])
    turns = [line for pair in zip(*logs, strict=True) for line in pair]
    found = triage(write("\n".join(turns).encode()))
    finding = named(found, "start-module-missing")
    assert f"{tmp_path}/rank0.py:1 in <module>" in finding["message"]
    (other,) = found["follows"]
    assert other["raised"]["place"]["file"] == f"{tmp_path}/rank1.py"


def test_processes_that_cannot_be_told_apart_blame_no_file(
    tmp_path: Path, write: Callable[[bytes], Path]
) -> None:
    logs = []
    for rank in range(2):
        program = tmp_path / f"rank{rank}.py"
        program.write_text(f"import envprobe_lacks_{rank}\n")
        logs.append(failing([sys.executable, str(program)]).decode().splitlines())
    turns = [line for pair in zip(*logs, strict=True) for line in pair]
    found = triage(write("\n".join(turns).encode()))
    finding = named(found, "start-module-missing")
    assert "rank0.py" not in finding["message"]
    assert "rank1.py" not in finding["message"]
    assert found["cause"]["raised"]["place"] is None


def test_compressed_piped_and_standard_input(tmp_path: Path) -> None:
    printed = failing([sys.executable, "-c", "import envprobe_lacks_this"])
    packed = tmp_path / "server.log.gz"
    packed.write_bytes(gzip.compress(printed))
    named(triage(packed), "start-module-missing")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = subprocess.Popen(["sh", "-c", f"cat > {fifo}"], stdin=subprocess.PIPE)
    assert writer.stdin is not None
    writer.stdin.write(printed)
    writer.stdin.close()
    named(triage(fifo), "start-module-missing")
    assert writer.wait(30) == 0
    script = [str(Path(sys.executable).with_name("envprobe"))]
    piped = subprocess.run(
        [*script, "triage", "-", "--format", "json"],
        input=printed,
        capture_output=True,
        env=environment(),
        timeout=60,
        check=False,
    )
    found = json.loads(piped.stdout)
    assert (piped.returncode, found["logs"][0]["kind"]) == (1, "stdin")
    finding = named(found, "start-module-missing")
    assert finding["who"] == f"the standard input, line {found['cause']['line']['number']}"
