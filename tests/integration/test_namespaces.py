"""Targets in namespaces and roots of their own; files that are replaced, planted or stalled."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from envprobe.process.access import Reader
from tests.integration.test_healthy_tree import EXPECTED, SET, agrees
from tests.programs import cli, interpreters
from tests.programs.actions import Action
from tests.programs.cbuild import build
from tests.programs.cli import Run
from tests.programs.ctarget import CTarget
from tests.programs.envprobe_cli import envprobe, script
from tests.programs.interpreters import Interpreter
from tests.programs.requirement import missing
from tests.programs.stalled_fuse import stalled
from tests.programs.trees import TitledTree

TITLE = "sglang::scheduler_TP0"
NOBODY = 65534
AS_NOBODY = (
    *("setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"),
    "env",  # setpriv itself still has its capabilities when it starts a program
)
END_SECONDS = 10
IN_OPEN = 0x20
CAP_SYS_ADMIN = 1 << 21


def need_admin() -> None:
    if os.geteuid() or not Reader.own().capabilities & CAP_SYS_ADMIN:
        missing("root", "only root with CAP_SYS_ADMIN can make this namespace")


def need_user_namespaces(*wrapper: str) -> None:
    command = [*wrapper, "unshare", "-Ur", "true"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        missing("userns", "this kernel does not let us make a user namespace")


def run_by(command: list[str], *arguments: str) -> Run:
    """Run the console script through another command, such as nsenter."""
    done = envprobe("workers", "--format=json", *arguments, command=[*command, *script()])
    return Run(done.returncode, done.stdout, done.stderr)


# --- user namespaces ------------------------------------------------------------------------------


def test_a_tree_in_a_user_namespace() -> None:
    need_user_namespaces()
    root = Action(wrapper=["unshare", "-Ur"])
    with TitledTree(workers=2, env=SET, actions={"root": root}) as tree:
        inside = ["nsenter", "--preserve-credentials", "-U", "-t", str(tree.root)]
        for run in (
            cli.workers("--pid", str(tree.root), *EXPECTED),
            run_by(inside, "--pid", str(tree.root), *EXPECTED),
        ):
            agrees(run, tree)
            assert (run.code, run.loud(tree.reports), run.stderr) == (0, [], "")


def test_from_inside_a_user_namespace_nothing_outside_is_known() -> None:
    need_user_namespaces()
    with TitledTree(workers=2, env=SET) as tree:
        run = run_by(["unshare", "-Ur"], "--pid", str(tree.root), *EXPECTED)
    workers = set(tree.workers())
    assert run.code == 3
    checks = {one["check"] for one in run.loud(tree.reports)}
    assert checks == {"worker-unreadable", "env-unknown"}
    assert run.pids("worker-unreadable") == run.pids("env-unknown") == run.workers() == workers
    (finding,) = run.findings("worker-unreadable")
    assert "another user namespace" in finding["message"]
    assert "outside this user namespace" in finding["remedy"]
    for pid in workers:
        views = [run.reading(pid, "NCCL_ALGO", view)["state"] for view in ("exec", "libc")]
        assert views == ["unreadable"] * 2


@pytest.mark.root
def test_the_owner_of_a_user_namespace_needs_no_rights() -> None:
    """A rootless container is read by the user that started it."""
    need_admin()
    need_user_namespaces(*AS_NOBODY)
    command = [*AS_NOBODY, "unshare", "-Ur", str(build("target")), "set:NCCL_PROTO=LL"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "NCCL_ALGO": "Ring"},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        pattern = f"--match={build('target')} set:NCCL_PROTO*"
        expected = ("--expect=NCCL_ALGO=Ring", "--expect=NCCL_PROTO=LL")
        as_root = cli.judge(pattern, *expected)
        as_owner = cli.judge_as(NOBODY, pattern, *expected)
    finally:
        process.communicate(timeout=END_SECONDS)
    for run in (as_root, as_owner):
        assert run.process(process.pid)["uid"] == NOBODY
        assert run.text(process.pid, "NCCL_PROTO") == "LL"
        assert run.reading(process.pid, "NCCL_PROTO")["confidence"] == "proved"
        assert run.code == 0
        assert {one["check"] for one in run.loud([process.pid])} == {"set-late-unproven"}


# --- pid namespaces -------------------------------------------------------------------------------

CONTAINER = f"""
import subprocess, sys
program, number = sys.argv[1:]
with open("/proc/sys/kernel/ns_last_pid", "w") as file:
    file.write(str(int(number) - 1))
child = subprocess.Popen(["{TITLE}"], executable=program, stdout=subprocess.PIPE)
assert child.stdout.readline() == b"ready\\n"
print(child.pid, flush=True)
sys.exit(child.wait())
"""


@contextlib.contextmanager
def container(number: int) -> Iterator[tuple[int, int, int]]:
    """Give the host's pids of unshare, of the first process inside, and of its worker `number`."""
    process = subprocess.Popen(
        [
            *("unshare", "-pf", "--mount-proc", "--kill-child"),
            *(sys.executable, "-S", "-c", CONTAINER, str(build("target")), str(number)),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], **SET},
    )
    try:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == number
        first, worker = psutil.Process(process.pid).children(recursive=True)
        yield process.pid, first.pid, worker.pid
    finally:
        process.communicate(timeout=END_SECONDS)


def free_number() -> int:
    """Return a number that no process has: numbers below 300 are given once (alloc_pid)."""
    return next(number for number in range(299, 1, -1) if not psutil.pid_exists(number))


@pytest.mark.root
def test_a_tree_in_a_pid_namespace() -> None:
    need_admin()
    number = free_number()
    with container(number) as (outer, first, worker):
        run = cli.workers("--pid", str(outer), *EXPECTED)
        text = cli.judge("--pid", str(first), "--format=text", *EXPECTED)
        inner = cli.workers("--pid", str(number), *EXPECTED)
        nearby = run_by(["nsenter", "-p", "-m", "-t", str(first)], "--pid", "1", *EXPECTED)
    assert run.code == 0
    assert run.workers() == {worker}
    assert {name: run.text(worker, name) for name in SET} == SET
    numbers = {one["pid"]: one["inner_pid"] for one in run.scan["processes"]}
    assert numbers == {outer: outer, first: 1, worker: number}
    assert run.loud([outer, first, worker]) == []
    assert text.code == 0
    assert f"pid {number} in its own namespace" in text.stdout

    assert inner.code == 4
    error = inner.document["error"]
    assert f"there is no process {number} in this pid namespace" in error["message"]
    assert f"that number belongs to what is process {worker} here" in error["message"]
    assert error["remedy"] == f"Use --pid {worker}."

    assert (nearby.code, nearby.findings()) == (0, [])  # nothing else is in that namespace
    assert nearby.workers() == {number}
    assert {name: nearby.text(number, name) for name in SET} == SET


# --- mount namespaces and roots -------------------------------------------------------------------


@pytest.mark.root
def test_a_tree_whose_files_are_hidden_by_mounts() -> None:
    need_admin()
    tool = shutil.which("unshare")
    assert tool is not None
    hide = 'mount -t tmpfs none /tmp && exec "$@"'
    root = Action(wrapper=[tool, "-m", "sh", "-c", 'exec "$@"', "sh"])
    with TitledTree(workers=2, env=SET, actions={"root": root}) as tree:
        enter = ["nsenter", "-m", "-t", str(tree.root), "sh", "-c", hide, "sh", "true"]
        subprocess.run(enter, check=True, timeout=END_SECONDS)
        own, theirs = (os.stat(f"/proc/{pid}/ns/mnt").st_ino for pid in ("self", tree.root))
        assert own != theirs
        run = cli.workers("--pid", str(tree.root), *EXPECTED)
        agrees(run, tree)
    assert (run.code, run.loud(tree.reports)) == (0, [])


def own_root(folder: Path, program: Path) -> Path:
    """Fill a root with a program and a C library of its own: other files than the host's."""
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    for library in re.findall(r"(/\S+)", listed.stdout):
        place = folder / library.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(Path(library).read_bytes() + b"another file")
        place.chmod(0o755)
    return Path(shutil.copy(program, folder / "program"))


@contextlib.contextmanager
def in_root(folder: Path, *arguments: str) -> Iterator[CTarget]:
    def enter() -> None:
        os.chroot(folder)
        os.chdir("/")

    with CTarget("/program", *arguments, env=SET, argv0=TITLE, before_exec=enter) as target:
        yield target


def matches(run: Run, target: CTarget) -> None:
    """Check the readings of a single target, all of them proved, against its own getenv."""
    assert run.workers() == {target.pid}
    for name in SET:
        value = target.getenv(name)
        assert run.text(target.pid, name) == (None if value is None else os.fsdecode(value))
        assert run.reading(target.pid, name)["confidence"] == "proved"
    assert run.process(target.pid)["environments"]["libc"]["status"] == "complete"


@pytest.mark.root
@pytest.mark.parametrize("flags", [("-DREFER",), ("-fPIC",), ("-static",)], ids=" ".join)
def test_a_root_with_a_c_library_of_its_own(tmp_path: Path, flags: tuple[str, ...]) -> None:
    need_admin()
    own_root(tmp_path, build("target", *flags))
    with in_root(tmp_path, "set:NCCL_ALGO=Tree", "unset:NCCL_PROTO") as target:
        run = cli.workers("--pid", str(target.pid), *EXPECTED)
        matches(run, target)
    assert run.code == 1
    assert run.pids("env-wrong-value", "NCCL_ALGO") == {target.pid}
    assert run.pids("env-missing", "NCCL_PROTO") == {target.pid}
    assert len(run.findings("env-wrong-value")) == len(run.findings("env-missing")) == 1


@contextlib.contextmanager
def openings(path: Path) -> Iterator[list[bytes]]:
    """Collect the events of inotify(7) for each opening of a file."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert libc.inotify_add_watch(watch, os.fsencode(path), IN_OPEN) >= 0
    seen: list[bytes] = []
    try:
        yield seen
        with contextlib.suppress(BlockingIOError):
            while True:
                seen.append(os.read(watch, 4096))
    finally:
        os.close(watch)


@pytest.mark.root
@pytest.mark.parametrize("flags", [("-DREFER",), ("-static",)], ids=" ".join)
@pytest.mark.parametrize("trap", ["link", "fifo", "device"])
def test_what_is_planted_in_a_targets_root_is_not_opened(
    tmp_path: Path, flags: tuple[str, ...], trap: str
) -> None:
    need_admin()
    victim = tmp_path / "of-the-host"
    victim.write_bytes(b"the host's file")
    folder = tmp_path / "root"
    folder.mkdir()
    program = own_root(folder, build("target", *flags))
    with in_root(folder, "set:NCCL_ALGO=Tree") as target, openings(victim) as opened:
        files = [one for one in folder.rglob("*") if one.is_file()]
        assert program in files
        for file in [*files, folder / "pyvenv.cfg", folder / "ld.so.cache"]:
            file.unlink(missing_ok=True)
            if trap == "link":
                file.symlink_to(victim)
            elif trap == "fifo":
                os.mkfifo(file)
            else:
                os.mknod(file, 0o666 | 0o020000, os.makedev(1, 5))  # /dev/zero: endless
        began = time.monotonic()
        run = cli.workers("--pid", str(target.pid), "--expect=NCCL_ALGO=Tree")
        spent = time.monotonic() - began
        matches(run, target)
    assert opened == []
    assert spent < 3
    assert (run.code, run.pids("set-late-unproven")) == (0, {target.pid})
    assert run.process(target.pid)["exe_deleted"] is True


# --- files that are replaced while they run -------------------------------------------------------


def with_library() -> tuple[Interpreter, Path]:
    """Return an interpreter whose code is in a shared libpython, and that library."""
    for python in reversed(interpreters.found()):
        listed = subprocess.run(["ldd", python.path], capture_output=True, text=True, check=False)
        library = re.search(r"libpython\S+ => (/\S+)", listed.stdout)
        if library:
            break
    else:
        missing("interpreters", "no interpreter with a shared libpython was found")
    return python, Path(library[1])


@pytest.mark.parametrize("replaced", [True, False], ids=["replaced", "unlinked"])
def test_an_interpreter_that_was_upgraded_while_it_ran(tmp_path: Path, replaced: bool) -> None:
    python, library = with_library()
    home = subprocess.run(
        [python.path, "-I", "-c", "import sys; print(sys.base_prefix)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    copies = [tmp_path / "python3", tmp_path / library.name]
    for source, copy in zip((python.path, library), copies, strict=True):
        shutil.copy(source, copy)
    env = {**SET, "LD_LIBRARY_PATH": str(tmp_path), "PYTHONHOME": home}
    with TitledTree(str(copies[0]), workers=2, env=env) as tree:
        pid = tree.worker(1)
        maps = Path(f"/proc/{pid}/maps").read_text()
        assert all(str(copy) in maps for copy in copies)
        for copy in copies:
            copy.unlink()
            if replaced:
                copy.write_bytes(b"another version")
        run = cli.workers("--pid", str(tree.root), *EXPECTED)
        for worker in tree.workers():
            assert {name: run.text(worker, name) for name in env} == tree.truth[worker] == env
    assert (run.code, run.loud(tree.reports)) == (0, [])
    for worker in tree.workers():
        process = run.process(worker)
        assert (process["exe"], process["exe_deleted"]) == (str(copies[0]), True)
        assert process["environments"]["libc"]["confidence"] == "proved"
        major, minor = python.version
        assert process["interpreter"].startswith(f"CPython {major}.{minor}")


# --- memory that never answers --------------------------------------------------------------------


@pytest.mark.root
def test_a_worker_whose_memory_never_answers(tmp_path: Path) -> None:
    need_admin()
    if not os.path.exists("/dev/fuse"):
        missing("fuse", "there is no /dev/fuse")
    with (
        CTarget(build("target"), env=SET, argv0="stalled-neighbour") as healthy,
        stalled("environ") as stuck,
    ):
        patterns = ("--match=*stalled_fuse.py hold *", "--match=stalled-neighbour")
        began = time.monotonic()
        run = cli.workers(*patterns, "--deadline=0.5", "--expect=NCCL_ALGO=Ring")
        spent = time.monotonic() - began
        stuck.wait_for_read()
        assert psutil.Process(stuck.pid).status() != psutil.STATUS_ZOMBIE
        assert run.workers() == {stuck.pid, healthy.pid}
        assert run.text(healthy.pid, "NCCL_ALGO") == "Ring"
    assert run.code == 3
    assert run.pids("worker-unreadable") == run.pids("env-unknown") == {stuck.pid}
    (finding,) = run.findings("worker-unreadable")
    assert "the memory of the process does not answer within 0.5 s" in finding["message"]
    assert "stalled file system" in finding["remedy"]
    assert run.reading(stuck.pid, "NCCL_ALGO")["state"] == "unreadable"
    assert run.reading(stuck.pid, "NCCL_ALGO", "exec")["state"] in ("absent", "value")
    assert spent < 3
