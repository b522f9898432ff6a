"""Real process trees for tests: what each process does is said in advance, the truth read after.

actions = {1: Action(parent_before=[py_unset("NCCL_ALGO")]), "root": Action(...)}
with TitledTree(workers=2, env={"NCCL_ALGO": "Ring"}, actions=actions) as tree:
    assert tree.truth[tree.worker(1)]["NCCL_ALGO"] is None
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from tests.programs.actions import FORK, Action, Step

PROGRAM = Path(__file__).with_name("titled.py")
READY_SECONDS = 60
END_SECONDS = 5


@dataclasses.dataclass(frozen=True)
class Report:
    """What one process said of itself: getenv(3), os.environ now and when its code began."""

    pid: int
    key: str
    title: str
    titler: str
    libc: dict[str, str | None]
    python: dict[str, str | None]
    start: dict[str, str | None]
    tracker: int | None
    forkserver: int | None


class TitledTree:
    """A root with `workers` titled children and a detokenizer, all alive inside the `with` block.

    `python` is the interpreter (default: that of the tests), `env` what the root gets besides PATH
    and LANG. The keys of `actions` are worker numbers, "detokenizer" and "root"; with
    `detokenizer=False` there is none. Variables of `env`, of all actions and of `names` are
    reported. `titler` is `setproctitle`, `own`, or `auto` for the first that works. `arguments` are
    further words of the root's command line; `roots` is how many roots its wrapper starts.
    """

    def __init__(
        self,
        python: str = sys.executable,
        *,
        workers: int = 8,
        env: Mapping[str, str] | None = None,
        actions: Mapping[int | str, Action] | None = None,
        names: Sequence[str] = (),
        detokenizer: bool = True,
        titler: str = "auto",
        seconds: float = READY_SECONDS,
        arguments: Sequence[str] = (),
        roots: int = 1,
    ) -> None:
        actions = dict(actions or {})
        self._python = python
        self._env = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", **(env or {})}
        self._seconds = seconds
        self._arguments = arguments
        self._roots = roots
        root = actions.pop("root", Action()).node("root")
        root["children"] += [
            actions.pop(number, Action()).node(f"root.w{number}", f"sglang::scheduler_TP{number}")
            for number in range(workers)
        ]
        if detokenizer:
            last = actions.pop("detokenizer", Action()).node("root.d", "sglang::detokenizer")
            root["children"].append(last)
        if actions:
            raise ValueError(
                f"actions for processes that do not exist: {sorted(map(str, actions))}"
            )
        self._plan = {
            "root": root,
            "titler": titler,
            "token": f"titled-{os.getpid()}-{next(_numbers)}",
            "names": sorted({*(env or {}), *names, *_names(root)}),
        }
        self.reports: dict[int, Report] = {}
        self._processes: dict[int, psutil.Process] = {}
        self._parts: dict[int, str] = {}
        self._received = b""

    # --- what the tests ask

    @property
    def root(self) -> int:
        """The pid of the root (of its wrapper, if it has one that does not exec)."""
        return self._root.pid

    @property
    def truth(self) -> dict[int, dict[str, str | None]]:
        """Each process's own getenv(3) by pid, None where it is not set."""
        return {pid: report.libc for pid, report in self.reports.items()}

    @property
    def python_truth(self) -> dict[int, dict[str, str | None]]:
        """Each process's os.environ by pid."""
        return {pid: report.python for pid, report in self.reports.items()}

    @property
    def pids_by_title(self) -> dict[str, int]:
        """The titled processes; of a fork child's and its parent's same title, the parent."""
        titled = [report for report in self.reports.values() if report.titler]
        return {report.title: report.pid for report in sorted(titled, key=lambda r: -len(r.key))}

    @property
    def tracker(self) -> int | None:
        """The pid of the root's resource tracker, if it has one."""
        return self.reports[self.pid("root")].tracker

    @property
    def forkserver(self) -> int | None:
        """The pid of the root's forkserver, if it has one."""
        return self.reports[self.pid("root")].forkserver

    def pid(self, key: str) -> int:
        """Return a pid by key: `root`, `root.w0`, `root.d`, `root.w0.1` (child), `root.w0.fork`."""
        return next(report.pid for report in self.reports.values() if report.key == key)

    def worker(self, number: int) -> int:
        """Return the pid of a worker."""
        return self.pid(f"root.w{number}")

    def workers(self) -> list[int]:
        """Return the pids of all workers, by number."""
        count = sum(child["key"].startswith("root.w") for child in self._plan["root"]["children"])
        return [self.worker(number) for number in range(count)]

    def tell(self, pid: int, *steps: Step, wait: bool = True) -> None:
        """Let a process of the tree take steps; its report is renewed if `wait`."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as orders:
            orders.sendto(json.dumps(steps).encode(), f"\0{self._plan['token']}-{pid}")
        if wait:
            before = self.reports.pop(pid)
            self._collect(lambda: pid in self.reports, f"the report of {before.key}")

    # --- life

    def __enter__(self) -> TitledTree:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="titled-")))
            folder.chmod(0o755)
            path = folder / "plan"
            self._plan["path"] = str(path)
            path.write_text(json.dumps(self._plan, default=list), encoding="ascii")
            self._errors = stack.enter_context(open(folder / "stderr", "w+b"))
            wrapper = self._plan["root"]["wrapper"]
            self._root = subprocess.Popen(
                [*wrapper, self._python, str(PROGRAM), str(path), "root", *self._arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=self._env,
                start_new_session=True,
            )
            stack.callback(self._end)
            expected = _count(self._plan["root"]) * self._roots
            self._collect(lambda: len(self.reports) >= expected, f"{expected} reports")
            self._remember()
            self._let_leave()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _let_leave(self) -> None:
        """Wait until those that end after their report have ended."""
        keys = {node["key"] for node in _nodes(self._plan["root"]) if node["exits"]}
        leaving = [
            self._processes[report.pid]
            for report in self.reports.values()
            if report.key in keys and report.pid in self._processes
        ]
        limit = time.monotonic() + self._seconds
        while leaving := _alive(leaving):
            assert time.monotonic() < limit, f"processes that do not end: {leaving}"
            time.sleep(0.002)

    def _remember(self) -> None:
        """Keep hold of all processes of the tree, told by their session, by identity."""
        for pid in psutil.pids():
            with contextlib.suppress(OSError, psutil.NoSuchProcess):
                if pid != self._root.pid and os.getsid(pid) == self._root.pid:
                    self._processes.setdefault(pid, psutil.Process(pid))

    def _end(self) -> None:
        """End the tree: standard input closes, whoever is left is killed by its own pid."""
        self._remember()
        assert self._root.stdin is not None
        assert self._root.stdout is not None
        self._root.stdin.close()
        limit = time.monotonic() + END_SECONDS / 2
        left = _alive(self._processes.values())
        while (left or self._root.poll() is None) and time.monotonic() < limit:
            time.sleep(0.01)
            left = _alive(left)
        self._root.kill()
        self._root.wait(END_SECONDS)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        limit = time.monotonic() + END_SECONDS
        while (left := _alive(left)) and time.monotonic() < limit:
            time.sleep(0.01)
        self._root.stdout.close()
        assert not left, f"processes that do not end: {left}"

    # --- reports

    def _collect(self, done: Callable[[], bool], what: str) -> None:
        assert self._root.stdout is not None
        descriptor = self._root.stdout.fileno()
        limit = time.monotonic() + self._seconds
        while not done():
            left = limit - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise TimeoutError(f"{what} did not come; {self._said()}")
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                raise RuntimeError(f"the tree ended before {what} came; {self._said()}")
            *lines, self._received = (self._received + chunk).split(b"\n")
            for line in lines:
                self._take(line.decode("ascii", "replace"))

    def _take(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "@failed":
            raise RuntimeError(f"{rest} failed; {self._said()}")
        if word != "@titled":
            return
        number, last, text = rest.split(" ", 2)
        pid = int(number)
        self._parts[pid] = self._parts.get(pid, "") + text
        if last == "1":
            self.reports[pid] = Report(**json.loads(self._parts.pop(pid)))
            with contextlib.suppress(psutil.NoSuchProcess):
                self._processes.setdefault(pid, psutil.Process(pid))

    def _said(self) -> str:
        self._errors.seek(0)
        return f"have {len(self.reports)}; stderr: {self._errors.read()[-4000:].decode()}"


_numbers = itertools.count()


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node["children"]:
        yield from _nodes(child)


def _steps(node: dict[str, Any]) -> Iterator[Step]:
    for each in _nodes(node):
        for part in ("parent_before", "before_title", "after_title", "parent_after"):
            yield from each[part]


def _names(root: dict[str, Any]) -> set[str]:
    """Return the names of all variables that the plan speaks of."""
    names = {step[1] for step in _steps(root) if step[0].startswith(("py_", "c_"))}
    return names.union(*(node["env"] or () for node in _nodes(root)))


def _count(root: dict[str, Any]) -> int:
    """Return how many processes of the plan report."""
    return sum(1 for _ in _nodes(root)) + sum(step == FORK for step in _steps(root))


def _alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if _lives(process)]


def _lives(process: psutil.Process) -> bool:
    """Whether a process runs; one whose main thread alone has left shows as a zombie and does."""
    try:
        if not process.is_running():
            return False
        return process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
    except psutil.NoSuchProcess:
        return False
