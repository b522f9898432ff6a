"""Start a real SGLang server on the CPU, in the environment that ``scripts/sglang_env.py`` makes.

    with SglangServer(directory, {"NCCL_ALGO": "Ring"}) as server:
        print(server.pid, server.generate()["output_ids"])

The server and all that it spawns are in a session of their own. It gets SIGTERM when the thread
that started it ends, so a test run that is killed leaves no server behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

ENVIRONMENT_SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "sglang_env.py"
READY_LINE = "The server is fired up"
KEPT_LOG_LINES = 5000
PR_SET_PDEATHSIG = 1

LIBC = ctypes.CDLL(None)


class SglangError(Exception):
    """The environment is missing, or the server did not do what was asked."""


def find_environment() -> Path:
    """Return the directory of a complete environment, or raise with the way to make one."""
    directory = os.environ.get("ENVPROBE_SGLANG_DIR")
    command = [sys.executable, str(ENVIRONMENT_SCRIPT), "--check"]
    command += ["--dir", directory] if directory else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SglangError(done.stderr.strip().removeprefix("sglang_env: error: "))
    return Path(done.stdout.strip())


def free_port() -> int:
    """Return a TCP port of the loopback interface that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def still_running(processes: Iterable[psutil.Process], wait_s: float) -> list[psutil.Process]:
    """Wait for the processes to end, and return those that have not."""
    deadline = time.monotonic() + wait_s
    left = list(processes)
    while True:
        # A process that ended but that nobody has waited for (in a container without an init) is
        # gone for us; psutil.wait_procs would go on waiting for it.
        left = [each for each in left if is_running(each)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


def is_running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class SglangServer:
    """One ``python -m sglang.launch_server`` with the tiny OPT model."""

    def __init__(
        self,
        directory: Path,
        environment: Mapping[str, str] | None = None,
        *,
        tp_size: int = 2,
        options: Sequence[str] = (),
        port: int | None = None,
        ready_timeout_s: float = 180,
    ) -> None:
        self.directory = directory
        self.port = port or free_port()
        self.command = self._command(directory, tp_size, options)
        self._temporary = tempfile.TemporaryDirectory(prefix="sglang-")
        self.environment = {**self._needed_environment(tp_size), **(environment or {})}
        self.ready_timeout_s = ready_timeout_s
        self.ready_after_s: float | None = None
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._ready = threading.Event()
        self._lines: deque[str] = deque(maxlen=KEPT_LOG_LINES)

    def _command(self, directory: Path, tp_size: int, options: Sequence[str]) -> list[str]:
        python = directory / "venv" / "bin" / "python"
        command = [str(python), "-m", "sglang.launch_server"]
        command += ["--model-path", str(directory / "models" / "opt"), "--load-format", "dummy"]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--tp-size", str(tp_size)]
        command += ["--device", "cpu", "--attention-backend", "triton", "--dtype", "float32"]
        command += ["--disable-cuda-graph", "--disable-overlap-schedule", "--skip-server-warmup"]
        command += ["--max-total-tokens", "4096", "--random-seed", "1"]
        return [*command, *options]

    def _needed_environment(self, tp_size: int) -> dict[str, str]:
        # One group of CPUs for each rank: SGLang's default is a NUMA node for each.
        cpus = sorted(os.sched_getaffinity(0))
        groups = [str(cpus[rank % len(cpus)]) for rank in range(tp_size)]
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(Path.home()),
            "TMPDIR": self._temporary.name,  # SGLang leaves its sockets there
            # Without it the first request compiles for 5 to 15 s, in short-lived children.
            "TORCHDYNAMO_DISABLE": "1",
            "HF_HUB_OFFLINE": "1",
            "TRITON_INTERPRET": "1",  # the Triton kernels run without a GPU
            "SGLANG_CPU_OMP_THREADS_BIND": "|".join(groups),
        }

    @property
    def pid(self) -> int:
        """The pid of the main process: HTTP server and tokenizer manager."""
        return self._started().pid

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise SglangError("the server has not been started")
        return self._process

    def start(self) -> SglangServer:
        """Start the server and wait until it is ready; if it is not, end it and raise."""
        started = time.monotonic()
        self._process = subprocess.Popen(
            self.command,
            cwd=self.directory,  # "python -m" puts it on sys.path
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
        )
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        try:
            self._wait_until_ready(started + self.ready_timeout_s)
        except BaseException:
            self.stop(grace_s=5)
            raise
        self.ready_after_s = time.monotonic() - started
        return self

    def _read_log(self) -> None:
        # Goes on until the last process has closed the pipe: a full pipe would stop the server.
        stream = self._started().stdout
        assert stream is not None
        for line in stream:
            self._lines.append(line.rstrip("\n"))
            if READY_LINE in line:
                self._ready.set()

    def _wait_until_ready(self, deadline: float) -> None:
        process = self._started()
        while not self._ready.wait(0.1):
            if process.poll() is not None:
                if self._reader is not None:
                    self._reader.join(2)
                raise SglangError(self._explain(f"ended with status {process.returncode}"))
            if time.monotonic() > deadline:
                raise SglangError(self._explain(f"was not ready in {self.ready_timeout_s:.0f} s"))

    def _explain(self, what: str) -> str:
        return "\n".join([f"the SGLang server {what}; its last lines:", *self.log(40)])

    def log(self, last: int = KEPT_LOG_LINES) -> list[str]:
        """Return the last lines that the server and its children printed."""
        return list(self._lines)[-last:]

    def generate(
        self,
        input_ids: Sequence[int] = (66, 67, 68, 69, 70),
        max_new_tokens: int = 4,
        timeout_s: float = 120,
    ) -> dict[str, Any]:
        """Send one request and return its answer."""
        sampling = {"max_new_tokens": max_new_tokens, "temperature": 0, "ignore_eos": True}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/generate",
            data=json.dumps({"input_ids": list(input_ids), "sampling_params": sampling}).encode(),
            headers={"Content-Type": "application/json"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=timeout_s) as response:
            answer: dict[str, Any] = json.load(response)
        return answer

    def descendants(self) -> list[psutil.Process]:
        """Return the processes that the server started and that still run."""
        process = self._started()
        found: set[psutil.Process] = set()
        if process.poll() is None:
            found.update(psutil.Process(process.pid).children(recursive=True))
        elif psutil.pid_exists(process.pid):
            return []  # the number belongs to somebody else now, so our session is empty
        for other in psutil.process_iter():
            try:
                in_our_session = os.getsid(other.pid) == process.pid
            except ProcessLookupError:
                continue
            if in_our_session and other.pid != process.pid:
                found.add(other)
        return sorted(found, key=lambda each: each.pid)

    def stop(self, grace_s: float = 30) -> int | None:
        """End the server, and kill what is left of its own processes; return its exit status."""
        process = self._process
        if process is None:
            return None
        own = self.descendants()
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(grace_s)
            except subprocess.TimeoutExpired:
                own += self.descendants()
                process.kill()
        left = still_running([*own, *self.descendants()], wait_s=2)
        for each in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()  # psutil refuses if the pid has been given to another process
        still_running(left, wait_s=5)
        status = process.wait()
        if self._reader is not None:
            self._reader.join(5)
        self._temporary.cleanup()
        return status

    def __enter__(self) -> SglangServer:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
