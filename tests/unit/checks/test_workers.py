"""The checks that speak of workers and of how far they could be read."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from envprobe.checks.finding import Severity
from envprobe.config import Expectation, Rule
from envprobe.model import (
    BlockState,
    Confidence,
    Death,
    EdgeKind,
    Environment,
    EnvironmentStatus,
    Role,
    View,
)
from envprobe.values import Value
from tests.unit.checks.scene import (
    BASE,
    ROOT,
    SERVER,
    Scene,
    evidence,
    exec_view,
    libc_view,
    of,
    one,
    refused,
    scheduler,
    sglang,
    slugs,
    text,
    vanished,
    view_of,
    wiped,
    worker,
)

# --- no-workers ----------------------------------------------------------------------------------


def alone(**fields: object) -> Scene:
    """A tree of one process that started long ago."""
    scene = Scene().add(ROOT, role=Role("other"), **fields)  # type: ignore[arg-type]
    return scene.change(ROOT, interpreter=None)


def test_a_scan_without_workers_decides_nothing() -> None:
    finding = one(alone().run(), "no-workers")
    assert (finding.severity, finding.undetermined, finding.pids) == (Severity.ERROR, True, (ROOT,))
    assert "No worker found among 1 process at or below other (PID 100)" in text(finding.message)
    assert "inside a container" in evidence(finding)
    assert "no-workers" not in slugs(sglang(1).run())


def test_the_client_of_a_container_engine_is_named() -> None:
    scene = alone(comm="docker").change(ROOT, role=Role("container client"))
    finding = one(scene.run(), "no-workers")
    assert "client of a container engine (docker)" in evidence(finding)
    assert "docker inspect" in text(finding.remedy)
    assert "inside a container" not in evidence(finding)


def test_the_client_may_hang_below_sudo() -> None:
    scene = alone(comm="sudo")
    scene.add(200, ROOT, role=Role("container client"), comm="podman", kind=EdgeKind.EXEC)
    assert "container client (PID 200) is the client" in evidence(one(scene.run(), "no-workers"))


@pytest.mark.parametrize(
    "fields",
    [
        {"title": (*SERVER, "--use-ray")},
        {"title": ("vllm", "serve", "m", "--distributed-executor-backend", "ray")},
        {"title": ("vllm", "serve", "m", "--distributed-executor-backend=ray")},
        {"libc": {"RAY_ADDRESS": "auto"}},
    ],
)
def test_a_driver_of_ray_is_named(fields: dict[str, object]) -> None:
    finding = one(alone(**fields).run(), "no-workers")
    assert "uses Ray" in evidence(finding)
    assert "--match" in text(finding.remedy)


def test_very_many_clients_do_not_give_very_many_reasons() -> None:
    scene = alone(comm="sh")
    for pid in range(200, 300):
        scene.add(pid, ROOT, role=Role("container client"), comm="docker", kind=EdgeKind.EXEC)
    assert len(one(scene.run(), "no-workers").evidence) == 8


def test_another_backend_is_no_driver_of_ray() -> None:
    scene = alone(title=("vllm", "serve", "m", "--distributed-executor-backend", "mp"))
    assert "uses Ray" not in evidence(one(scene.run(), "no-workers"))


@pytest.mark.parametrize("comm", ["ssh", "srun"])
def test_a_command_that_runs_elsewhere_is_named(comm: str) -> None:
    assert f"{comm}, whose command runs outside this tree" in evidence(
        one(alone(comm=comm).run(), "no-workers")
    )


def test_children_without_a_title_may_still_become_workers() -> None:
    scene = alone()
    scene.add(200, ROOT, role=Role("spawn child", "sglang", final=False))
    finding = one(scene.run(), "no-workers")
    assert "spawn child (PID 200): started, but without a title yet" in evidence(finding)
    assert "--wait" in text(finding.remedy)


def test_a_young_server_may_still_be_starting_and_an_old_one_is_not() -> None:
    scene = Scene().add(ROOT, title=SERVER)
    scene.fields["ended"] = scene.clock + 30
    assert "started 30 s ago" in evidence(one(scene.run(), "no-workers"))
    scene.fields["ended"] = scene.clock + 100_000
    assert "ago" not in evidence(one(scene.run(), "no-workers"))


def test_a_young_process_that_starts_no_workers_is_not_starting() -> None:
    scene = alone()
    scene.fields["ended"] = scene.clock + 30
    assert "ago" not in evidence(one(scene.run(), "no-workers"))


@pytest.mark.parametrize("framework", ["", "sglang"])
@pytest.mark.parametrize("python", [True, False])
def test_what_may_start_workers_is_a_python_or_belongs_to_a_framework(
    framework: str, python: bool
) -> None:
    scene = Scene().add(ROOT, role=Role("server", framework))
    if not python:
        scene.change(ROOT, interpreter=None)
    wrong_number = "inside a container" in evidence(one(scene.run(), "no-workers"))
    assert wrong_number is (not python and not framework)


def test_an_old_server_without_known_workers_is_not_called_a_wrong_number() -> None:
    scene = Scene().add(ROOT, title=SERVER)
    finding = one(scene.run(), "no-workers")
    assert "No process at or below server (PID 100)" in evidence(finding)
    assert "inside a container" not in evidence(finding)
    assert "--match" in text(finding.remedy)


def test_what_an_earlier_launch_left_behind_is_no_worker() -> None:
    scene = alone()
    scene.add(300, None, role=scheduler(0), orphan=True, kind=EdgeKind.UNKNOWN)
    result = scene.run()
    assert "left behind by an earlier launch" in evidence(one(result, "no-workers"))
    assert one(result, "orphan-worker").pids == (300,)
    assert "RUN_ID" not in evidence(one(result, "orphan-worker"))


# --- worker-unreadable ---------------------------------------------------------------------------


def test_workers_that_cannot_be_read_for_one_reason_are_one_finding() -> None:
    scene = sglang(4)
    for pid in (111, 112):
        scene = view_of(scene, pid, refused(View.LIBC, "Yama scope 1", "Run as root."))
    scene = view_of(scene, 113, refused(View.LIBC, "another user", "Run as that user."))
    found = of(scene.run(), "worker-unreadable")
    assert [(one.pids, one.undetermined, one.severity) for one in found] == [
        ((111, 112), True, Severity.ERROR),
        ((113,), True, Severity.ERROR),
    ]
    assert "Yama scope 1." in text(found[0].message)
    assert text(found[0].remedy) == "Run as root."


@pytest.mark.parametrize(
    "status",
    [
        EnvironmentStatus.PARTIAL,
        EnvironmentStatus.UNREADABLE,
        EnvironmentStatus.CHANGING,
        EnvironmentStatus.NOT_APPLICABLE,
        EnvironmentStatus.NOT_ASKED,
    ],
)
def test_every_view_that_is_not_whole_leaves_the_worker_undetermined(
    status: EnvironmentStatus,
) -> None:
    finding = one(
        view_of(sglang(1), 110, Environment(View.LIBC, status)).run(), "worker-unreadable"
    )
    assert finding.undetermined
    assert text(finding.remedy)


def test_a_worker_whose_libc_view_was_never_read_is_undetermined() -> None:
    scene = sglang(1)
    scene.change(110, environments={View.EXEC: exec_view(BASE)})
    assert one(scene.run(), "worker-unreadable").undetermined


def test_a_partly_read_worker_is_enough_for_expectations_that_it_decides() -> None:
    partial = libc_view({"NCCL_ALGO": "Ring"}, status=EnvironmentStatus.PARTIAL, reason="too long")
    scene = view_of(sglang(1, server={"NCCL_ALGO": "Ring"}), 110, partial)
    finding = one(scene.run("NCCL_ALGO=Ring"), "worker-unreadable")
    assert (finding.undetermined, finding.severity) == (False, Severity.WARNING)


def test_helpers_that_cannot_be_read_are_no_finding() -> None:
    scene = view_of(sglang(1), 101, refused(View.LIBC), refused(View.EXEC))
    assert slugs(scene.run()) == set()


# --- workers-missing -----------------------------------------------------------------------------


def test_fewer_workers_than_stated() -> None:
    finding = one(sglang(2).run(workers={"scheduler": 4}), "workers-missing")
    assert (finding.severity, finding.pids, finding.undetermined) == (
        Severity.ERROR,
        (110, 111),
        False,
    )
    assert "2 of 4 expected schedulers are there." in text(finding.message)
    assert slugs(sglang(4).run(workers={"scheduler": 4})) == set()
    assert slugs(sglang(5).run(workers={"scheduler": 4})) == set()


def test_fewer_workers_of_any_role_than_awaited() -> None:
    assert "2 of 3 expected workers" in text(
        one(sglang(2).run(workers={"": 3}), "workers-missing").message
    )
    assert slugs(sglang(2).run(workers={"": 2})) == set()


def test_a_helper_can_be_expected_too() -> None:
    finding = one(sglang(1).run(workers={"detokenizer": 1}), "workers-missing")
    assert "0 of 1 expected detokenizer" in text(finding.message)


def test_no_worker_where_some_are_expected_is_an_error_beside_no_workers() -> None:
    result = alone().run(workers={"scheduler": 2})
    assert one(result, "workers-missing").undetermined is False
    assert one(result, "no-workers").undetermined is True


def test_absent_ranks_are_named_from_the_command_line() -> None:
    scene = sglang(2, title=(*SERVER, "--tp", "4"))
    finding = one(scene.run(), "workers-missing")
    assert (finding.pids, finding.confidence) == ((ROOT,), Confidence.INFERRED)
    assert "2 of 4 workers of server (PID 100) are there; absent: TP2, TP3." in text(
        finding.message
    )
    assert "--tp 4" in evidence(finding)
    stated = one(scene.run(workers={"scheduler": 4}), "workers-missing")
    assert "absent: TP2, TP3" in text(stated.message)
    assert slugs(sglang(4, title=(*SERVER, "--tp", "4")).run()) == set()


def test_absent_ranks_are_named_from_gaps_in_the_titles() -> None:
    scene = sglang(4)
    del scene.processes[112]
    finding = one(scene.run(), "workers-missing")
    assert "3 of 4 workers" in text(finding.message)
    assert "absent: TP2." in text(finding.message)


def test_a_second_node_misses_none_of_the_first_nodes_ranks() -> None:
    scene = Scene().add(ROOT, title=(*SERVER, "--tp", "4", "--nnodes", "2", "--node-rank", "1"))
    for rank in (2, 3):
        scene.add(110 + rank, ROOT, role=scheduler(rank))
    assert slugs(scene.run()) == set()
    del scene.processes[113]
    assert "absent: TP3" in text(one(scene.run(), "workers-missing").message)


def test_replicas_and_stages_are_named() -> None:
    scene = Scene().add(ROOT, title=(*SERVER, "--tp", "2", "--dp", "2"))
    for dp, tp in ((0, 0), (0, 1), (1, 0)):
        scene.add(110 + 2 * dp + tp, ROOT, role=scheduler(tp, dp=dp))
    assert "absent: DP1 TP1" in text(one(scene.run(), "workers-missing").message)


def test_attention_data_parallelism_has_no_rank_for_each_pair() -> None:
    scene = Scene().add(ROOT, title=(*SERVER, "--tp", "2", "--dp", "2", "--enable-dp-attention"))
    for tp in range(2):
        scene.add(110 + tp, ROOT, role=scheduler(tp, dp=tp))
    assert slugs(scene.run()) == set()


def test_a_child_without_a_title_may_be_the_absent_rank() -> None:
    scene = sglang(1, title=(*SERVER, "--tp", "2"))
    scene.add(120, ROOT, role=Role("spawn child", "sglang", final=False))
    assert slugs(scene.run()) == set()
    finding = one(scene.run(workers={"scheduler": 2}), "workers-missing")
    assert finding.undetermined
    assert "spawn child (PID 120): without a title yet" in evidence(finding)
    assert "Wait until all processes have their titles" in text(finding.remedy)
    assert one(scene.run(workers={"scheduler": 3}), "workers-missing").undetermined is False


def test_workers_of_another_role_fill_no_place_and_leave_no_gap() -> None:
    engine = Role("engine core", "vllm", {"dp": 3}, worker=True)
    scene = sglang(2).add(120, ROOT, role=engine)
    assert slugs(scene.run()) == set()
    title = ("vllm", "serve", "m", "-tp", "2")
    scene = Scene().add(ROOT, role=Role("server", "vllm"), title=title)
    scene.add(110, ROOT, role=dataclasses.replace(engine, ranks={}))
    scene.add(111, ROOT, role=Role("worker", "vllm", {"tp": 1}, worker=True))
    message = text(one(scene.run(), "workers-missing").message)
    assert "1 of 2 workers of server (PID 100) are there; absent: TP0." in message


def test_without_ranks_in_the_titles_nothing_is_missed() -> None:
    scene = Scene().add(ROOT, role=Role("python"), title=("python3", "m.py", "--tp", "8"))
    for pid in (110, 111):
        scene.add(pid, ROOT, role=Role("worker", worker=True))
    assert slugs(scene.run()) == set()


def test_very_many_absent_ranks_are_counted() -> None:
    scene = sglang(1, title=(*SERVER, "--tp", "64"))
    assert "TP16 and 47 more." in text(one(scene.run(), "workers-missing").message)


def test_ranks_of_torchrun_are_counted() -> None:
    scene = Scene().add(
        ROOT, role=Role("launcher", "torchrun"), title=("torchrun", "--nproc-per-node", "3", "t.py")
    )
    for pid in (110, 111):
        scene.add(pid, ROOT, role=Role("rank", "torchrun", worker=True))
    assert "absent: 1 of 3 ranks" in text(one(scene.run(), "workers-missing").message)
    scene.add(112, ROOT, role=Role("rank", "torchrun", worker=True))
    assert slugs(scene.run()) == set()


# --- worker-vanished -----------------------------------------------------------------------------


def test_a_worker_that_ended_during_the_scan() -> None:
    scene = sglang(2).change(111, ended=True)
    scene.fields["vanished"] = (vanished(115, scheduler(5)), vanished(116, Role("compile worker")))
    finding = one(scene.run(), "worker-vanished")
    assert (finding.severity, finding.pids) == (Severity.ERROR, (115, 111))
    assert "scheduler TP5 (PID 115) and scheduler TP1 (PID 111) ended" in text(finding.message)


def test_a_helper_that_ended_during_the_scan_is_no_finding() -> None:
    scene = sglang(2).change(101, ended=True)
    scene.fields["vanished"] = (vanished(116, Role("compile worker")),)
    assert slugs(scene.run()) == set()


def dead(scene: Scene, pid: int, **fields: Any) -> Scene:
    """Let a process be a zombie since before the scan, as the collector describes one."""
    role = dataclasses.replace(scene.processes[pid].role, worker=False, ranks={})
    views = {view: refused(view) for view in (View.EXEC, View.LIBC)}
    given = {"death": Death.BEFORE, "was_worker": True, "role": role, "title": (), **fields}
    return scene.change(pid, state="Z", ended=True, environments=views, exe=None, **given)


def test_a_dead_worker_is_one_error_beside_its_absent_rank() -> None:
    scene = sglang(4, server={"NCCL_ALGO": "Ring"})
    result = dead(scene, 112, comm="sglang::schedul").run("NCCL_ALGO=Ring")
    assert slugs(result) == {"worker-vanished", "workers-missing"}
    finding, missing = one(result, "worker-vanished"), one(result, "workers-missing")
    assert text(finding.message) == (
        "scheduler (PID 112) is dead (zombie), since before the scan: its parent has not"
        " collected it."
    )
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.PROVED)
    assert finding.pids == (112,)
    assert "sglang::schedul" in evidence(finding)
    assert text(missing.message).startswith("3 of 4 workers of")
    assert text(missing.message).endswith("; absent: TP2.")


def test_a_worker_that_died_during_the_scan_is_not_said_to_be_dead_before() -> None:
    finding = one(dead(sglang(2), 111, death=Death.DURING).run(), "worker-vanished")
    assert "died during the scan and is dead (zombie)" in text(finding.message)
    assert "before the scan" not in text(finding.message)


def test_a_dead_child_that_may_have_been_a_worker_is_a_warning() -> None:
    scene = dead(sglang(2).add(120, ROOT), 120, role=Role("dead child"), was_worker=None)
    finding = one(scene.run(), "worker-vanished")
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.INFERRED)
    assert "python3 (PID 120) is dead (zombie)" in text(finding.message)
    assert "it may have been a worker" in text(finding.message)


def test_a_dead_helper_is_no_finding() -> None:
    scene = dead(sglang(2).add(120, ROOT), 120, role=Role("shell"), was_worker=False)
    assert slugs(scene.run()) == set()


def test_an_expectation_of_a_role_does_not_ask_the_dead() -> None:
    scene = dead(sglang(2, server={"NCCL_ALGO": "Ring"}), 111)
    wanted = Expectation("NCCL_ALGO", Rule.EXACT, (Value(b"Ring"),), role="scheduler")
    assert slugs(scene.run(wanted)) == {"worker-vanished"}


@pytest.mark.parametrize(("was", "says"), [(True, "were workers"), (None, "may have been workers")])
def test_where_all_workers_are_dead_nothing_is_starting(was: bool | None, says: str) -> None:
    scene = sglang(2)
    for pid in (110, 111):
        dead(scene, pid, was_worker=was)
    scene.fields["ended"] = scene.processes[ROOT].start_time + 1
    finding = one(scene.run(), "no-workers")
    assert f"are dead (zombie) and {says}" in evidence(finding)
    assert "starting" not in evidence(finding)
    assert "--wait" not in text(finding.remedy)


def test_a_worker_that_ended_is_not_called_unreadable_too() -> None:
    scene = view_of(sglang(2).change(111, ended=True), 111, refused(View.LIBC))
    assert "worker-unreadable" not in slugs(scene.run())


# --- orphan-worker -------------------------------------------------------------------------------


def test_a_worker_of_a_dead_launch_is_reported_and_not_judged() -> None:
    scene = sglang(2, server={"NCCL_ALGO": "Ring"})
    scene.add(300, None, role=scheduler(0), kind=EdgeKind.UNKNOWN, orphan=True, run_id="old")
    result = scene.run("NCCL_ALGO=Ring", workers={"scheduler": 2})
    finding = one(result, "orphan-worker")
    assert (finding.severity, finding.pids) == (Severity.WARNING, (300,))
    assert "SGLANG_RUN_ID is old" in evidence(finding)
    assert finding.confidence is Confidence.INFERRED
    assert "`ps -o pid,ppid,user,lstart,cmd -p 300`" in text(finding.remedy)
    assert "kill" not in text(finding.remedy)
    assert slugs(result) == {"orphan-worker"}
    assert one(scene.run(workers={"scheduler": 3}), "workers-missing").pids == (110, 111)


def test_an_orphan_of_another_user_is_only_noted() -> None:
    scene = sglang(1)
    for pid, uid in ((300, 1000), (301, 2000)):
        fields = {"kind": EdgeKind.UNKNOWN, "orphan": True, "uid": uid}
        scene.add(pid, None, role=scheduler(0), **fields)
    found = {one.severity: one.pids for one in of(scene.run(), "orphan-worker")}
    assert found == {Severity.WARNING: (300,), Severity.INFO: (301,)}


def test_of_many_orphans_some_are_listed() -> None:
    scene = sglang(1)
    for pid in range(300, 325):
        scene.add(pid, None, role=scheduler(0), kind=EdgeKind.UNKNOWN, orphan=True)
    assert "319` (and 5 more)" in text(one(scene.run(), "orphan-worker").remedy)


def test_the_reason_why_a_worker_was_not_read_does_not_say_it_twice() -> None:
    reason = "the live C environ cannot be read: it runs as another user"
    scene = view_of(sglang(1), 110, refused(View.LIBC, reason))
    assert text(one(scene.run(), "worker-unreadable").message) == (
        "The libc view of scheduler TP0 (PID 110) cannot be read: it runs as another user."
    )


def test_an_orphan_of_a_named_role_is_not_judged_either() -> None:
    scene = sglang(1)
    scene.add(300, None, role=Role("detokenizer"), kind=EdgeKind.UNKNOWN, orphan=True)
    wanted = Expectation("NCCL_ALGO", Rule.SET, role="detokenizer")
    assert "env-missing" not in slugs(scene.run(wanted))


# --- unstable-tree -------------------------------------------------------------------------------


def test_a_tree_that_kept_changing_decides_nothing() -> None:
    scene = sglang(2)
    scene.fields.update(stable=False, scans=3)
    finding = one(scene.run(), "unstable-tree")
    assert finding.undetermined
    assert "after 3 scans" in text(finding.message)
    scene.fields.update(stable=True)
    assert slugs(scene.run()) == set()


# --- exec-view-inferred --------------------------------------------------------------------------


def test_a_stand_in_for_the_exec_view_is_named_with_its_time() -> None:
    scene = sglang(2, wipe=True)
    stand_in = exec_view(
        BASE,
        confidence=Confidence.INFERRED,
        source="resource tracker (PID 101)",
        at=scene.processes[101].start_time,
        block=None,
        own=wiped(),
    )
    scene = view_of(view_of(scene, 110, stand_in), 111, stand_in)
    result = scene.run()
    finding = one(result, "exec-view-inferred")
    assert (finding.severity, finding.pids) == (Severity.INFO, (110, 111))
    assert finding.confidence is Confidence.INFERRED
    assert "resource tracker (PID 101), which started at 1970-" in text(finding.message)
    assert "1.0 s before the first of them" in text(finding.message)
    assert slugs(result) == {"exec-view-inferred", "block-wiped"}


def test_an_exec_view_of_its_own_is_not_inferred() -> None:
    assert "exec-view-inferred" not in slugs(sglang(2, wipe=True).run())
    assert "exec-view-inferred" not in slugs(sglang(2).run())


def test_a_time_that_no_clock_shows_is_said_to_be_unknown() -> None:
    stand_in = exec_view(BASE, confidence=Confidence.INFERRED, source="s", at=1e30)
    message = text(one(view_of(sglang(1), 110, stand_in).run(), "exec-view-inferred").message)
    assert "an unknown time" in message


# --- block-wiped ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "says"),
    [
        (BlockState.WIPED, "is wiped by a new process title"),
        (BlockState.PARTLY_WIPED, "is partly wiped"),
        (BlockState.SPILLED, "is written over by a long process title"),
    ],
)
def test_a_block_that_no_longer_shows_the_environment(state: BlockState, says: str) -> None:
    block = dataclasses.replace(wiped(), block=state)
    finding = one(view_of(sglang(2), 111, block).run(), "block-wiped")
    assert (finding.severity, finding.pids) == (Severity.INFO, (111,))
    assert says in text(finding.message)
    assert "SPT_NOENV=1" in text(finding.remedy)


@pytest.mark.parametrize("state", [BlockState.INTACT, BlockState.UNREADABLE, None])
def test_a_block_that_nobody_wrote_over_is_no_finding(state: BlockState | None) -> None:
    block = dataclasses.replace(wiped(), block=state)
    assert slugs(view_of(sglang(2), 111, block).run()) == set()


def test_a_helper_with_a_wiped_block_is_no_finding() -> None:
    assert slugs(view_of(sglang(1), 101, wiped()).run()) == set()


# --- duplicate-variable --------------------------------------------------------------------------


def doubled(scene: Scene, pid: int, view: View, name: str, *later: bytes | None) -> Scene:
    found = scene.processes[pid].environment(view)
    values = tuple(None if one is None else Value(one) for one in later)
    return view_of(scene, pid, dataclasses.replace(found, duplicates={name: values}))


def test_a_variable_that_is_there_twice() -> None:
    scene = sglang(2, server={"NCCL_ALGO": "Ring"})
    scene = doubled(
        doubled(scene, ROOT, View.EXEC, "NCCL_ALGO", b"Tree"), ROOT, View.LIBC, "NCCL_ALGO", b"Tree"
    )
    finding = one(scene.run(), "duplicate-variable")
    assert (finding.severity, finding.pids, finding.variable) == (
        Severity.WARNING,
        (ROOT,),
        "NCCL_ALGO",
    )
    assert "NCCL_ALGO is there 2 times in the exec view and libc view of server" in text(
        finding.message
    )
    assert "first Ring, then Tree" in text(finding.message)


@pytest.mark.parametrize(
    ("name", "later", "severity"),
    [
        ("NCCL_ALGO", b"Ring", Severity.INFO),
        ("NCCL_ALGO", None, Severity.WARNING),
        ("PATH", b"/other", Severity.INFO),
    ],
)
def test_equal_duplicates_and_those_of_other_variables_are_info(
    name: str, later: bytes | None, severity: Severity
) -> None:
    scene = doubled(sglang(1, server={"NCCL_ALGO": "Ring"}), 110, View.LIBC, name, later)
    assert one(scene.run(), "duplicate-variable").severity is severity


def test_many_duplicates_of_other_variables_are_one_finding() -> None:
    scene = sglang(1)
    view = scene.processes[110].environment(View.LIBC)
    many = {f"X{number:04}": (Value(b"a"),) for number in range(1000)}
    scene = view_of(scene, 110, dataclasses.replace(view, duplicates=many))
    finding = one(scene.run(), "duplicate-variable")
    assert (finding.severity, finding.pids, finding.variable) == (Severity.INFO, (110,), "")
    assert "X0000" in text(finding.message)
    assert "and 988 more are there more than once" in text(finding.message)


def test_a_duplicate_in_many_workers_is_one_finding() -> None:
    scene = sglang(6, server={"NCCL_ALGO": "Ring"})
    for rank in range(6):
        scene = doubled(scene, 110 + rank, View.LIBC, "NCCL_ALGO", b"Tree")
    finding = one(scene.run(), "duplicate-variable")
    assert len(finding.pids) == 6
    assert "all 6 workers" in text(finding.message)


def test_a_worker_that_looks_like_nothing_else_is_named_by_its_command() -> None:
    scene = worker(sglang(1), 110, {})
    scene.change(110, role=Role("", worker=True), comm="odd")
    assert "odd (PID 110)" in text(one(scene.run("NCCL_ALGO"), "env-missing").message)
