"""Snapshots of real trees."""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import dataclasses
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envprobe import collect as collecting
from envprobe.collect import Request, collect
from envprobe.errors import TargetGoneError, UndeterminedError
from envprobe.model import (
    BlockState,
    Carries,
    Confidence,
    EdgeKind,
    EnvironmentStatus,
    Process,
    Snapshot,
    State,
    View,
)
from envprobe.process import facts, selection
from envprobe.process.targets import resolve
from envprobe.process.tree import Listing, boot_offset, listing, outline
from tests.programs.actions import FORK, Action, execute, prctl, py_set, py_unset
from tests.programs.cbuild import build
from tests.programs.requirement import missing
from tests.programs.stalled_fuse import stalled
from tests.programs.trees import TitledTree

NCCL = {
    "NCCL_ALGO": "Ring",
    "NCCL_PROTO": "Simple",
    "NCCL_DEBUG": "",
    "NCCL_SOCKET_IFNAME": "lo=a\nb",
}
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, prctl(2)


def one(snapshot: Snapshot, pid: int | None) -> Process:
    assert pid is not None
    found = snapshot.process(pid)
    assert found is not None
    return found


def elsewhere(work: Callable[[], object]) -> object:
    """Do something in a forked child and give its result; a failure there is one here."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            with open(writing, "wb") as pipe:
                pickle.dump(work(), pipe)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writing)
    with open(reading, "rb") as pipe:
        raw = pipe.read()
    _, status = os.waitpid(child, 0)
    assert status == 0
    return pickle.loads(raw)


def test_eight_workers_are_read_as_they_see_themselves() -> None:
    with TitledTree(workers=8, env=NCCL) as tree:
        snapshot = collect(Request((tree.root,), ("NCCL_*",)))
        truth = tree.truth
    assert (snapshot.stable, snapshot.vanished, snapshot.roots) == (True, (), (tree.root,))
    assert [p.role.label for p in snapshot.processes if p.role.worker] == [
        f"scheduler TP{number}" for number in range(8)
    ]
    assert one(snapshot, tree.tracker).role.name == "resource tracker"
    assert one(snapshot, tree.root).role.name == "launcher"
    for pid, expected in truth.items():
        libc = one(snapshot, pid).environment(View.LIBC)
        assert libc.status is EnvironmentStatus.COMPLETE
        for name, value in expected.items():
            reading = libc.reading(name)
            assert reading.state is State.VALUE
            assert reading.value is not None
            assert os.fsdecode(reading.value.reveal()) == value


def test_a_snapshot_says_who_looked_at_what_and_when() -> None:
    begin = time.time()
    with TitledTree(workers=1) as tree:
        snapshot = collect(Request((tree.root,), ("NCCL_*", "PATH")))
        worker = one(snapshot, tree.worker(0))
        assert worker.cwd == os.readlink(f"/proc/{worker.pid}/cwd")
        assert worker.exe == os.readlink(f"/proc/{worker.pid}/exe")
    assert begin <= snapshot.started <= snapshot.ended <= time.time()
    assert snapshot.host == os.uname().nodename
    assert snapshot.wanted == ("NCCL_*", "PATH")
    assert (snapshot.reader_uid, snapshot.scans) == (os.geteuid(), 1)
    assert (worker.ppid, worker.uid, worker.secure) == (tree.root, os.geteuid(), False)
    assert worker.title == ("sglang::scheduler_TP0",)
    assert worker.comm == "sglang::schedul"
    assert worker.interpreter is not None
    assert worker.interpreter.version == ".".join(map(str, sys.version_info[:3]))
    assert worker.inner_pid is not None
    assert (worker.same_user_namespace, worker.same_mount_namespace) == (True, True)
    assert (worker.matched, worker.orphan, worker.ended) == (False, False, False)
    assert begin - 60 < worker.start_time < snapshot.ended


def test_the_secret_of_the_stack_protector_stays_in_the_target() -> None:
    with TitledTree(workers=1, detokenizer=False) as tree:
        snapshot = collect(Request((tree.root,), ()))
        with facts.ProcessHandle.open(tree.root) as handle, facts.Memory.open(handle) as memory:
            raw = handle.identity(memory).random
    assert raw
    assert one(snapshot, tree.root).identity.random not in ("", raw)


def test_only_wanted_values_are_kept() -> None:
    with TitledTree(workers=1, env={"NCCL_ALGO": "Ring", "HF_TOKEN": "hf_secret"}) as tree:
        snapshot = collect(Request((tree.root,), ("NCCL_*",)))
    for process in snapshot.processes:
        for view in process.environments.values():
            assert "HF_TOKEN" in view.entries
            assert view.entries["HF_TOKEN"] is None
            assert view.reading("HF_TOKEN").state is State.NOT_ASKED
            assert view.reading("NCCL_ALGO").state is State.VALUE
            assert view.reading("NCCL_PROTO").state is State.ABSENT


def test_patterns_of_names_tell_upper_from_lower_case() -> None:
    with TitledTree(workers=0, detokenizer=False, env={"Nccl_a": "1", "NCCL_A": "2"}) as tree:
        libc = one(collect(Request((tree.root,), ("NCCL_*",))), tree.root).environment(View.LIBC)
    assert libc.entries["Nccl_a"] is None
    assert libc.entries["NCCL_A"] is not None


def test_a_wiped_block_is_filled_in_from_the_tracker_and_says_so() -> None:
    with TitledTree(workers=1, env=NCCL) as tree:
        snapshot = collect(Request((tree.root,), ("NCCL_*",)))
    view = one(snapshot, tree.worker(0)).environment(View.EXEC)
    assert view.confidence is Confidence.INFERRED
    assert f"resource tracker {tree.tracker}" in view.source
    assert view.at == one(snapshot, tree.tracker).start_time
    assert view.own is not None
    assert view.own.block is BlockState.WIPED
    assert view.reading("NCCL_ALGO").state is State.VALUE


def test_an_intact_block_needs_no_tracker() -> None:
    with TitledTree(workers=1, env={**NCCL, "SPT_NOENV": "1"}) as tree:
        snapshot = collect(Request((tree.root,), ("NCCL_*",)))
    view = one(snapshot, tree.worker(0)).environment(View.EXEC)
    assert (view.block, view.status) == (BlockState.INTACT, EnvironmentStatus.COMPLETE)
    assert view.confidence is Confidence.PROVED
    assert view.at == one(snapshot, tree.worker(0)).start_time


def test_a_worker_that_a_shell_started_has_no_tracker_to_speak_for_it() -> None:
    shell = ("dash", "-c", '"$@"; exit $?', "dash")
    actions = {0: Action(method="subprocess", wrapper=shell)}
    with TitledTree(workers=2, env=NCCL, actions=actions) as tree:
        snapshot = collect(Request((tree.root,), ("NCCL_*",)))
    process = one(snapshot, tree.worker(0))
    assert (process.edge.kind, process.edge.carries) == (EdgeKind.EXEC, Carries.BUILT_BLOCK)
    assert process.environment(View.EXEC).status is EnvironmentStatus.UNREADABLE
    assert process.environment(View.LIBC).status is EnvironmentStatus.COMPLETE
    assert not process.orphan


def test_the_tracker_says_nothing_of_a_program_that_the_same_parent_started() -> None:
    env = {"PATH": os.defpath, "NCCL_ALGO": "Tree"}
    actions = {1: Action(method="subprocess", env=env)}
    with TitledTree(workers=2, env=NCCL, actions=actions) as tree:
        snapshot = collect(Request((tree.root,), ("NCCL_*",)))
    spawned, started = one(snapshot, tree.worker(0)), one(snapshot, tree.worker(1))
    assert (spawned.edge.kind, spawned.edge.confidence) == (EdgeKind.SPAWN, Confidence.PROVED)
    assert (started.edge.kind, started.role.worker) == (EdgeKind.EXEC, True)
    assert started.environment(View.EXEC).reading("NCCL_ALGO").state is State.UNREADABLE
    assert started.environment(View.EXEC).reading("NCCL_PROTO").state is State.UNREADABLE


def test_the_block_of_a_fork_child_is_that_of_another() -> None:
    actions = {
        0: Action(method="fork"),
        1: Action(method="forkserver"),
        2: Action(after_title=[FORK]),
    }
    with TitledTree(workers=3, env=NCCL, actions=actions) as tree:
        snapshot = collect(Request((tree.root,), ("NCCL_*",)))
        fork = tree.pid("root.w2.fork")
    owners = {tree.worker(0): tree.root, tree.worker(1): tree.forkserver, fork: tree.worker(2)}
    for pid, owner in owners.items():
        process = one(snapshot, pid)
        view = process.environment(View.EXEC)
        assert process.image_owner == owner
        assert view.status is EnvironmentStatus.NOT_APPLICABLE
        assert f"PID {owner}" in view.reason
        assert view.entries == {}
        assert process.environment(View.LIBC).reading("NCCL_ALGO").state is State.VALUE
    assert [one(snapshot, pid).edge.kind for pid in owners] == [
        EdgeKind.FORK,
        EdgeKind.FORKSERVER,
        EdgeKind.FORK,
    ]
    assert [one(snapshot, pid).role.worker for pid in owners] == [True, True, False]
    assert one(snapshot, fork).role.name == "fork of scheduler TP2"


def test_a_fork_child_as_the_root_belongs_to_an_image_outside_the_scan() -> None:
    with TitledTree(workers=1, actions={0: Action(method="fork")}) as tree:
        snapshot = collect(Request((tree.worker(0),), ()))
    assert len(snapshot.processes) == 1
    process = snapshot.processes[0]
    assert (process.image_owner, process.edge.kind) == (tree.root, EdgeKind.ROOT)
    assert process.environment(View.EXEC).status is EnvironmentStatus.NOT_APPLICABLE


# --- orphans


def orphaned() -> Action:
    return Action(exits=True, children=[Action(title="sglang::scheduler_TP9")])


def test_a_worker_whose_launcher_died_is_an_orphan_and_not_of_this_launch() -> None:
    with TitledTree(workers=2, actions={1: orphaned()}) as tree:
        lost = tree.pid("root.w1.0")
        snapshot = collect(Request((tree.root,), ()))
        without = collect(Request((tree.root,), (), orphans=False))
    process = one(snapshot, lost)
    assert (process.orphan, process.edge.kind, process.edge.parent) == (
        True,
        EdgeKind.UNKNOWN,
        None,
    )
    assert process.ppid != tree.root
    assert not one(snapshot, tree.worker(0)).orphan
    assert without.process(lost) is None
    ended = one(snapshot, tree.worker(1))
    assert (ended.ended, ended.state, ended.orphan) == (True, "Z", False)
    assert ended.environment(View.LIBC).status is EnvironmentStatus.UNREADABLE
    assert "zombie" in ended.environment(View.LIBC).reason


def test_orphans_and_the_dead_below_the_first_process_of_a_container(tmp_path: Path) -> None:
    tini = tmp_path / "tini"
    shutil.copy(build("subreaper"), tini)
    actions = {"root": Action(wrapper=(str(tini),)), 1: orphaned()}
    with TitledTree(workers=2, env=NCCL, actions=actions) as tree:
        lost, server = tree.pid("root.w1.0"), tree.pid("root")
        snapshot = collect(Request((tree.root,), ("NCCL_*",)))
        os.kill(lost, signal.SIGKILL)
        until(lambda: outline()[lost].state == "Z")
        later = collect(Request((tree.root,), ()))
    assert one(snapshot, tree.root).role.name == "init"
    launched, adopted = one(snapshot, server), one(snapshot, lost)
    assert (launched.edge.kind, launched.edge.carries) == (EdgeKind.EXEC, Carries.C_ENVIRON)
    assert launched.edge.launcher == "container init"
    assert (adopted.orphan, adopted.ppid) == (True, tree.root)
    assert (adopted.edge.kind, adopted.edge.parent) == (EdgeKind.UNKNOWN, tree.root)
    assert not one(snapshot, tree.worker(0)).orphan
    dead = one(later, lost)
    assert (dead.orphan, dead.ended, dead.role.name) == (False, True, "scheduler")


def under_a_subreaper(run_id: str) -> TitledTree:
    """Make a launch that dies below a subreaper that is itself a launch, with another run id."""
    launcher = Action(
        before_title=[py_set("SGLANG_RUN_ID", run_id)],
        exits=True,
        children=[Action(title="sglang::scheduler_TP9")],
    )
    root = Action(before_title=[prctl(SUBREAPER, 1)])
    return TitledTree(
        workers=2, env={"SGLANG_RUN_ID": "run-b"}, actions={"root": root, 1: launcher}
    )


def test_a_worker_with_another_run_id_is_an_orphan_where_a_python_adopted_it() -> None:
    with under_a_subreaper("run-a") as tree:
        snapshot = collect(Request((tree.root,), ()))
        lost = one(snapshot, tree.pid("root.w1.0"))
    assert (lost.ppid, lost.run_id, lost.orphan) == (tree.root, "run-a", True)
    assert [one(snapshot, tree.worker(0)).run_id, one(snapshot, tree.root).run_id] == ["run-b"] * 2
    assert not one(snapshot, tree.worker(0)).orphan


def test_a_worker_with_the_run_id_of_the_launch_is_none() -> None:
    with under_a_subreaper("run-b") as tree:
        snapshot = collect(Request((tree.root,), ()))
    assert not one(snapshot, tree.pid("root.w1.0")).orphan


# --- --match


@contextlib.contextmanager
def waiting(*arguments: str) -> Iterator[int]:
    program = "import sys; print('ready', flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        process.kill()
        process.wait(10)
        process.stdin.close()
        process.stdout.close()


def test_patterns_add_workers_that_hang_elsewhere() -> None:
    mark = f"--mark={os.getpid()}"
    actors = {0: Action(title=f"ray::Trainer{os.getpid()}.step"), 1: Action(title="ray::IDLE")}
    with (
        TitledTree(workers=1) as tree,
        TitledTree(workers=2, detokenizer=False, actions=actors) as ray,
        waiting(mark) as plain,
    ):
        match = (f"ray::Trainer{os.getpid()}.*", f"* {mark}")
        snapshot = collect(Request((tree.root,), (), match))
        alone = collect(Request((), (), match))
    actor, other = one(snapshot, ray.worker(0)), one(snapshot, plain)
    assert (actor.matched, actor.role.label, actor.role.worker) == (True, "actor", True)
    assert (other.matched, other.role.name, other.role.worker) == (True, "matched", True)
    assert (actor.ppid, actor.edge.parent) == (ray.root, None)
    assert f"PID {ray.root} (launcher)" in actor.edge.evidence[0]
    assert snapshot.process(ray.root) is None
    assert snapshot.process(ray.worker(1)) is None
    assert not one(snapshot, tree.worker(0)).matched
    assert sorted(p.pid for p in alone.processes if not p.orphan) == sorted((actor.pid, plain))
    assert alone.roots == ()


def test_a_pattern_makes_workers_of_unknown_processes_in_the_tree_too() -> None:
    with TitledTree(
        workers=1,
        detokenizer=False,
        actions={0: Action(title="", method="subprocess")},
    ) as tree:
        plain = one(collect(Request((tree.root,), ())), tree.worker(0))
        named = one(collect(Request((tree.root,), (), ("*root.w0",))), tree.worker(0))
    assert (plain.role.name, plain.role.worker) == ("python", False)
    assert (named.role.name, named.role.worker, named.matched) == ("matched", True, False)


def test_a_pattern_that_matches_nothing_is_no_verdict() -> None:
    with pytest.raises(UndeterminedError, match="no-workers") as raised:
        collect(Request((), (), ("no such process*",)))
    assert "ps -eo pid,args" in raised.value.remedy


def test_what_started_this_process_is_never_matched() -> None:
    found = listing()
    chosen = selection.select(found, (), ("*",), orphans=False)
    above = [pid for pid in found.ancestors(os.getpid()) if found[pid].title]
    assert above
    assert not {os.getpid(), *above}.intersection(chosen.pids)
    assert chosen.matched == tuple(
        sorted(
            pid
            for pid, member in found.items()
            if member.title and pid not in (os.getpid(), *above)
        )
    )


def test_a_scan_from_inside_the_tree_leaves_itself_out() -> None:
    def scan() -> tuple[set[int], int]:
        snapshot = collect(Request((os.getppid(),), (), orphans=False))
        return {process.pid for process in snapshot.processes}, os.getpid()

    with waiting() as sibling:
        found, own = elsewhere(scan)  # type: ignore[misc]
    assert {os.getpid(), sibling} <= found
    assert own not in found


# --- processes that come, go and change


def test_a_number_that_was_reused_is_not_read() -> None:
    look = facts.Look(lambda name: True, boot_offset(), 2.0)
    with waiting() as pid:
        listed = outline()[pid]
        assert look.read(listed) is not None
        assert look.read(dataclasses.replace(listed, start_ticks=listed.start_ticks - 1)) is None


def test_a_root_that_is_gone_or_a_zombie() -> None:
    with waiting() as pid:
        pass
    with pytest.raises(TargetGoneError, match=f"PID {pid}"):
        collect(Request((pid,), ()))
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(TargetGoneError, match=f"PID {process.pid}"):
            collect(Request((process.pid,), ()))
    finally:
        process.wait(10)


def test_one_of_two_roots_may_be_gone() -> None:
    with waiting() as gone:
        pass
    with waiting() as pid:
        snapshot = collect(Request((gone, pid), ()))
    assert [process.pid for process in snapshot.processes if not process.orphan] == [pid]


def after_reading(
    monkeypatch: pytest.MonkeyPatch, pid: int, act: Callable[[], None], marker: Path
) -> None:
    """Let something happen once, while the process is being read."""
    read = facts.read_libc

    def slow(handle: facts.ProcessHandle, *rest: object, **more: object) -> object:
        view = read(handle, *rest, **more)  # type: ignore[arg-type]
        if handle.pid == pid and not marker.exists():
            marker.touch()
            act()
        return view

    monkeypatch.setattr(facts, "read_libc", slow)


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.001)


def test_a_process_that_execs_while_it_is_read_is_read_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    up, fifo = tmp_path / "up", tmp_path / "fifo"
    os.mkfifo(fifo)
    shell = ("/bin/sh", "-c", f": > {up}; read _ < {fifo}")
    with TitledTree(workers=1, env={"NCCL_ALGO": "Ring"}) as tree:
        pid = tree.worker(0)

        def become() -> None:
            tree.tell(pid, py_unset("NCCL_ALGO"), execute(*shell), wait=False)
            until(up.exists)

        after_reading(monkeypatch, pid, become, tmp_path / "done")
        process = one(collect(Request((tree.root,), ("NCCL_*",))), pid)
    assert (tmp_path / "done").exists()
    assert process.title == shell
    assert not process.ended
    assert process.environment(View.LIBC).reading("NCCL_ALGO").state is State.ABSENT
    assert process.environment(View.EXEC).reading("NCCL_ALGO").state is State.ABSENT


def test_a_worker_that_ends_while_it_is_read_has_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with TitledTree(workers=2) as tree:
        pid = tree.worker(1)

        def end() -> None:
            os.kill(pid, signal.SIGKILL)
            until(lambda: outline()[pid].state == "Z")

        after_reading(monkeypatch, pid, end, tmp_path / "done")
        snapshot = collect(Request((tree.root,), ()))
        process = one(snapshot, pid)
    assert (process.ended, process.state) == (True, "Z")
    assert process.role.name == "scheduler"


def test_a_root_that_ends_while_it_is_read_is_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with waiting() as pid:

        def end() -> None:
            os.kill(pid, signal.SIGKILL)
            until(lambda: outline()[pid].state == "Z")

        after_reading(monkeypatch, pid, end, tmp_path / "done")
        with pytest.raises(TargetGoneError, match=f"PID {pid}"):
            collect(Request((pid,), ()))


def test_a_process_that_starts_meanwhile_is_found_by_the_next_scan(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with TitledTree(workers=1) as tree:
        pid = tree.worker(0)

        def fork() -> None:
            before = len(outline().children(pid))
            tree.tell(pid, FORK, wait=False)
            until(lambda: len(outline().children(pid)) > before)

        after_reading(monkeypatch, pid, fork, tmp_path / "done")
        snapshot = collect(Request((tree.root,), ()))
        children = outline().children(pid)
    assert (snapshot.scans, snapshot.stable) == (2, True)
    assert one(snapshot, children[0]).role.name == "fork of scheduler TP0"


def test_what_was_listed_and_is_gone_has_vanished(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reap = (
        "import os, subprocess, sys\n"
        "program = 'import time; time.sleep(60)'\n"
        "child = subprocess.Popen([sys.executable, '-c', program, 'sglang'])\n"
        "print('ready', flush=True)\n"
        "child.wait()\n"
        "sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", reap], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        (child,) = outline().children(process.pid)

        def end() -> None:
            os.kill(child, signal.SIGKILL)
            until(lambda: child not in outline())

        after_reading(monkeypatch, child, end, tmp_path / "done")
        snapshot = collect(Request((process.pid,), ()))
    finally:
        process.stdin.close()
        process.kill()
        process.wait(10)
        process.stdout.close()
    assert snapshot.stable
    assert [gone.pid for gone in snapshot.vanished] == [child]
    assert snapshot.vanished[0].title[-1] == "sglang"
    assert snapshot.process(child) is None


def test_a_tree_that_never_settles_is_said_to_be_unstable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with waiting() as pid:

        def younger() -> Listing:
            found = outline()
            return found.updated([dataclasses.replace(found[pid], start_ticks=1 << 60)])

        monkeypatch.setattr(collecting, "outline", younger)
        snapshot = collect(Request((pid,), (), orphans=False))
    assert (snapshot.stable, snapshot.scans) == (False, collecting.MAX_SCANS)
    assert [process.pid for process in snapshot.processes] == [pid]


# --- what cannot be read


def test_memory_that_never_answers_costs_the_deadline_and_the_libc_view_only() -> None:
    if os.geteuid() or not os.path.exists("/dev/fuse"):
        missing("fuse", "mounting a FUSE file system needs root and /dev/fuse")
    with stalled("environ") as target, waiting() as healthy:
        begin = time.monotonic()
        snapshot = collect(Request((target.pid, healthy), ("PATH",), deadline=0.3, orphans=False))
        spent = time.monotonic() - begin
    libc = one(snapshot, target.pid).environment(View.LIBC)
    assert libc.status is EnvironmentStatus.UNREADABLE
    assert "does not answer within 0.3 s" in libc.reason
    assert "NFS, FUSE" in libc.remedy
    assert one(snapshot, target.pid).environment(View.EXEC).reading("PATH").known
    assert one(snapshot, healthy).environment(View.LIBC).reading("PATH").known
    assert spent < 3


def test_the_death_of_the_reader_is_said_of_the_process_that_it_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = facts.read_libc

    with waiting() as bad, waiting() as good:

        def die(handle: facts.ProcessHandle, *rest: object, **more: object) -> object:
            if handle.pid == bad:
                os.kill(os.getpid(), signal.SIGKILL)
            return read(handle, *rest, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(facts, "read_libc", die)
        snapshot = collect(Request((bad, good), ("PATH",), orphans=False))
    libc = one(snapshot, bad).environment(View.LIBC)
    assert libc.status is EnvironmentStatus.UNREADABLE
    assert "ended the child that read it" in libc.reason
    assert libc.remedy
    assert one(snapshot, good).environment(View.LIBC).reading("PATH").known


def test_another_user_s_tree_keeps_its_roles_and_says_why_nothing_else_is_known() -> None:
    if os.geteuid():
        missing("root", "only root can become another user")

    def as_nobody() -> Snapshot:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        return collect(Request((tree.root,), ("NCCL_*",), orphans=False))

    with TitledTree(workers=2, env=NCCL) as tree:
        snapshot = elsewhere(as_nobody)
        assert isinstance(snapshot, Snapshot)
    assert snapshot.reader_uid == 65534
    workers = [p for p in snapshot.processes if p.role.worker]
    assert [process.role.label for process in workers] == ["scheduler TP0", "scheduler TP1"]
    for process in snapshot.processes:
        for view in (View.EXEC, View.LIBC):
            found = process.environment(view)
            assert found.status is EnvironmentStatus.UNREADABLE
            assert found.reason
            assert found.remedy
            assert found.reading("NCCL_ALGO").state is State.UNREADABLE
    assert [process.edge.kind for process in workers] == [EdgeKind.SPAWN] * 2


CLONE_NEWNS, MS_PRIVATE, MS_REC, PR_SET_DUMPABLE = 0x20000, 1 << 18, 1 << 14, 4


def as_nobody_under_hidepid(level: int) -> None:
    """Become another user, for whom /proc shows nothing of other users' processes."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert not libc.unshare(CLONE_NEWNS), os.strerror(ctypes.get_errno())
    assert not libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    assert not libc.mount(b"proc", b"/proc", b"proc", 0, b"hidepid=%d" % level)
    codecs.lookup("ascii")  # the other user may not be able to read the library's files
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    # Another user id makes a process undumpable, and so hidden from its own user.
    assert not libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


@pytest.mark.parametrize("level", [1, 2])
def test_processes_that_proc_hides_are_not_said_to_be_gone(level: int) -> None:
    if os.geteuid():
        missing("root", "only root can mount a /proc with hidepid")

    def refused(act: Callable[[], object]) -> str:
        with pytest.raises(UndeterminedError) as raised:
            act()
        return raised.value.message

    def look() -> tuple[tuple[str, ...], list[str]]:
        as_nobody_under_hidepid(level)
        child = os.fork()
        if not child:
            signal.pause()
        try:
            snapshot = collect(Request((child,), (), orphans=False))
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        one(snapshot, child)
        said = [
            refused(lambda: resolve(pid=hidden)),
            refused(lambda: collect(Request((hidden,), ()))),
        ]
        return snapshot.notes, said

    with waiting() as hidden:
        notes, said = elsewhere(look)  # type: ignore[misc]
    told = f"process {hidden} exists, but this /proc hides it (mount option hidepid)"
    assert said == [told] * 2
    # With hidepid=2 there is nothing that could be counted.
    assert [("hidden from this user" in note) for note in notes] == [True] * (level == 1)


def test_a_kernel_thread_is_named_as_such() -> None:
    threads = [member.pid for member in outline().values() if member.kernel_thread]
    if not threads:
        pytest.skip("kernel threads: this pid namespace shows none")
    process = one(collect(Request((max(threads),), (), orphans=False)), max(threads))
    assert process.role.name == "kernel thread"
    assert "kernel thread" in process.environment(View.LIBC).reason


def test_ranks_of_a_launcher_are_numbered_by_its_variable(tmp_path: Path) -> None:
    script = tmp_path / "torchrun"
    script.write_text(
        "import os, subprocess, sys\n"
        "wait = 'import os, sys; os.write(1, b\"ready\\\\n\"); sys.stdin.read()'\n"
        "for rank in range(2):\n"
        "    os.environ['RANK'] = str(rank)\n"
        "    subprocess.Popen([sys.executable, '-c', wait])\n"
        "sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert [process.stdout.readline() for _ in range(2)] == [b"ready\n"] * 2
        snapshot = collect(Request((process.pid,), (), orphans=False))
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()
    assert [p.role.label for p in snapshot.processes] == ["launcher", "rank RANK0", "rank RANK1"]
    assert [p.role.worker for p in snapshot.processes] == [False, True, True]
