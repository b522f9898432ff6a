"""What Python code did to a variable, and what envprobe must say of it: stated in advance.

Each case is one worker of a real tree and one variable of its own. With SPT_NOENV=1 the workers'
blocks survive; without it they are wiped, and some causes cannot be told apart any more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from tests.programs import cli
from tests.programs.actions import (
    CLEARENV,
    FORK,
    LEAVE_MAIN_THREAD,
    START_FORKSERVER,
    Action,
    c_putenv,
    c_setenv,
    c_unsetenv,
    py_set,
    py_unset,
)
from tests.programs.cli import Run, Span
from tests.programs.trees import TitledTree

PARENT, DROPPED, LATE = "changed-in-parent", "dropped-around-spawn", "set-late-in-parent"
WORKER, PROGRAM, STARTED = "changed-in-worker", "rewritten-by-program", "set-after-start"
FROZEN, FORKED = "frozen-in-forkserver", "fork-child"

ON, OFF = "on", "off"
ROOT_EXEC, ROOT_LIBC = ("root", "exec"), ("root", "libc")
OWN_EXEC, OWN_LIBC = ("own", "exec"), ("own", "libc")


@dataclasses.dataclass(frozen=True)
class Case:
    """The verdict on one variable, which is expected to be "on" in all workers.

    `worker` None stands for all of them. `change` "" means that nothing is wrong with it. `before`
    and `after` name a process by its key, or "own".
    """

    variable: str
    worker: int | None = None
    change: str = ""
    before: tuple[str, str] = ROOT_EXEC
    after: tuple[str, str] = OWN_LIBC
    causes: tuple[str, ...] = ()
    proved: bool = False


def check(tree: TitledTree, case: Case) -> Run:
    """Scan with one expectation; compare code, findings, processes, break and causes."""
    run = cli.judge("--pid", str(tree.root), f"--expect={case.variable}={ON}")
    for pid in tree.workers():
        assert run.text(pid, case.variable) == tree.truth[pid][case.variable]
    concerned = tree.workers() if case.worker is None else [tree.worker(case.worker)]
    errors = [
        (one["check"], one["variable"], set(one["pids"]))
        for one in run.loud(tree.reports)
        if one["severity"] == "error"
    ]
    if not case.change:
        assert (run.code, errors) == (0, [])
        assert [one for one in run.loud(tree.reports) if one["variable"] == case.variable] == []
        return run
    changed = case.change == "changed"
    slug = "env-wrong-value" if changed else "env-missing"
    assert run.code == 1
    assert errors == [(slug, case.variable, set(concerned))]
    for pid in concerned:
        assert tree.truth[pid][case.variable] == (OFF if changed else None)
        found = run.arriving(pid, case.variable)[-1]
        assert _as_case(tree, pid, found) == (
            case.change,
            case.before,
            case.after,
            set(case.causes),
            "proved" if case.proved else "inferred",
        )
        assert not found.causes & found.excluded
    return run


def _as_case(tree: TitledTree, pid: int, found: Span) -> tuple[object, ...]:
    def named(place: tuple[int, str]) -> tuple[str, str]:
        if place[0] == pid:
            return ("own", place[1])
        keys = {one.pid: one.key for one in tree.reports.values()}
        keys |= {tree.forkserver: "forkserver"} if tree.forkserver else {}
        return (keys.get(place[0], f"PID {place[0]}"), place[1])

    return (
        found.change,
        named(found.before),
        named(found.after),
        set(found.causes),
        found.confidence,
    )


def temporarily_without(name: str) -> Action:
    """The parent takes a variable away around one start."""
    return Action(parent_before=[py_unset(name)], parent_after=[py_set(name, ON)])


# --- spawn and subprocess, with and without the workers' blocks ----------------------------------

VARIABLES = [
    "NCCL_X_PLAIN",
    "NCCL_X_PARENT_UNSET",
    "NCCL_X_PARENT_UNSET_LATE",
    "NCCL_X_DROPPED",
    "NCCL_X_PY_SET",
    "NCCL_X_C_SETENV",
    "NCCL_X_C_PUTENV",
    "NCCL_X_PY_UNSET",
    "NCCL_X_C_UNSETENV",
    "NCCL_X_BEFORE_TITLE",
    "NCCL_X_ENV",
]
ENV = {"NCCL_X_FIRST": "1", **dict.fromkeys(VARIABLES, ON)}


def spawned(env: dict[str, str], last_title: str | None) -> TitledTree:
    """Return the tree of both groups of cases."""
    given = {name: value for name, value in env.items() if name != "NCCL_X_ENV"}
    given |= {"NCCL_X_PARENT_SET": ON, "LANG": "C.UTF-8"}
    del given["NCCL_X_PARENT_UNSET"]
    actions: dict[int | str, Action] = {
        "root": Action(
            before_title=[py_unset("NCCL_X_PARENT_UNSET"), py_set("NCCL_X_PARENT_SET", ON)],
            after_title=[
                py_set("NCCL_X_PARENT_SET_LATE", ON),
                py_unset("NCCL_X_PARENT_UNSET_LATE"),
            ],
        ),
        1: temporarily_without("NCCL_X_DROPPED"),
        2: Action(after_title=[py_set("NCCL_X_PY_SET", OFF)]),
        3: Action(after_title=[c_setenv("NCCL_X_C_SETENV", OFF)]),
        4: Action(after_title=[c_putenv("NCCL_X_C_PUTENV", OFF)]),
        5: Action(after_title=[py_unset("NCCL_X_PY_UNSET")]),
        6: Action(after_title=[c_unsetenv("NCCL_X_C_UNSETENV")]),
        7: Action(before_title=[py_set("NCCL_X_BEFORE_TITLE", OFF)]),
        8: Action(method="subprocess", env=given),
        9: Action(title=last_title),
    }
    return TitledTree(workers=10, env=env, actions=actions)


@pytest.fixture(scope="module")
def wiped() -> Iterator[TitledTree]:
    with spawned(ENV, "sglang::scheduler" + "_TP9" * 100) as tree:
        yield tree


@pytest.fixture(scope="module")
def intact() -> Iterator[TitledTree]:
    with spawned({**ENV, "SPT_NOENV": "1"}, None) as tree:
        yield tree


def in_own(variable: str, worker: int, change: str) -> Case:
    """A change in one worker whose block is gone: it may have been given that already.

    Behind its title it could also have exec'd itself once more, with another environment.
    """
    return Case(variable, worker, change, OWN_EXEC, OWN_LIBC, (WORKER, DROPPED, PROGRAM))


WIPED = [
    Case("NCCL_X_PLAIN"),
    Case("NCCL_X_PARENT_SET"),
    Case("NCCL_X_PARENT_UNSET", None, "lost", ROOT_EXEC, ROOT_LIBC, (PARENT,), proved=True),
    in_own("NCCL_X_DROPPED", 1, "lost"),
    in_own("NCCL_X_PY_SET", 2, "changed"),
    in_own("NCCL_X_C_SETENV", 3, "changed"),
    in_own("NCCL_X_C_PUTENV", 4, "changed"),
    in_own("NCCL_X_PY_UNSET", 5, "lost"),
    in_own("NCCL_X_C_UNSETENV", 6, "lost"),
    # The stale entry survives in the block: it is what the worker was given.
    Case("NCCL_X_BEFORE_TITLE", 7, "changed", OWN_EXEC, OWN_LIBC, (WORKER,), proved=True),
    # It was not started by multiprocessing: no tracker stands in, other programs may have run.
    Case("NCCL_X_ENV", 8, "lost", ROOT_LIBC, OWN_LIBC, (WORKER, DROPPED, PROGRAM)),
]

INTACT = [
    Case("NCCL_X_PLAIN"),
    Case("NCCL_X_PARENT_SET"),
    Case("NCCL_X_PARENT_UNSET_LATE"),
    Case("NCCL_X_PARENT_UNSET", None, "lost", ROOT_EXEC, ROOT_LIBC, (PARENT,), proved=True),
    Case("NCCL_X_DROPPED", 1, "lost", ROOT_LIBC, OWN_EXEC, (DROPPED, PROGRAM)),
    Case("NCCL_X_PY_SET", 2, "changed", OWN_EXEC, OWN_LIBC, (WORKER,), proved=True),
    Case("NCCL_X_C_SETENV", 3, "changed", OWN_EXEC, OWN_LIBC, (WORKER,), proved=True),
    Case("NCCL_X_C_PUTENV", 4, "changed", OWN_EXEC, OWN_LIBC, (WORKER,), proved=True),
    Case("NCCL_X_PY_UNSET", 5, "lost", OWN_EXEC, OWN_LIBC, (WORKER,), proved=True),
    Case("NCCL_X_C_UNSETENV", 6, "lost", OWN_EXEC, OWN_LIBC, (WORKER,), proved=True),
    Case("NCCL_X_BEFORE_TITLE", 7, "changed", OWN_EXEC, OWN_LIBC, (WORKER,), proved=True),
    Case("NCCL_X_ENV", 8, "lost", ROOT_LIBC, OWN_EXEC, (DROPPED, PROGRAM)),
]


@pytest.mark.parametrize("case", WIPED, ids=lambda case: case.variable)
def test_with_wiped_blocks(wiped: TitledTree, case: Case) -> None:
    check(wiped, case)


@pytest.mark.parametrize("case", INTACT, ids=lambda case: case.variable)
def test_with_intact_blocks(intact: TitledTree, case: Case) -> None:
    check(intact, case)


def test_set_in_the_parent_after_the_spawn(wiped: TitledTree, intact: TitledTree) -> None:
    """Nothing tells it from a variable taken away around the spawn."""
    name, by_subprocess = "NCCL_X_PARENT_SET_LATE", 8
    for tree, unread in ((wiped, True), (intact, False)):
        run = cli.judge("--pid", str(tree.root), f"--expect={name}={ON}")
        assert run.code == 1
        assert run.pids("env-missing", name) == set(tree.workers())
        for number, pid in enumerate(tree.workers()):
            came, lost = run.arriving(pid, name)
            causes, after = {LATE, DROPPED, PROGRAM}, OWN_EXEC
            if unread:
                causes |= {WORKER}
            if number == by_subprocess:
                after = OWN_LIBC if unread else OWN_EXEC
            assert _as_case(tree, pid, came)[:4] == ("appeared", ROOT_EXEC, ROOT_LIBC, {STARTED})
            assert _as_case(tree, pid, lost) == ("lost", ROOT_LIBC, after, causes, "inferred")


def test_unset_in_the_parent_after_the_spawn(wiped: TitledTree) -> None:
    """All workers have it; of one nothing tells any more whether it was given it."""
    name, by_subprocess = "NCCL_X_PARENT_UNSET_LATE", wiped.worker(8)
    run = cli.judge("--pid", str(wiped.root), f"--expect={name}={ON}")
    assert [run.text(pid, name) for pid in wiped.workers()] == [ON] * 10
    assert run.text(wiped.root, name) is None
    assert run.code == 0
    loud = [one for one in run.loud(wiped.reports) if one["variable"] == name]
    assert [(one["check"], one["confidence"], one["pids"]) for one in loud] == [
        ("set-late-unproven", "inferred", [by_subprocess])
    ]


def test_the_states_of_the_blocks(wiped: TitledTree, intact: TitledTree) -> None:
    run = cli.judge("--pid", str(wiped.root))
    blocks = [run.process(pid)["environments"]["exec"]["block"] for pid in wiped.workers()]
    assert blocks == ["wiped"] * 7 + ["partly_wiped", "wiped", "spilled"]
    assert run.process(wiped.worker(9))["role"]["label"] == "scheduler TP9"
    run = cli.judge("--pid", str(intact.root))
    blocks = [run.process(pid)["environments"]["exec"]["block"] for pid in intact.workers()]
    assert blocks == ["intact"] * 10


# --- fork and forkserver -------------------------------------------------------------------------

FORK_NAMES = ["NCCL_Y_PLAIN", "NCCL_Y_OWN", "NCCL_Y_AROUND", "NCCL_Y_SERVED", "NCCL_Y_UNSET_LATE"]


@pytest.fixture(scope="module")
def forked() -> Iterator[TitledTree]:
    actions: dict[int | str, Action] = {
        "root": Action(
            before_title=[START_FORKSERVER, py_set("NCCL_Y_FROZEN", ON)],
            after_title=[py_unset("NCCL_Y_UNSET_LATE")],
        ),
        0: Action(method="fork", parent_after=[py_set("NCCL_Y_LATE", ON)]),
        1: Action(method="fork", after_title=[py_unset("NCCL_Y_OWN")]),
        2: dataclasses.replace(temporarily_without("NCCL_Y_AROUND"), method="fork"),
        3: Action(method="forkserver", after_title=[c_unsetenv("NCCL_Y_SERVED")]),
        4: Action(method="spawn"),
    }
    with TitledTree(workers=5, env=dict.fromkeys(FORK_NAMES, ON), actions=actions) as tree:
        yield tree


@pytest.mark.parametrize(
    "case",
    [
        Case("NCCL_Y_PLAIN"),
        Case("NCCL_Y_UNSET_LATE"),
        Case("NCCL_Y_OWN", 1, "lost", ROOT_LIBC, OWN_LIBC, (WORKER, FORKED)),
        Case("NCCL_Y_AROUND", 2, "lost", ROOT_LIBC, OWN_LIBC, (WORKER, FORKED)),
        Case("NCCL_Y_SERVED", 3, "lost", ("forkserver", "libc"), OWN_LIBC, (WORKER,), proved=True),
    ],
    ids=lambda case: case.variable,
)
def test_forks(forked: TitledTree, case: Case) -> None:
    check(forked, case)


def test_what_was_taken_away_around_a_fork_is_told_so(forked: TitledTree) -> None:
    run = cli.judge("--pid", str(forked.root), f"--expect=NCCL_Y_AROUND={ON}")
    (finding,) = run.findings("env-missing", "NCCL_Y_AROUND")
    assert finding["pids"] == [forked.worker(2)]
    told = f"(PID {forked.root}) had no NCCL_Y_AROUND, which had been removed for that moment"
    assert told in str(finding["evidence"])
    assert "changes NCCL_Y_AROUND around the fork" in finding["remedy"]


def test_forked_before_the_parent_set_it(forked: TitledTree) -> None:
    run = cli.judge("--pid", str(forked.root), f"--expect=NCCL_Y_LATE={ON}")
    forks, served = [forked.worker(0)], [forked.worker(3)]
    assert run.code == 1
    assert run.pids("env-missing", "NCCL_Y_LATE") == {*forks, *served}
    found = _as_case(forked, forks[0], run.arriving(forks[0], "NCCL_Y_LATE")[-1])
    assert found == ("lost", ROOT_LIBC, OWN_LIBC, {FORKED, WORKER}, "inferred")


def test_a_forkserver_that_started_before_the_change(forked: TitledTree) -> None:
    run = cli.judge("--pid", str(forked.root), f"--expect=NCCL_Y_FROZEN={ON}")
    served = forked.worker(3)
    assert run.code == 1
    assert run.pids("env-missing", "NCCL_Y_FROZEN") == {served}
    found = _as_case(forked, served, run.arriving(served, "NCCL_Y_FROZEN")[-1])
    assert found == ("lost", ROOT_LIBC, ("forkserver", "exec"), {FROZEN, DROPPED}, "inferred")


def test_how_each_worker_was_started(forked: TitledTree, wiped: TitledTree) -> None:
    run = cli.judge("--pid", str(forked.root))
    kinds = [run.process(pid)["edge"]["kind"] for pid in forked.workers()]
    assert kinds == ["fork", "fork", "fork", "forkserver", "spawn"]
    # The exec block of a fork child is that of the image it runs.
    owners = [run.process(pid)["image_owner"] for pid in forked.workers()[:4]]
    assert owners == [forked.root] * 3 + [forked.forkserver]
    run = cli.judge("--pid", str(wiped.root))
    assert run.process(wiped.worker(0))["edge"]["kind"] == "spawn"


# --- processes out of the ordinary ---------------------------------------------------------------


@pytest.fixture(scope="module")
def odd() -> Iterator[TitledTree]:
    actions: dict[int | str, Action] = {
        0: Action(after_title=[FORK]),
        1: Action(after_title=[CLEARENV]),
        2: Action(after_title=[py_set("NCCL_Z_TURNED_OFF", OFF), LEAVE_MAIN_THREAD]),
    }
    with TitledTree(
        workers=3, env={"NCCL_Z": ON, "NCCL_Z_TURNED_OFF": ON}, actions=actions
    ) as tree:
        yield tree


def test_clearenv(odd: TitledTree) -> None:
    case = Case("NCCL_Z", 1, "lost", OWN_EXEC, OWN_LIBC, (WORKER, DROPPED, PROGRAM))
    run = check(odd, case)
    libc = run.process(odd.worker(1))["environments"]["libc"]
    assert (libc["status"], libc["variables"]) == ("complete", 0)


def test_a_fork_child_of_a_titled_worker_is_no_second_rank(odd: TitledTree) -> None:
    run = cli.judge("--pid", str(odd.root))
    assert run.workers() == set(odd.workers())
    child = odd.pid("root.w0.fork")
    assert run.process(child)["role"]["label"] == "fork of scheduler TP0"
    assert run.process(child)["edge"]["kind"] == "fork"
    assert run.process(child)["image_owner"] == odd.worker(0)
    assert [one for one in run.findings() if child in one["pids"]] == []
    assert run.code == 0


def test_a_main_thread_that_has_left(odd: TitledTree) -> None:
    pid = odd.worker(2)
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        assert file.read().rpartition(")")[2].split()[0] == "Z"
    # Its descriptors are closed, so nothing proves any more that multiprocessing started it.
    causes = (WORKER, DROPPED, PROGRAM)
    case = Case("NCCL_Z_TURNED_OFF", 2, "changed", OWN_EXEC, OWN_LIBC, causes)
    run = cli.judge("--pid", str(odd.root), "--expect=NCCL_Z_TURNED_OFF=on")
    assert run.code == 1
    assert run.pids("env-wrong-value", "NCCL_Z_TURNED_OFF") == {pid}
    assert run.pids("env-missing", "NCCL_Z_TURNED_OFF") == {odd.worker(1)}
    found = _as_case(odd, pid, run.arriving(pid, "NCCL_Z_TURNED_OFF")[-1])
    assert found == (case.change, case.before, case.after, set(case.causes), "inferred")
    assert run.process(pid)["ended"] is False
    assert run.process(pid)["role"]["label"] == "scheduler TP2"


# --- in time -------------------------------------------------------------------------------------

LATE_NAMES = ["PYTHONPATH", "OMP_NUM_THREADS", "NCCL_DEBUG", "TZ"]


def setting_late(env: dict[str, str]) -> TitledTree:
    """Worker 1 is the only one that was given what all have; worker 0 sets it in its own code."""
    given = {**env, **dict.fromkeys(LATE_NAMES, "1"), "LANG": "C.UTF-8"}
    actions: dict[int | str, Action] = {
        0: Action(after_title=[py_set(name, "1") for name in LATE_NAMES]),
        1: Action(method="subprocess", env=given),
    }
    return TitledTree(workers=2, env=env, actions=actions, names=LATE_NAMES)


@pytest.fixture(scope="module")
def late() -> Iterator[TitledTree]:
    with setting_late({"SPT_NOENV": "1"}) as tree:
        yield tree


@pytest.fixture(scope="module")
def late_and_wiped() -> Iterator[TitledTree]:
    with setting_late({}) as tree:
        yield tree


@pytest.mark.parametrize("name", ["PYTHONPATH", "OMP_NUM_THREADS"])
def test_set_live_only_is_too_late_for_what_is_read_at_the_start(
    late: TitledTree, name: str
) -> None:
    run = cli.judge("--pid", str(late.root), f"--expect={name}=1")
    pid = late.worker(0)
    assert run.code == 1
    assert [(one["check"], one["severity"], one["pids"]) for one in run.loud(late.reports)] == [
        ("set-too-late", "error", [pid])
    ]
    found = _as_case(late, pid, run.arriving(pid, name)[-1])
    assert found == ("appeared", OWN_EXEC, OWN_LIBC, {STARTED}, "proved")
    assert [run.text(one, name) for one in late.workers()] == ["1", "1"]


def test_set_live_only_may_be_too_late_for_what_is_read_at_first_use(late: TitledTree) -> None:
    pid, expect = late.worker(0), "--expect=NCCL_DEBUG=1"
    run = cli.judge("--pid", str(late.root), expect)
    strict = cli.judge("--pid", str(late.root), expect, "--strict")
    assert (run.code, strict.code) == (0, 3)
    for one, undetermined in ((run, False), (strict, True)):
        assert [
            (each["check"], each["severity"], each["pids"], each["undetermined"])
            for each in one.loud(late.reports)
        ] == [("set-late-unproven", "warning", [pid], undetermined)]
    found = _as_case(late, pid, run.arriving(pid, "NCCL_DEBUG")[-1])
    assert found == ("appeared", OWN_EXEC, OWN_LIBC, {STARTED}, "proved")


def test_set_live_only_is_in_time_for_what_is_read_at_each_use(late: TitledTree) -> None:
    run = cli.judge("--pid", str(late.root), "--expect=TZ=1", "--strict")
    assert (run.code, run.loud(late.reports)) == (0, [])
    assert run.pids("block-wiped") == set()


def test_without_the_block_nobody_can_tell_whether_it_was_there(
    late_and_wiped: TitledTree,
) -> None:
    """The parent may have set it for the moment of the spawn: that is unknown, and no error."""
    tree = late_and_wiped
    run = cli.judge("--pid", str(tree.root), "--expect=PYTHONPATH=1")
    assert run.code == 3
    unknown = [
        (one["check"], one["undetermined"], set(one["pids"])) for one in run.loud(tree.reports)
    ]
    assert unknown == [("env-unknown", True, set(tree.workers()))]
    (finding,) = run.findings("env-unknown")
    assert "SPT_NOENV=1" in finding["remedy"]
    accepted = cli.judge(
        "--pid", str(tree.root), "--expect=PYTHONPATH=1", "--allow-unknown=env-unknown"
    )
    assert (accepted.code, [one["accepted"] for one in accepted.findings("env-unknown")]) == (
        0,
        [True],
    )
    run = cli.judge("--pid", str(tree.root), "--expect=NCCL_DEBUG=1")
    assert (run.code, run.pids("set-late-unproven", "NCCL_DEBUG")) == (0, set(tree.workers()))
