"""Targets that end, exec, come, go, or are replaced under the same number while they are read."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from envprobe import collect
from envprobe.model import Environment, EnvironmentStatus
from envprobe.process import facts
from envprobe.process.environ_libc import read_libc
from envprobe.process.handle import AccessRefused, ProcessHandle
from envprobe.process.maps import AddressSpace
from envprobe.process.memory import Memory
from tests.programs import cli
from tests.programs.actions import LEAVE_MAIN_THREAD, Action, c_setenv, execute, leave
from tests.programs.cbuild import build
from tests.programs.cli import Run
from tests.programs.ctarget import CTarget
from tests.programs.envprobe_cli import envprobe, parsed
from tests.programs.requirement import missing
from tests.programs.trees import TitledTree

ROOT = Path(__file__).resolve().parents[2]
SET = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"}
EXPECT = "--expect=NCCL_ALGO=Ring"
LIMIT_S = 30
SECONDS = 4.0


def wait_until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.002)


def is_zombie(pid: int) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def between(
    patch: pytest.MonkeyPatch, place: object, name: str, act: Callable[[], None], *, after: bool
) -> None:
    """Let something happen once just before, or after, the first call of a function."""
    original = getattr(place, name)
    waiting = [act]

    def call(*arguments: Any, **named: Any) -> Any:
        if waiting and not after:
            waiting.pop()()
        result = original(*arguments, **named)
        if waiting:
            waiting.pop()()
        return result

    patch.setattr(place, name, call)


@contextlib.contextmanager
def pair() -> Iterator[tuple[CTarget, CTarget, list[str]]]:
    """Give two workers outside any tree, and the arguments that find them."""
    title = f"racer-{os.getpid()}"
    with (
        CTarget(build("target"), env=SET, argv0=f"{title}-0") as one,
        CTarget(build("target"), env=SET, argv0=f"{title}-1") as other,
    ):
        yield one, other, [f"--match={title}-?", EXPECT]


# --- what has ended before ------------------------------------------------------------------------


def test_a_zombie_is_no_target_and_no_healthy_worker() -> None:
    with TitledTree(workers=2, env=SET) as tree:
        dead, living = tree.workers()
        tree.tell(dead, leave(), wait=False)
        wait_until(lambda: is_zombie(dead))
        run = cli.workers("--pid", str(tree.root), EXPECT)
        alone = cli.workers("--pid", str(dead), EXPECT)
    assert run.code == 1
    assert run.pids("worker-vanished") == {dead}
    assert run.pids("env-unknown") == set()
    assert run.workers() == {living}
    assert run.process(dead)["ended"] is True
    assert run.text(living, "NCCL_ALGO") == "Ring"
    assert alone.code == 4
    assert f"process {dead} has ended" in alone.document["error"]["message"]
    assert "(zombie)" in alone.document["error"]["message"]


def test_a_zombie_main_thread_with_a_living_thread_is_alive() -> None:
    actions = {0: Action(after_title=[LEAVE_MAIN_THREAD])}
    with TitledTree(workers=2, env=SET, actions=actions) as tree:
        half = tree.worker(0)
        wait_until(lambda: is_zombie(half))
        run = cli.workers("--pid", str(tree.root), EXPECT)
        alone = cli.workers("--pid", str(half), EXPECT)
    for each in (run, alone):
        assert each.text(half, "NCCL_ALGO") == "Ring"
        assert each.reading(half, "NCCL_ALGO")["confidence"] == "proved"
        assert each.process(half)["ended"] is False
        assert each.code == 0
        assert each.pids("worker-unreadable") == each.pids("worker-vanished") == set()
    # Alone it has no tracker beside it that could tell what was there at its start.
    assert run.loud([half]) == []
    assert {one["check"] for one in alone.loud([half])} == {"set-late-unproven"}


def test_a_thread_is_no_process() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        run = cli.workers("--pid", str(thread.native_id))
    finally:
        done.set()
        thread.join()
    assert run.code == 4
    assert run.document["error"] == {
        "message": f"{thread.native_id} is a thread of process {os.getpid()},"
        " no process of its own",
        "remedy": f"Use --pid {os.getpid()}.",
    }


def test_a_kernel_thread_has_no_workers() -> None:
    threads = psutil.Process(2).children() if psutil.pid_exists(2) else []
    if not threads or threads[0].cmdline():
        missing("kernel-threads", "this pid namespace shows none")
    pid = threads[0].pid
    run = cli.workers("--pid", str(pid), EXPECT)
    assert run.code == 3
    assert run.pids("no-workers") == {pid}
    assert run.process(pid)["role"]["name"] == "kernel thread"
    assert run.process(pid)["environments"]["libc"]["status"] == "unreadable"
    assert "kernel thread" in run.process(pid)["environments"]["libc"]["reason"]


def test_a_number_that_nobody_has() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    run = cli.workers("--pid", str(child.pid))
    assert run.code == 4
    assert run.document["error"]["message"] == f"there is no process {child.pid}"


# --- what ends during the scan --------------------------------------------------------------------


def check_loss(run: Run, gone: int, other: int) -> None:
    assert run.code == 1
    assert run.pids("worker-vanished") == {gone}
    assert run.text(other, "NCCL_ALGO") == "Ring"
    assert run.reading(other, "NCCL_ALGO")["confidence"] == "proved"
    known = {one["pid"]: one for one in run.scan["processes"]}
    lost = {one["pid"] for one in run.scan["vanished"]}
    assert gone in lost or known[gone]["ended"] is True


def test_a_worker_that_ends_between_the_list_and_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with pair() as (one, other, arguments):
        between(monkeypatch, collect._Scan, "_read", one.close, after=False)
        run = cli.judge(*arguments)
        check_loss(run, one.pid, other.pid)
    assert [gone["pid"] for gone in run.scan["vanished"]] == [one.pid]
    assert run.scan["snapshot"]["stable"] is True, "the second scan holds"


def test_a_worker_that_ends_while_its_memory_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def end() -> None:
        # In the child that reads, which is not its parent: the parent collects it later.
        os.kill(one.pid, signal.SIGKILL)
        wait_until(lambda: is_zombie(one.pid))

    with pair() as (one, other, arguments):
        between(monkeypatch, facts, "read_libc", end, after=True)
        run = cli.judge(*arguments)
        check_loss(run, one.pid, other.pid)
        assert run.process(one.pid)["ended"] is True


def test_the_root_ends_during_the_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    with pair() as (one, _, _):
        between(monkeypatch, collect._Scan, "_read", one.close, after=False)
        run = cli.judge("--pid", str(one.pid), EXPECT)
    assert run.code == 4
    assert run.document["error"]["message"] == f"the target (PID {one.pid}) is gone"


@pytest.mark.parametrize("seed", range(8))
def test_a_worker_that_ends_at_any_moment(seed: int) -> None:
    """Whatever the moment: what is said of it is true, and the others are read."""
    delay = random.Random(seed).uniform(0.0, 0.4)
    with pair() as (one, other, arguments):
        killer = threading.Timer(delay, one.close)
        killer.start()
        try:
            ran = envprobe("workers", "--format=json", *arguments)
        finally:
            killer.join()
        run = Run(ran.returncode, ran.stdout, ran.stderr)
        assert parsed(ran)["verdict"]["exit"] == run.code
        assert run.text(other.pid, "NCCL_ALGO") == "Ring"
        if run.pids("worker-vanished"):
            check_loss(run, one.pid, other.pid)
        else:  # it ended before it was listed, or after it had been read
            known = {process["pid"] for process in run.scan["processes"]}
            assert (run.code, run.loud([one.pid, other.pid])) == (0, [])
            assert one.pid not in known or run.text(one.pid, "NCCL_ALGO") == "Ring"


# --- exec during the scan -------------------------------------------------------------------------


def test_a_worker_that_execs_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is reported is the new image's alone, never a mixture of two."""
    again = 'exec -a sglang::scheduler_TP0 "$0"'
    with TitledTree(workers=2, env=SET) as tree:
        pid = tree.worker(0)
        tree.tell(pid, c_setenv("NCCL_ALGO", "Tree"), c_setenv("NCCL_NEW", "1"))

        def exec_now() -> None:
            program = str(build("hostile"))  # without arguments it does nothing but wait
            tree.tell(pid, execute("/bin/bash", "-c", again, program), wait=False)
            wait_until(lambda: os.readlink(f"/proc/{pid}/exe") == program)
            # It sleeps once it has started and waits for its standard input.
            wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_SLEEPING)

        original = facts.read_libc

        def read(handle: Any, *arguments: Any, **named: Any) -> Any:
            view = original(handle, *arguments, **named)
            if handle.pid == pid and "python" in os.readlink(f"/proc/{pid}/exe"):
                assert view.entries["NCCL_ALGO"].reveal() == b"Tree"
                exec_now()
            return view

        monkeypatch.setattr(facts, "read_libc", read)
        run = cli.judge("--pid", str(tree.root), EXPECT, "--var=NCCL_*")
        assert run.process(pid)["exe"] == str(build("hostile"))
    assert run.process(pid)["ended"] is False
    assert run.process(pid)["identity"] != run.process(tree.worker(1))["identity"]
    for view in ("exec", "libc"):
        assert run.text(pid, "NCCL_ALGO", view) == "Tree"
        assert run.text(pid, "NCCL_NEW", view) == "1"
        assert run.reading(pid, "NCCL_ALGO", view)["confidence"] == "proved"
    assert run.code == 1
    assert run.pids("env-wrong-value", "NCCL_ALGO") == {pid}
    assert run.pids("worker-vanished") == set()


FLAGS = [(), ("-fPIC",), ("-static",)]


@contextlib.contextmanager
def restarting(*flags: str) -> Iterator[tuple[int, str]]:
    """Give a worker that executes itself without end, and its title."""
    program, title = str(build("restart", *flags)), f"sglang::scheduler_TP{os.getpid()}"
    with CTarget(program, program, env=SET, argv0=title) as target:
        yield target.pid, f"{title}*"


def live_environment(pid: int) -> Environment | None:
    """Read once what is there at this moment; None if there is nothing to read it from."""
    with contextlib.ExitStack() as stack:
        handle = stack.enter_context(ProcessHandle.open(pid))
        try:
            memory = stack.enter_context(Memory.open(handle))
            space = stack.enter_context(AddressSpace(handle))
        except AccessRefused:
            return None
        return read_libc(handle, memory, space, lambda name: True)


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_no_moment_of_an_exec_looks_like_an_empty_environment(flags: tuple[str, ...]) -> None:
    seen: dict[EnvironmentStatus, int] = dict.fromkeys(EnvironmentStatus, 0)
    enough = (EnvironmentStatus.COMPLETE, EnvironmentStatus.UNREADABLE)
    with restarting(*flags) as (pid, _):
        began = time.monotonic()
        while (spent := time.monotonic() - began) < SECONDS:
            if spent > 1.5 and all(seen[one] > 5 for one in enough):
                break
            view = live_environment(pid)
            if view is None:
                continue
            seen[view.status] += 1
            if view.status is EnvironmentStatus.COMPLETE:
                found = {name: value.reveal() for name, value in view.entries.items() if value}
                assert found == {name: value.encode() for name, value in SET.items()}
            else:
                assert view.reason
                assert view.remedy
    assert all(seen[one] > 5 for one in enough), seen


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_a_worker_that_execs_without_end(flags: tuple[str, ...]) -> None:
    """Each report is of one image or says that there was none: never absent, never long."""
    with restarting(*flags) as (pid, title):
        for _ in range(3):
            began = time.monotonic()
            run = cli.workers(f"--match={title}", EXPECT)
            assert time.monotonic() - began < SECONDS
            if "error" in run.document:  # in the middle of an exec it has no title either
                assert run.code == 3
                assert run.document["error"]["message"].startswith("no-workers: ")
                continue
            assert pid in run.workers()
            lost = pid in run.pids("worker-vanished")
            if run.reading(pid, "NCCL_ALGO")["state"] == "value":
                assert run.text(pid, "NCCL_ALGO") == "Ring"
                assert run.code == (1 if lost else 0)
            else:
                assert run.reading(pid, "NCCL_ALGO")["state"] in ("unreadable", "changing")
                assert pid in run.pids("env-unknown")
                assert run.code == (1 if lost else 3)
            assert run.pids("env-missing") == run.pids("env-wrong-value") == set()


# --- a tree in motion -----------------------------------------------------------------------------

LAUNCHER = """
import signal, subprocess, sys
program, churn = sys.argv[1], sys.argv[2] == "churn"
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who ends is collected at once
workers = [
    subprocess.Popen([f"sglang::scheduler_TP{rank}"], executable=program, stdout=subprocess.PIPE)
    for rank in range(2)
]
assert [worker.stdout.readline() for worker in workers] == [b"ready\\n"] * 2
helper = subprocess.Popen(["cat"], stdout=subprocess.DEVNULL)
print(helper.pid, *(worker.pid for worker in workers), flush=True)
while churn and any(worker.poll() is None for worker in workers):
    subprocess.run(["sh", "-c", "true & true & wait"])
sys.stdin.read()
"""


@contextlib.contextmanager
def launched(how: str) -> Iterator[tuple[int, int, set[int]]]:
    """Give the pids of a launcher, of a helper of it, and of its workers."""
    launcher = subprocess.Popen(
        [sys.executable, "-S", "-c", LAUNCHER, str(build("target")), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], **SET},
    )
    try:
        assert launcher.stdout is not None
        helper, *workers = map(int, launcher.stdout.readline().split())
        yield launcher.pid, helper, set(workers)
    finally:
        launcher.communicate(timeout=LIMIT_S)
    assert launcher.returncode == 0


def test_a_helper_that_ends_during_the_scan_is_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    with launched("calm") as (launcher, helper, workers):

        def end() -> None:
            os.kill(helper, signal.SIGKILL)
            wait_until(lambda: not psutil.pid_exists(helper))

        between(monkeypatch, collect._Scan, "_read", end, after=False)
        run = cli.judge("--pid", str(launcher), EXPECT)
    assert (run.code, run.loud([launcher, helper, *workers])) == (0, [])
    assert run.workers() == workers
    assert [gone["pid"] for gone in run.scan["vanished"]] == [helper]
    assert run.scan["snapshot"]["stable"] is True


def test_a_worker_that_starts_during_the_scan_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    title = f"late-{os.getpid()}"
    with contextlib.ExitStack() as stack:
        early = stack.enter_context(CTarget(build("target"), env=SET, argv0=f"{title}-0"))
        late: list[CTarget] = []

        def start() -> None:
            late.append(stack.enter_context(CTarget(build("target"), env=SET, argv0=f"{title}-1")))

        between(monkeypatch, collect._Scan, "_read", start, after=True)
        run = cli.judge("--pid", str(os.getpid()), f"--match={title}-?", EXPECT)
        assert run.workers() == {early.pid, late[0].pid}
        assert [run.text(one.pid, "NCCL_ALGO") for one in (early, *late)] == ["Ring"] * 2
        assert (run.scan["snapshot"]["scans"], run.scan["snapshot"]["stable"]) == (2, True)


def test_helpers_that_come_and_go_without_end() -> None:
    """The report may say that the tree is in motion; of the workers it says what is so."""
    with launched("churn") as (launcher, helper, workers):
        runs = [cli.workers("--pid", str(launcher), EXPECT) for _ in range(4)]
    for run in runs:
        loud = [one["check"] for one in run.loud([launcher, helper, *workers])]
        if run.scan["snapshot"]["stable"]:
            assert (run.code, loud) == (0, [])
        else:
            assert (run.code, loud) == (3, ["unstable-tree"])
        assert run.workers() == workers
        assert [run.text(pid, "NCCL_ALGO") for pid in workers] == ["Ring"] * 2


# --- the same number ------------------------------------------------------------------------------


def reuse() -> None:
    """Scan while a worker's number goes to another program; runs in a pid namespace of its own."""
    stranger: list[CTarget] = []

    def replace() -> None:
        one.close()
        while not stranger or stranger[0].pid != one.pid:
            if stranger:
                stranger.pop().close()
            Path("/proc/sys/kernel/ns_last_pid").write_text(str(one.pid - 1))
            title = Path(f"/proc/{other.pid}/cmdline").read_text().partition("\0")[0]
            env = {"NCCL_ALGO": "Tree"}
            stranger.append(CTarget(build("target"), env=env, argv0=f"{title[:-1]}0").__enter__())

    with pair() as (one, other, arguments), pytest.MonkeyPatch.context() as patch:
        between(patch, collect._Scan, "_read", replace, after=False)
        during = cli.judge(*arguments)
        after = cli.judge(*arguments)
        stranger[0].close()
    answer = [one.pid, other.pid, *(dataclasses.astuple(run) for run in (during, after))]
    print(json.dumps(answer))


@pytest.mark.root
def test_a_number_that_is_given_to_another_process() -> None:
    if os.geteuid():
        missing("root", "only root can make a pid namespace and choose its numbers")
    code = "from tests.integration.test_races import reuse; reuse()"
    done = subprocess.run(
        [*("unshare", "-pf", "--mount-proc", "--kill-child"), sys.executable, "-c", code],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=2 * LIMIT_S,
        check=True,
    )
    one, other, during, after = json.loads(done.stdout)
    during, after = Run(*during), Run(*after)
    # The scan that saw the change speaks of the new process, and says that a worker was lost.
    check_loss(during, one, other)
    for run in (during, after):
        assert run.text(one, "NCCL_ALGO") == "Tree"
        assert run.pids("env-wrong-value", "NCCL_ALGO") == {one}
    assert during.process(one)["identity"] == after.process(one)["identity"]
    assert after.pids("worker-vanished") == set()
