"""What other programs on the way do to a variable: shells, env, sudo, setpriv, launchers that died.

And programs that are no Python: whatever they are linked with, their own getenv is the truth.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.programs import cli, interpreters
from tests.programs.actions import Action, prctl, py_set, py_unset
from tests.programs.cbuild import build
from tests.programs.cli import Run
from tests.programs.ctarget import CTarget
from tests.programs.requirement import missing
from tests.programs.trees import TitledTree

PROGRAM, WORKER, DROPPED = "rewritten-by-program", "changed-in-worker", "dropped-around-spawn"
PARENT, STARTED = "changed-in-parent", "set-after-start"
PR_SET_CHILD_SUBREAPER = 36
NOBODY = 65534

# --- shells and wrappers -------------------------------------------------------------------------

SCRIPT = "export NCCL_NEW=2; unset NCCL_OLD; "
STAYS, EXECS = SCRIPT + '"$@"; true', SCRIPT + 'exec "$@"'
NAMES = ["NCCL_NEW", "NCCL_OLD", "NCCL_KEPT"]


def _through(*wrapper: str) -> Action:
    return Action(method="subprocess", wrapper=wrapper)


@pytest.fixture(scope="module")
def wrappers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A script that multiprocessing starts in place of the interpreter."""
    path = tmp_path_factory.mktemp("wrapper") / "python"
    path.write_text(f'#!/bin/sh\nunset NCCL_OLD\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module", params=["wiped", "intact"])
def wrapped(request: pytest.FixtureRequest, wrappers: Path) -> Iterator[tuple[TitledTree, Run]]:
    for shell in ("dash", "bash"):
        if shutil.which(shell) is None:
            missing(shell, f"{shell} is not installed")
    actions: dict[int | str, Action] = {
        1: _through("dash", "-c", STAYS, "sh"),
        2: _through("bash", "-c", STAYS, "sh"),
        3: _through("dash", "-c", EXECS, "sh"),
        4: _through("env", "-u", "NCCL_OLD"),
        5: Action(executable=str(wrappers)),
        6: _through("timeout", "300", "dash", "-c", 'exec env -u NCCL_OLD "$@"', "sh"),
    }
    keep = {"SPT_NOENV": "1"} if request.param == "intact" else {}
    env = {"NCCL_OLD": "1", "NCCL_KEPT": "1", **keep}
    with TitledTree(workers=7, env=env, actions=actions, names=["NCCL_NEW"]) as tree:
        run = cli.judge("--pid", str(tree.root), "--expect=NCCL_OLD", "--expect=NCCL_KEPT=1")
        yield tree, run


def _is_wiped(run: Run, pid: int) -> bool:
    return bool(run.process(pid)["environments"]["exec"]["block"] != "intact")


def test_the_verdict_on_all_wrappers(wrapped: tuple[TitledTree, Run]) -> None:
    tree, run = wrapped
    for pid in tree.workers():
        assert {name: run.text(pid, name) for name in NAMES} == {
            name: tree.truth[pid][name] for name in NAMES
        }
        assert run.spans(pid, "NCCL_KEPT") == []
    assert run.code == 1
    errors = [one for one in run.loud(tree.reports) if one["severity"] == "error"]
    assert {(one["check"], one["variable"]) for one in errors} == {("env-missing", "NCCL_OLD")}
    assert run.pids("env-missing") == set(tree.workers()[1:])
    assert run.spans(tree.worker(0), "NCCL_OLD") == []


def test_a_dash_that_stays_is_no_view_of_what_its_child_got(
    wrapped: tuple[TitledTree, Run],
) -> None:
    """dash never updates its C environ: that it shows the old state there is no break."""
    tree, run = wrapped
    pid = tree.worker(1)
    shell = psutil.Process(pid).ppid()
    wiped = _is_wiped(run, pid)
    own = (pid, "libc" if wiped else "exec")
    (lost,), (came,) = run.spans(pid, "NCCL_OLD"), run.spans(pid, "NCCL_NEW")
    assert (lost.change, lost.before, lost.after) == ("lost", (shell, "exec"), own)
    assert (came.change, came.before, came.after) == ("appeared", (shell, "exec"), own)
    assert lost.causes == {PROGRAM, WORKER} if wiped else {PROGRAM}
    assert came.causes == {PROGRAM, STARTED} if wiped else {PROGRAM}
    assert lost.confidence == came.confidence == ("inferred" if wiped else "proved")


def test_a_bash_that_stays_shows_it_in_its_own_environ(wrapped: tuple[TitledTree, Run]) -> None:
    tree, run = wrapped
    pid = tree.worker(2)
    shell = psutil.Process(pid).ppid()
    (lost,), (came,) = run.spans(pid, "NCCL_OLD"), run.spans(pid, "NCCL_NEW")
    between = ((shell, "exec"), (shell, "libc"))
    assert (lost.change, lost.before, lost.after) == ("lost", *between)
    assert (came.change, came.before, came.after) == ("appeared", *between)
    assert (lost.causes, lost.confidence) == ({PARENT}, "proved")
    assert (came.causes, came.confidence) == ({STARTED}, "proved")


@pytest.mark.parametrize("worker", [3, 4], ids=["sh -c exec", "env -u"])
def test_a_program_that_execs_in_place_leaves_no_process(
    wrapped: tuple[TitledTree, Run], worker: int
) -> None:
    """It looks like env= or a removal around the spawn, so both are told."""
    tree, run = wrapped
    pid = tree.worker(worker)
    assert psutil.Process(pid).ppid() == tree.root
    assert run.process(pid)["edge"]["kind"] == "exec"
    (lost,) = run.spans(pid, "NCCL_OLD")
    wiped = _is_wiped(run, pid)
    assert (lost.before, lost.after) == (
        (tree.root, "libc"),
        (pid, "libc" if wiped else "exec"),
    )
    assert lost.causes == ({PROGRAM, DROPPED, WORKER} if wiped else {PROGRAM, DROPPED})
    assert (lost.change, lost.confidence) == ("lost", "inferred")


def test_timeout_is_not_blamed_for_what_ran_below_it(wrapped: tuple[TitledTree, Run]) -> None:
    """timeout changes no variable: a dash and an env that exec'd in place came after it."""
    tree, run = wrapped
    pid = tree.worker(6)
    launcher = psutil.Process(pid).ppid()
    (lost,) = run.spans(pid, "NCCL_OLD")
    assert lost.before == (launcher, "libc")
    assert PROGRAM in lost.causes
    told = [one for one in run.findings("env-missing", "NCCL_OLD") if pid in one["pids"]]
    evidence = str(told[0]["evidence"])
    assert f"A program that exec'd between wrapper (PID {launcher}) and " in evidence
    assert "timeout itself changes no variable" in evidence
    assert "identifiers" not in evidence


def test_a_wrapper_that_multiprocessing_was_told_to_start(
    wrapped: tuple[TitledTree, Run],
) -> None:
    """It is the parent's own doing, and told as one of its ways to give a child something else."""
    tree, run = wrapped
    pid = tree.worker(5)
    (edge,) = (run.process(pid)["edge"],)
    assert (edge["kind"], edge["parent"]) == ("spawn", tree.root)
    (lost,) = run.spans(pid, "NCCL_OLD")
    if _is_wiped(run, pid):
        assert (lost.before, lost.after) == ((pid, "exec"), (pid, "libc"))
        assert lost.causes == {DROPPED, WORKER, PROGRAM}
    else:
        assert (lost.before, lost.after) == ((tree.root, "libc"), (pid, "exec"))
        assert lost.causes == {DROPPED, PROGRAM}
    told = [one for one in run.findings("env-missing", "NCCL_OLD") if pid in one["pids"]]
    assert "set_executable" in str(told[0]["evidence"])
    assert "set_executable" in told[0]["remedy"]


def test_env_around_the_server_leaves_nothing_to_be_seen() -> None:
    actions: dict[int | str, Action] = {"root": Action(wrapper=["env", "-u", "NCCL_OLD"])}
    with TitledTree(workers=1, env={"NCCL_OLD": "1"}, actions=actions) as tree:
        run = cli.judge("--pid", str(tree.root), "--expect=NCCL_OLD")
        pid = tree.worker(0)
        assert tree.truth[pid] == {"NCCL_OLD": None}
        assert (run.code, run.pids("env-missing", "NCCL_OLD")) == (1, {pid})
        (found,) = run.spans(pid, "NCCL_OLD")
        assert (found.change, found.causes) == ("never_there", {"never-set"})
        assert found.before == (tree.root, "exec")


# --- other users ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def users() -> Iterator[TitledTree]:
    """Workers through sudo and setpriv, with an interpreter that every user can run."""
    if os.getuid():
        missing("root", "sudo and setpriv need root here")
    for program in ("sudo", "setpriv"):
        if shutil.which(program) is None:
            missing("sudo", f"{program} is not installed")
    python = next((one.path for one in interpreters.found() if _for_all(one.path)), None)
    if python is None or not _for_all(str(Path(__file__).parents[1] / "programs" / "titled.py")):
        missing("debian-python", "no interpreter, or not the target program, is open to all users")
    actions: dict[int | str, Action] = {
        1: _through("sudo", "-E"),
        2: _through("sudo", "-E", "-u", "nobody"),
        3: _through("sudo"),
        4: _through("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    }
    env = {"PYTHONPATH": "/opt/hooks", "NCCL_KEPT": "1"}
    with TitledTree(python, workers=5, env=env, actions=actions) as tree:
        yield tree


def _for_all(path: str) -> bool:
    """Return whether everybody can reach and read a file."""
    real = Path(path).resolve()
    open_to_all = all(folder.stat().st_mode & stat.S_IXOTH for folder in real.parents)
    return open_to_all and bool(real.stat().st_mode & stat.S_IROTH)


def test_sudo_takes_pythonpath_away_even_with_its_option_e(users: TitledTree) -> None:
    run = cli.judge(
        "--pid", str(users.root), "--expect=PYTHONPATH~=/opt/hooks", "--expect=NCCL_KEPT=1"
    )
    for pid in users.workers():
        assert {name: run.text(pid, name) for name in users.truth[pid]} == users.truth[pid]
    assert run.code == 1
    assert run.pids("env-missing", "PYTHONPATH") == {users.worker(number) for number in (1, 2, 3)}
    assert run.pids("env-missing", "NCCL_KEPT") == {users.worker(3)}
    for number, name in ((1, "PYTHONPATH"), (2, "PYTHONPATH"), (3, "PYTHONPATH"), (3, "NCCL_KEPT")):
        pid = users.worker(number)
        (lost,) = run.spans(pid, name)
        sudo = run.process(run.process(pid)["edge"]["parent"])
        assert (sudo["comm"], sudo["role"]["name"]) == ("sudo", "wrapper")
        assert (lost.before, lost.after) == ((sudo["pid"], "exec"), (pid, "libc"))
        assert lost.causes == {PROGRAM, WORKER}
    assert "sudoers(5)" in str(run.findings("env-missing", "PYTHONPATH"))


def test_workers_of_another_user_are_read_by_root(users: TitledTree) -> None:
    run = cli.judge("--pid", str(users.root), "--expect=NCCL_KEPT=1", "--var=NCCL_KEPT")
    pid = users.worker(4)
    assert run.process(pid)["uid"] == run.process(users.worker(2))["uid"] == NOBODY
    assert run.text(pid, "NCCL_KEPT") == users.truth[pid]["NCCL_KEPT"] == "1"
    assert run.code == 1
    assert pid not in run.pids("env-missing")


def test_another_user_is_told_what_it_may_not_read(users: TitledTree) -> None:
    """It reads what runs as itself, and takes nothing that it cannot read for absent."""
    run = cli.judge_as(NOBODY, "--pid", str(users.root), "--expect=NCCL_KEPT=1")
    refused = {users.worker(number) for number in (0, 1, 3)}
    assert run.code == 3
    assert run.pids("worker-unreadable") == run.pids("env-unknown") == refused
    assert [one for one in run.findings() if one["check"] == "env-missing"] == []
    for number in (2, 4):
        assert run.text(users.worker(number), "NCCL_KEPT") == "1"
    for pid in refused:
        reading = run.reading(pid, "NCCL_KEPT")
        assert reading["state"] == "unreadable"
        assert "CAP_SYS_PTRACE" in reading["reason"] + reading["remedy"]


# --- launchers that died -------------------------------------------------------------------------


def _left_behind(**root: object) -> dict[int | str, Action]:
    worker = Action(title="sglang::scheduler_TP0")
    changes = [py_set("NCCL_ADDED", "1"), py_unset("NCCL_KEPT")]
    middle = Action(title="", before_title=changes, children=[worker], exits=True)
    return {"root": Action(**root), 0: middle}  # type: ignore[arg-type]


def test_a_worker_whose_launcher_died_is_not_counted() -> None:
    """Whoever adopts it here, pid 1 or a subreaper, the launch it belongs to is gone."""
    with TitledTree(workers=2, env={"NCCL_KEPT": "1"}, actions=_left_behind()) as tree:
        orphan = tree.pid("root.w0.0")
        assert psutil.Process(orphan).ppid() not in tree.reports
        run = cli.judge("--pid", str(tree.root), "--expect=NCCL_KEPT=1")
        assert (run.code, run.workers()) == (0, {tree.worker(1)})
        loud = {(one["check"], one["severity"]) for one in run.loud(tree.reports)}
        # Of the one between, which was the launcher's child and had no title, a zombie is left.
        assert loud == {("orphan-worker", "warning"), ("worker-vanished", "warning")}
        assert run.pids("worker-vanished") == {tree.pid("root.w0")}
        assert orphan in run.pids("orphan-worker")
        assert run.process(orphan)["edge"]["kind"] == "unknown"
        alone = cli.judge("--pid", str(orphan))
        assert (alone.code, alone.workers()) == (3, set())
        assert orphan in alone.pids("orphan-worker")
        assert alone.findings("no-workers")[0]["undetermined"]


def test_a_grandchild_that_a_subreaper_adopted_belongs_to_the_tree() -> None:
    """Nothing shows that the server did not start it, so it is told as the server's child."""
    actions = _left_behind(before_title=[prctl(PR_SET_CHILD_SUBREAPER, 1)])
    with TitledTree(workers=2, env={"NCCL_KEPT": "1"}, actions=actions) as tree:
        pid = tree.pid("root.w0.0")
        assert psutil.Process(pid).ppid() == tree.root
        run = cli.judge("--pid", str(tree.root), "--expect=NCCL_KEPT=1")
        assert tree.truth[pid] == {"NCCL_KEPT": None, "NCCL_ADDED": "1"}
        assert run.workers() == {pid, tree.worker(1)}
        assert (run.code, run.pids("env-missing", "NCCL_KEPT")) == (1, {pid})
        assert run.pids("orphan-worker") & set(tree.reports) == set()
        (lost,), (came,) = run.spans(pid, "NCCL_KEPT"), run.spans(pid, "NCCL_ADDED")
        assert (lost.before, lost.after) == (came.before, came.after)
        assert (lost.before, lost.after) == ((pid, "exec"), (pid, "libc"))
        assert lost.causes == {DROPPED, PROGRAM, WORKER}
        assert came.causes == {DROPPED, PROGRAM, STARTED}
        assert lost.confidence == came.confidence == "inferred"


def test_an_adopter_is_never_proved_to_have_started_what_it_adopted() -> None:
    """The grandchild holds the tracker's pipe as the adopter's own children do."""
    actions = _left_behind(before_title=[prctl(PR_SET_CHILD_SUBREAPER, 1)])
    env = {"NCCL_KEPT": "1", "SPT_NOENV": "1"}
    with TitledTree(workers=2, env=env, actions=actions) as tree:
        pid = tree.pid("root.w0.0")
        run = cli.judge("--pid", str(tree.root), "--expect=NCCL_KEPT=1")
        assert (run.code, run.pids("env-missing", "NCCL_KEPT")) == (1, {pid})
        (lost,) = run.spans(pid, "NCCL_KEPT")
        assert (lost.before, lost.after) == ((tree.root, "libc"), (pid, "exec"))
        assert DROPPED in lost.causes
        assert lost.confidence == "inferred"
        assert run.process(tree.worker(1))["edge"]["confidence"] == "proved"


# --- programs that are no Python -----------------------------------------------------------------

BUILDS = {
    "copy-relocated": ("gcc", ("-DREFER", "-fPIE", "-pie")),
    "no-pie": ("gcc", ("-DREFER", "-no-pie")),
    "libc's own slot": ("gcc", ("-fPIC",)),
    "static": ("gcc", ("-static",)),
    "static and stripped": ("gcc", ("-static", "-s")),
    "musl": ("musl-gcc", ()),
    "static musl": ("musl-gcc", ("-static",)),
}
SET = {
    "NCCL_ALGO": "Ring",
    "NCCL_PROTO": "Simple",
    "NCCL_BUFFSIZE": "8388608",
    "NCCL_MIN_NCHANNELS": "4",
    "NCCL_NTHREADS": "256",
    "NCCL_SOCKET_IFNAME": "eth0",
}
_runs = iter(range(1 << 30))


def tag() -> str:
    """Return a name that no other process of this machine has as its title."""
    return f"envprobe-program-{os.getpid()}-{next(_runs)}"


@pytest.mark.parametrize("name", BUILDS)
def test_every_kind_of_program(name: str) -> None:
    compiler, flags = BUILDS[name]
    title = tag()
    arguments = ("set:NCCL_ADDED=x", "unset:NCCL_NTHREADS", "put:NCCL_PROTO=LL")
    with CTarget(
        build("target", *flags, compiler=compiler), *arguments, env=SET, argv0=title
    ) as target:
        truth = {one: target.getenv(one) for one in (*SET, "NCCL_ADDED")}
        expect = [
            f"--expect={one}" if value is None else f"--expect={one}={value.decode()}"
            for one, value in truth.items()
        ]
        run = cli.judge("--match", title, *expect)
    found = {one: run.text(target.pid, one) for one in truth}
    assert found == {k: None if v is None else os.fsdecode(v) for k, v in truth.items()}
    assert found == {**SET, "NCCL_ADDED": "x", "NCCL_PROTO": "LL", "NCCL_NTHREADS": None}
    errors = [
        (one["check"], one["variable"], one["pids"])
        for one in run.loud([target.pid])
        if one["severity"] == "error"
    ]
    assert (run.code, errors) == (1, [("env-missing", "NCCL_NTHREADS", [target.pid])])
    assert run.pids("set-late-unproven", "NCCL_PROTO") == {target.pid}
    (lost,) = run.spans(target.pid, "NCCL_NTHREADS")
    assert (lost.before, lost.after) == ((target.pid, "exec"), (target.pid, "libc"))
    assert lost.causes == {WORKER}
    guessed = "stripped" in name
    assert lost.confidence == ("inferred" if guessed else "proved")
    assert run.findings("env-missing")[0]["confidence"] == lost.confidence


def test_a_static_and_stripped_musl_program() -> None:
    """musl forgets no array that it made: after a change nothing tells which one counts."""
    program, title = build("target", "-static", "-s", compiler="musl-gcc"), tag()
    with CTarget(program, env=SET, argv0=title) as target:
        run = cli.judge("--match", title, *(f"--expect={one}={SET[one]}" for one in SET))
        assert (run.code, run.loud([target.pid])) == (0, [])
        assert run.workers() == {target.pid}
        readings = [run.reading(target.pid, one) for one in SET]
        assert {one["confidence"] for one in readings} == {"inferred"}
        assert [run.text(target.pid, one) for one in SET] == list(SET.values())
        target.act("set:NCCL_ALGO=Tree")
        run = cli.judge("--match", title, "--expect=NCCL_ALGO=Ring")
        assert run.code == 3
        assert run.pids("worker-unreadable") == run.pids("env-unknown") == {target.pid}
        assert "static and stripped" in run.reading(target.pid, "NCCL_ALGO")["reason"]


def test_a_program_that_cleared_its_environ_has_no_variable() -> None:
    title = tag()
    with CTarget(build("target"), "clear", env=SET, argv0=title) as target:
        assert target.getenv("NCCL_ALGO") is None
        run = cli.judge("--match", title, "--expect=NCCL_ALGO")
    assert (run.code, run.pids("env-missing", "NCCL_ALGO")) == (1, {target.pid})
    libc = run.process(target.pid)["environments"]["libc"]
    assert (libc["status"], libc["variables"]) == ("complete", 0)
    (lost,) = run.spans(target.pid, "NCCL_ALGO")
    assert (lost.causes, lost.confidence) == ({WORKER}, "proved")


def test_a_preloaded_library_that_defines_environ_alone_hides_nothing() -> None:
    library, title = build("only_environ", "-shared", "-fPIC"), tag()
    env = {**SET, "LD_PRELOAD": str(library)}
    with CTarget(build("target", "-fPIC"), "unset:NCCL_NTHREADS", env=env, argv0=title) as target:
        assert str(library) in {one.path for one in psutil.Process(target.pid).memory_maps()}
        truth = {one: target.getenv(one) for one in SET}
        run = cli.judge("--match", title, *(f"--expect={one}" for one in SET))
    assert {one: run.text(target.pid, one) for one in SET} == {**SET, "NCCL_NTHREADS": None}
    assert truth == {k: v.encode() for k, v in SET.items() if k != "NCCL_NTHREADS"} | {
        "NCCL_NTHREADS": None
    }
    assert (run.code, run.pids("env-missing")) == (1, {target.pid})
    assert [one["variable"] for one in run.findings("env-missing")] == ["NCCL_NTHREADS"]


def test_a_program_whose_main_thread_has_left() -> None:
    title = tag()
    with CTarget(build("main_gone", "-pthread"), env=SET, argv0=title) as target:
        run = cli.judge("--match", title, "--expect=NCCL_ALGO=Ring", "--expect=!SET_BY")
    assert run.process(target.pid)["state"] == "Z"
    assert (run.code, run.pids("env-forbidden", "SET_BY")) == (1, {target.pid})
    assert [one for one in run.findings() if one["variable"] == "NCCL_ALGO"] == []
    assert run.text(target.pid, "SET_BY") == "thread"


def test_of_duplicates_the_first_counts(tmp_path: Path) -> None:
    program = tmp_path / f"{tag()}-target"
    shutil.copy(build("target"), program)
    entries = ["NCCL_ALGO=Ring", "NCCL_PROTO=LL", "NCCL_ALGO=Tree", "no equals sign", "=odd"]
    with CTarget(build("launch"), str(program), *entries) as target:
        assert target.getenv("NCCL_ALGO") == b"Ring"
        right = cli.judge("--match", str(program), "--expect=NCCL_ALGO=Ring")
        wrong = cli.judge("--match", str(program), "--expect=NCCL_ALGO=Tree")
    for run, code in ((right, 0), (wrong, 1)):
        assert run.code == code
        assert [one["variable"] for one in run.findings("duplicate-variable")] == ["NCCL_ALGO"]
        assert run.pids("duplicate-variable") == {target.pid}
        assert run.text(target.pid, "NCCL_ALGO") == run.text(target.pid, "NCCL_ALGO", "exec")
    assert right.findings("env-wrong-value") == []
    assert wrong.pids("env-wrong-value", "NCCL_ALGO") == {target.pid}
    environments = right.process(target.pid)["environments"]
    for view in ("exec", "libc"):
        odd = [one["text"] for one in environments[view]["oddities"]]
        assert (odd, environments[view]["status"]) == (["no equals sign", "=odd"], "complete")


def test_a_program_that_starts_no_worker_is_no_success() -> None:
    sleeper = subprocess.Popen(["sleep", "1000"])
    try:
        run = cli.workers("--pid", str(sleeper.pid), "--expect=PATH")
    finally:
        sleeper.kill()
        sleeper.wait()
    (finding,) = run.findings("no-workers")
    assert (run.code, finding["undetermined"], finding["pids"]) == (3, True, [sleeper.pid])
