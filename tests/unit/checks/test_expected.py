"""The checks that speak of expectations."""

from __future__ import annotations

import dataclasses

import pytest

from envprobe.checks.finding import Severity
from envprobe.config import Expectation, Rule
from envprobe.model import (
    BlockState,
    Confidence,
    EdgeKind,
    Environment,
    EnvironmentStatus,
    Role,
    View,
)
from envprobe.routes.types import CauseId
from envprobe.values import Value
from tests.unit.checks.scene import (
    BASE,
    ROOT,
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
    values,
    view_of,
    wiped,
    worker,
)

RING = {"NCCL_ALGO": "Ring"}
ENVIRONS = (View.EXEC, View.LIBC)


def lost_in_one() -> Scene:
    """Two schedulers; the parent spawned the second without the variable."""
    return worker(sglang(2, server=RING), 111, {}, exec={})


def test_a_healthy_server_with_all_that_is_expected_gives_nothing() -> None:
    scene = sglang(2, server={**RING, "PYTHONPATH": "/opt/hooks", "EMPTY": ""})
    result = scene.run("NCCL_ALGO=Ring", "NCCL_ALGO", "PYTHONPATH~=/opt/hooks", "EMPTY=", "!GONE")
    assert result.findings == ()


# --- words ---------------------------------------------------------------------------------------


def test_a_masked_value_that_looks_like_the_expected_one_is_said_to_be_another() -> None:
    scene = sglang(1, server={"HF_TOKEN": "hf_aaaaaaaaaaaaaaaaaaaa"})
    finding = one(scene.run("HF_TOKEN=hf_bbbbbbbbbbbbbbbbbbbb"), "env-wrong-value")
    assert ", which is another value than expected; expected: " in text(finding.message)
    plain = sglang(1, server=RING).run("NCCL_ALGO=Tree")
    assert "another value" not in text(one(plain, "env-wrong-value").message)


def test_that_the_value_is_proved_and_its_way_is_not_is_said() -> None:
    scene = worker(sglang(2, server=RING, server_exec={}), 111, {}, exec={})
    scene.change(111, title=("sglang::scheduler_TP1",))
    finding = one(scene.run("NCCL_ALGO=Ring"), "env-missing")
    assert finding.confidence is Confidence.PROVED
    assert finding.breaks[0].confidence is Confidence.INFERRED
    assert text(finding.message).endswith("(the value is proved; why it was lost is inferred).")
    scene = worker(sglang(1, server=RING, wipe=True), 110, {})
    message = text(one(scene.run("NCCL_ALGO=Ring"), "env-missing").message)
    assert message.endswith("(the value is proved; where it was lost is inferred).")
    scene = worker(sglang(1, server=RING), 110, {})
    message = text(one(scene.run("NCCL_ALGO=Ring"), "env-missing").message)
    assert "inferred" not in message


def test_a_mistyped_name_is_asked_about() -> None:
    finding = one(sglang(1, server=RING).run("NCCL_ALOG=Ring"), "env-missing")
    assert text(finding.remedy).startswith("Did you mean NCCL_ALGO? Set NCCL_ALOG ")
    # What somebody has, and lost, is a name of somebody.
    scene = worker(sglang(1, server={"NCCL_ALOG": "Ring"}), 110, {})
    assert "mean" not in text(one(scene.run("NCCL_ALOG"), "env-missing").remedy)
    assert "mean" not in text(one(sglang(1).run("NCCL_ALGO"), "env-missing").remedy)


# --- env-missing ---------------------------------------------------------------------------------


@pytest.mark.parametrize("expected", ["NCCL_ALGO=Ring", "NCCL_ALGO", "NCCL_ALGO~=Ring"])
def test_a_variable_that_one_worker_lacks(expected: str) -> None:
    finding = one(lost_in_one().run(expected), "env-missing")
    assert (finding.severity, finding.pids, finding.variable) == (
        Severity.ERROR,
        (111,),
        "NCCL_ALGO",
    )
    assert finding.confidence is Confidence.PROVED
    assert not finding.undetermined
    message = text(finding.message)
    assert "scheduler TP1 (PID 111)" in message
    assert "lost between the libc view of server (PID 100)" in message
    assert "the exec view of scheduler TP1 (PID 111)" in message
    (found,) = finding.breaks
    told = evidence(finding)
    for cause in found.causes:
        assert text(cause.sentence) in told
    assert "Expected by --expect." in told
    assert text(finding.remedy)


def test_a_variable_that_nobody_has_was_never_set_and_is_one_finding() -> None:
    finding = one(sglang(8).run("NCCL_ALGO=Ring"), "env-missing")
    assert finding.pids == tuple(range(110, 118))
    assert "all 8 workers" in text(finding.message)
    assert "never there, from the exec view of server (PID 100) on" in text(finding.message)
    assert {cause.id for cause in finding.breaks[0].causes} == {CauseId.NEVER_SET}
    assert len(finding.breaks) == 8


def test_workers_that_lost_it_at_different_places_are_two_findings() -> None:
    scene = worker(sglang(4, server=RING), 111, {}, exec={})
    scene = worker(worker(scene, 112, {}, exec={}), 113, {}, exec=RING)
    found = of(scene.run("NCCL_ALGO"), "env-missing")
    assert [finding.pids for finding in found] == [(111, 112), (113,)]
    assert "and 1 more worker" in text(found[0].message)
    assert "1 more has the same" in evidence(found[0])
    assert "lost in scheduler TP3 (PID 113), between its exec view and its libc view" in text(
        found[1].message
    )


def test_an_expected_empty_value_is_not_satisfied_by_absence() -> None:
    result = sglang(1).run("NCCL_DEBUG=")
    assert "expected: set and empty" in text(one(result, "env-missing").message)
    assert slugs(sglang(1, server={"NCCL_DEBUG": ""}).run("NCCL_DEBUG=")) == set()


def test_two_expectations_on_one_variable_are_told_apart() -> None:
    found = of(sglang(1).run("PYTHONPATH~=/a", "PYTHONPATH~=/b"), "env-missing")
    assert ["/a" in text(finding.message) for finding in found] == [True, False]


def test_an_expectation_for_a_role_speaks_of_that_role_only() -> None:
    scene = sglang(2, server=RING)
    scene.add(120, ROOT, role=Role("detokenizer", "sglang", evidence="title"), exec={})
    wanted = Expectation("NCCL_ALGO", Rule.SET, role="detokenizer")
    assert one(scene.run(wanted), "env-missing").pids == (120,)
    assert slugs(scene.run("NCCL_ALGO")) == set()


# --- env-wrong-value -----------------------------------------------------------------------------


def test_another_value_than_expected() -> None:
    scene = worker(sglang(2, server=RING), 111, {"NCCL_ALGO": "Tree"})
    finding = one(scene.run("NCCL_ALGO=Ring"), "env-wrong-value")
    assert (finding.severity, finding.pids) == (Severity.ERROR, (111,))
    message = text(finding.message)
    assert "NCCL_ALGO is Tree in scheduler TP1 (PID 111); expected: Ring" in message
    assert "changed in scheduler TP1 (PID 111), between its exec view and its libc view" in message
    told = evidence(finding)
    assert "In the exec view of scheduler TP1 (PID 111): Ring." in told
    assert "In the libc view of scheduler TP1 (PID 111): Tree." in told


def test_a_wrong_value_that_was_there_from_the_start_says_so() -> None:
    finding = one(sglang(2, server=RING).run("NCCL_ALGO=Tree"), "env-wrong-value")
    assert finding.pids == (110, 111)
    assert "it is so from the exec view of server (PID 100) on" in text(finding.message)
    assert finding.breaks == ()
    assert "NCCL_ALGO" in text(finding.remedy)


def test_where_the_first_view_cannot_be_read_the_next_one_is_named() -> None:
    scene = view_of(sglang(1, server=RING), ROOT, refused(View.EXEC))
    finding = one(scene.run("NCCL_ALGO=Tree"), "env-wrong-value")
    assert "it is so from the libc view of server (PID 100) on" in text(finding.message)


def test_a_worker_that_is_the_target_itself_lacks_it_from_its_start() -> None:
    scene = Scene().add(ROOT, role=scheduler(0), exec={})
    finding = one(scene.run("NCCL_ALGO"), "env-missing")
    assert "scheduler TP0 (PID 100)" in text(finding.message)
    assert "from the exec view of scheduler TP0 (PID 100) on" in text(finding.message)


def test_the_break_is_where_the_route_stops_to_satisfy_the_expectation() -> None:
    scene = sglang(1, server={"NCCL_PROTO": "LL"}, server_exec={"NCCL_PROTO": "Simple"})
    scene = worker(scene, 110, {"NCCL_PROTO": "LL128"})
    finding = one(scene.run("NCCL_PROTO=Simple"), "env-wrong-value")
    assert "changed in server (PID 100), between its exec view and its libc view" in text(
        finding.message
    )


def test_what_a_known_writer_did_against_an_expectation_is_an_error_that_names_it() -> None:
    scene = sglang(
        2,
        server={"CUDA_DEVICE_MAX_CONNECTIONS": "8"},
        server_exec={"CUDA_DEVICE_MAX_CONNECTIONS": "1"},
    )
    result = scene.run("CUDA_DEVICE_MAX_CONNECTIONS=1")
    finding = one(result, "env-wrong-value")
    assert finding.pids == (110, 111)
    assert "known writer: " in evidence(finding)
    assert of(result, "framework-wrote") == []


@pytest.mark.parametrize(
    ("rule", "expected", "says"),
    [
        (Rule.ONE_OF, (b"LL", b"Simple"), "expected: LL or Simple"),
        (Rule.CONTAINS, (b"LL",), "expected: a list with the element LL"),
    ],
)
def test_other_rules_say_what_they_demand(
    rule: Rule, expected: tuple[bytes, ...], says: str
) -> None:
    wanted = Expectation("NCCL_PROTO", rule, tuple(map(Value, expected)))
    finding = one(sglang(1, server={"NCCL_PROTO": "LL128"}).run(wanted), "env-wrong-value")
    assert says in text(finding.message)
    assert slugs(sglang(1, server={"NCCL_PROTO": "LL"}).run(wanted)) == set()


def test_many_different_wrong_values_are_one_finding_that_names_three() -> None:
    scene = sglang(6, server=RING)
    for rank in range(6):
        scene = worker(scene, 110 + rank, {"NCCL_ALGO": f"v{rank}"})
    message = text(one(scene.run("NCCL_ALGO=Ring"), "env-wrong-value").message)
    assert "v0 or v1 or v2 or one of 3 other values in all 6 workers" in message


def test_wrong_values_of_few_workers_are_all_named() -> None:
    scene = worker(worker(sglang(2), 110, {"NCCL_ALGO": "v0"}), 111, {"NCCL_ALGO": "v1"})
    message = text(one(scene.run("NCCL_ALGO=Ring"), "env-wrong-value").message)
    assert message.startswith("NCCL_ALGO is v0 or v1 in scheduler TP0")
    assert "and 1 more worker" in message


def test_relative_elements_count_from_the_directory_of_the_worker() -> None:
    scene = sglang(2, server={"PYTHONPATH": "hooks"}).change(111, cwd="/elsewhere")
    finding = one(scene.run("PYTHONPATH~=/srv/hooks"), "env-wrong-value")
    assert finding.pids == (111,)


SAME = Expectation("CUDA_MODULE_LOADING", Rule.SAME)


def test_same_names_whoever_differs_from_the_majority() -> None:
    scene = worker(sglang(3, server={"CUDA_MODULE_LOADING": "LAZY"}), 112, {})
    finding = one(scene.run(SAME), "env-wrong-value")
    assert finding.pids == (112,)
    assert "absent" in text(finding.message)
    assert "expected: the same in all of them" in text(finding.message)


@pytest.mark.parametrize("server", [{}, {"CUDA_MODULE_LOADING": "LAZY"}])
def test_same_holds_where_all_agree_on_a_value_or_on_absence(server: dict[str, str]) -> None:
    assert slugs(sglang(3, server=server).run(SAME)) == set()


def test_same_counts_no_unreadable_worker_as_one_that_lacks_the_variable() -> None:
    scene = sglang(3, server={"CUDA_MODULE_LOADING": "LAZY"})
    scene = view_of(view_of(scene, 111, refused(View.LIBC)), 112, refused(View.LIBC))
    result = scene.run(SAME)
    assert of(result, "env-wrong-value") == []
    assert one(result, "env-unknown").pids == (111, 112)


def test_same_does_not_take_the_unreadable_for_the_different() -> None:
    scene = view_of(sglang(3, server={"CUDA_MODULE_LOADING": "LAZY"}), 112, refused(View.LIBC))
    result = scene.run(SAME)
    assert of(result, "env-wrong-value") == []
    assert one(result, "env-unknown").pids == (112,)


# --- env-forbidden -------------------------------------------------------------------------------


def test_a_forbidden_variable() -> None:
    scene = worker(sglang(2), 111, {"NCCL_P2P_DISABLE": ""}, exec={"NCCL_P2P_DISABLE": ""})
    finding = one(scene.run("!NCCL_P2P_DISABLE"), "env-forbidden")
    assert (finding.severity, finding.pids) == (Severity.ERROR, (111,))
    assert "NCCL_P2P_DISABLE" in text(finding.message)
    assert "expected: absent" in text(finding.message)
    assert "unset NCCL_P2P_DISABLE" in text(finding.remedy) or finding.breaks
    assert slugs(sglang(2).run("!NCCL_P2P_DISABLE")) == set()


def test_a_forbidden_variable_whose_value_was_not_read_is_there_all_the_same() -> None:
    scene = sglang(1)
    entries = {**values(BASE), "SECRET_MODE": None}
    view = Environment(View.LIBC, EnvironmentStatus.COMPLETE, entries)
    scene = view_of(scene, 110, view)
    finding = one(scene.run("!SECRET_MODE"), "env-forbidden")
    assert (finding.pids, finding.breaks) == ((110,), ())
    assert text(finding.message) == (
        "SECRET_MODE is set, to a value that was not read, in scheduler TP0 (PID 110);"
        " expected: absent."
    )
    assert of(scene.run("SECRET_MODE"), "env-missing") == []
    unknown = one(scene.run("SECRET_MODE=1"), "env-unknown")
    assert "not read in this scan" in text(unknown.message)


def test_a_variable_whose_value_nobody_read_is_forbidden_with_any_route() -> None:
    scene = sglang(1)
    for pid in (ROOT, 110):
        entries = {**values(BASE), "SHELL": None}
        views = [Environment(view, EnvironmentStatus.COMPLETE, entries) for view in ENVIRONS]
        scene = view_of(scene, pid, *views)
    assert "SHELL is set" in text(one(scene.run("!SHELL"), "env-forbidden").message)


# --- env-unknown ---------------------------------------------------------------------------------


def test_what_cannot_be_read_is_neither_missing_nor_right() -> None:
    scene = view_of(sglang(2, server=RING), 111, refused(View.LIBC, "no ptrace", "Run as root."))
    result = scene.run("NCCL_ALGO=Ring", "!NCCL_PROTO")
    finding = one(result, "env-unknown")
    assert (finding.pids, finding.undetermined) == ((111,), True)
    assert "NCCL_ALGO and NCCL_PROTO" in text(finding.message)
    assert finding.variable == ""
    # The reason is told once, by the check that speaks of the worker.
    assert text(finding.message).endswith("(PID 111): see worker-unreadable (EP002).")
    assert "no ptrace" in text(one(result, "worker-unreadable").message)
    assert text(finding.remedy) == "Run as root."
    assert {"env-missing", "env-forbidden", "env-wrong-value"}.isdisjoint(slugs(result))


def test_unknowns_with_different_reasons_are_told_apart() -> None:
    scene = view_of(sglang(3), 111, refused(View.LIBC, "no ptrace"))
    changing = Environment(View.LIBC, EnvironmentStatus.CHANGING)
    scene = view_of(scene, 112, changing)
    found = of(scene.run("!NCCL_ALGO"), "env-unknown")
    assert [finding.pids for finding in found] == [(111,), (112,)]
    assert "changed at each attempt" in text(found[1].message)
    assert text(found[1].remedy) == "Scan again once the process has started."


def test_a_partly_read_view_decides_what_it_holds_and_nothing_else() -> None:
    partial = libc_view(RING, status=EnvironmentStatus.PARTIAL, reason="too long")
    scene = view_of(sglang(1, server=RING), 110, partial)
    assert of(scene.run("NCCL_ALGO=Ring"), "env-unknown") == []
    finding = one(scene.run("NCCL_PROTO"), "env-unknown")
    assert (finding.pids, finding.variable) == ((110,), "NCCL_PROTO")


def test_a_reason_of_its_own_goes_before_the_usual_one() -> None:
    changing = Environment(
        View.LIBC, EnvironmentStatus.CHANGING, reason="it execs now", remedy="Wait a second."
    )
    finding = one(view_of(sglang(1), 110, changing).run("NCCL_ALGO"), "env-unknown")
    assert "it execs now" in text(finding.message)
    assert text(finding.remedy) == "Wait a second."


def test_a_list_that_was_read_only_in_part_is_unknown() -> None:
    value = Value(b"/a:/b", length=2 << 20, digest="0" * 64)
    view = Environment(View.LIBC, EnvironmentStatus.COMPLETE, {"PYTHONPATH": value})
    finding = one(view_of(sglang(1), 110, view).run("PYTHONPATH~=/c"), "env-unknown")
    assert "only the first part of its 2097152 bytes was read" in text(finding.message)
    assert "exact value" in text(finding.remedy)


def test_a_relative_list_without_a_known_directory_is_unknown() -> None:
    scene = sglang(1, server={"PYTHONPATH": "hooks"}).change(110, cwd=None)
    assert "current directory" in text(
        one(scene.run("PYTHONPATH~=/srv/hooks"), "env-unknown").message
    )
    assert slugs(scene.run("PYTHONPATH~=hooks")) == set()


def test_a_role_that_no_process_has_decides_nothing() -> None:
    wanted = Expectation("NCCL_ALGO", Rule.SET, role="detokenizer")
    finding = one(sglang(1, server=RING).run(wanted), "env-unknown")
    assert finding.undetermined
    assert "no process of the scan has the role detokenizer" in text(finding.message)
    assert finding.variable == "NCCL_ALGO"
    other = Expectation("NCCL_PROTO", Rule.SET, role="detokenizer")
    both = one(sglang(1, server=RING).run(wanted, other), "env-unknown")
    assert both.variable == ""
    assert "NCCL_ALGO and NCCL_PROTO holds: no process" in text(both.message)


# --- set-too-late --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["PYTHONPATH", "LD_PRELOAD", "MALLOC_ARENA_MAX", "OMP_NUM_THREADS"]
)
def test_set_after_the_start_does_not_satisfy_what_is_read_at_the_start(name: str) -> None:
    scene = worker(sglang(2, server={name: "/x"}), 111, {name: "/x"}, exec={})
    finding = one(scene.run(f"{name}=/x"), "set-too-late")
    assert (finding.severity, finding.pids, finding.variable) == (Severity.ERROR, (111,), name)
    assert "is /x in scheduler TP1 (PID 111), but came only after the start" in text(
        finding.message
    )
    assert not finding.undetermined
    assert "code that the worker runs itself" in text(finding.remedy)


def test_removed_after_the_start_was_still_read_at_the_start() -> None:
    scene = worker(sglang(1, server={"PYTHONPATH": "/x"}), 110, {}, exec={"PYTHONPATH": "/x"})
    finding = one(scene.run("!PYTHONPATH"), "set-too-late")
    assert finding.pids == (110,)
    assert "is absent in scheduler TP0 (PID 110), but was removed only after the start" in text(
        finding.message
    )


def test_a_list_that_grew_after_the_start_is_in_time_for_what_it_held_before() -> None:
    scene = worker(
        sglang(1, server={"PYTHONPATH": "/x"}),
        110,
        {"PYTHONPATH": "/y:/x"},
        exec={"PYTHONPATH": "/x"},
    )
    assert slugs(scene.run("PYTHONPATH~=/x"), "changed-on-the-way") == set()
    assert one(scene.run("PYTHONPATH~=/y"), "set-too-late").pids == (110,)


def test_a_wiped_block_of_a_worker_whose_parent_has_the_value_is_in_time() -> None:
    scene = sglang(2, server={"PYTHONPATH": "/x", **RING}, wipe=True)
    result = scene.run("PYTHONPATH=/x", "NCCL_ALGO=Ring")
    assert slugs(result) == {"block-wiped"}


def test_without_any_witness_of_the_start_it_is_unknown_not_too_late() -> None:
    scene = view_of(sglang(1), 110, wiped(), libc_view({**BASE, "PYTHONPATH": "/x"}))
    finding = one(scene.run("PYTHONPATH=/x"), "env-unknown")
    assert finding.undetermined
    assert "SPT_NOENV=1" in text(finding.remedy)
    assert of(scene.run("PYTHONPATH=/x"), "set-too-late") == []


def test_a_stand_in_that_lacks_the_value_does_not_prove_lateness() -> None:
    tracker = exec_view(BASE, confidence=Confidence.INFERRED, source="resource tracker 101", at=1.0)
    scene = sglang(1, server={"PYTHONPATH": "/x"}, server_exec={})
    scene = view_of(scene, 110, tracker)
    assert slugs(scene.run("PYTHONPATH=/x"), "exec-view-inferred") == set()


# --- set-late-unproven ---------------------------------------------------------------------------


def test_set_after_the_start_may_be_in_time_for_what_is_read_at_first_use() -> None:
    scene = worker(
        sglang(2, server={"NCCL_P2P_LEVEL": "NVL"}), 111, {"NCCL_P2P_LEVEL": "NVL"}, exec={}
    )
    result = scene.run("NCCL_P2P_LEVEL=NVL")
    finding = one(result, "set-late-unproven")
    assert (finding.severity, finding.pids) == (Severity.WARNING, (111,))
    assert not finding.undetermined
    assert "is NVL in scheduler TP1 (PID 111) as expected, but came only after the start" in text(
        finding.message
    )
    assert "it is read at its first use" in text(finding.message)
    assert len(finding.breaks) == 1
    assert "NCCL_DEBUG=INFO" in text(finding.remedy)
    assert slugs(result) == {"set-late-unproven"}


def test_the_log_of_nccl_proves_nothing_of_other_variables() -> None:
    scene = worker(sglang(1), 110, {"CUDA_LAUNCH_BLOCKING": "1"}, exec={})
    finding = one(scene.run("CUDA_LAUNCH_BLOCKING=1"), "set-late-unproven")
    assert "NCCL" not in text(finding.remedy)


def test_what_may_have_come_late_is_inferred() -> None:
    scene = view_of(sglang(1), 110, wiped(), libc_view({**BASE, **RING}))
    finding = one(scene.run("NCCL_ALGO=Ring"), "set-late-unproven")
    assert finding.confidence is Confidence.INFERRED
    assert "may have come after the start" in text(finding.message)


def test_a_variable_of_which_nothing_is_known_may_have_been_read_early() -> None:
    scene = worker(sglang(1), 110, {"MY_SWITCH": "1"}, exec={})
    finding = one(scene.run("MY_SWITCH=1"), "set-late-unproven")
    assert "when it is read is not known" in text(finding.message)


def test_a_late_absence_may_have_come_too_late_as_well() -> None:
    scene = worker(sglang(1, server=RING), 110, {})
    finding = one(scene.run("!NCCL_ALGO"), "set-late-unproven")
    assert "NCCL_ALGO is absent in scheduler TP0 (PID 110) as expected" in text(finding.message)


def test_strict_makes_a_late_value_undetermined() -> None:
    scene = worker(sglang(1), 110, RING, exec={})
    strict = one(scene.run("NCCL_ALGO=Ring", strict=True), "set-late-unproven")
    assert strict.undetermined
    assert "each communicator reads it" in text(strict.message)


def test_what_is_read_at_each_use_is_never_late() -> None:
    scene = worker(sglang(1), 110, {"TOKENIZERS_PARALLELISM": "false"}, exec={})
    assert slugs(scene.run("TOKENIZERS_PARALLELISM=false"), "framework-wrote") == set()


def forked(given: dict[str, str], child: dict[str, str]) -> Scene:
    """A program that set variables after its start, and a worker forked from it."""
    scene = Scene().add(ROOT, exec={}, libc=given)
    scene.add(110, ROOT, role=scheduler(0), exec={}, libc=child, kind=EdgeKind.FORK)
    return scene.change(110, image_owner=ROOT)


def test_a_fork_child_has_what_its_parent_had_at_the_fork() -> None:
    assert slugs(forked(RING, RING).run("NCCL_ALGO=Ring")) == set()
    # What the child set itself may come too late there as well.
    assert slugs(forked({}, RING).run("NCCL_ALGO=Ring")) == {"set-late-unproven"}


def test_what_is_read_at_the_start_was_read_before_the_fork() -> None:
    path = {"PYTHONPATH": "/x"}
    assert one(forked(path, path).run("PYTHONPATH=/x"), "set-too-late").pids == (110,)


def test_a_survivor_of_a_partly_wiped_block_proves_the_start() -> None:
    survivor = Environment(
        View.EXEC,
        EnvironmentStatus.PARTIAL,
        values({"OMP_NUM_THREADS": "4"}),
        block=BlockState.PARTLY_WIPED,
        reason="partly overwritten",
    )
    scene = view_of(
        sglang(1, server={}), 110, survivor, libc_view({**BASE, "OMP_NUM_THREADS": "8"})
    )
    assert one(scene.run("OMP_NUM_THREADS=8"), "set-too-late").pids == (110,)


# --- values --------------------------------------------------------------------------------------


def test_values_stay_values_in_every_sentence() -> None:
    scene = worker(sglang(2, server={"NCCL_ALGO": "hunter2"}), 111, {"NCCL_ALGO": "hunter3"})
    result = scene.run("NCCL_ALGO=hunter4")
    assert slugs(result) >= {"env-wrong-value"}
    for finding in result.findings:
        for sentence in (finding.message, finding.remedy, *finding.evidence):
            plain = [part for part in sentence.parts if isinstance(part, str)]
            assert "hunter" not in "".join(plain)


def test_an_expectation_holds_for_the_first_of_duplicates() -> None:
    scene = sglang(1, server=RING)
    view = scene.processes[110].environment(View.LIBC)
    doubled = dataclasses.replace(view, duplicates={"NCCL_ALGO": (Value(b"Tree"),)})
    result = view_of(scene, 110, doubled).run("NCCL_ALGO=Ring")
    assert slugs(result) == {"duplicate-variable"}
