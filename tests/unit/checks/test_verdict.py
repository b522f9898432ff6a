"""Design section 3, row by row: which findings give which exit code."""

from __future__ import annotations

import pytest

from envprobe.checks.finding import Context, Finding, Severity
from envprobe.checks.registry import Result, run_all
from envprobe.checks.verdict import Verdict, decided, judge, progress
from envprobe.config import Expectation, Rule
from envprobe.errors import Exit
from envprobe.model import Environment, EnvironmentStatus, Role, Sentence, View
from tests.unit.checks.scene import (
    BASE,
    ROOT,
    Scene,
    libc_view,
    refused,
    scheduler,
    sglang,
    slugs,
    view_of,
    wiped,
    worker,
)

RING = {"NCCL_ALGO": "Ring"}


def verdict(context: Context, fail_on: Severity = Severity.ERROR) -> tuple[Verdict, set[str]]:
    result = run_all(context)
    return judge(context, result, fail_on), slugs(result)


def test_a_healthy_server_holds_with_and_without_expectations() -> None:
    for expect in ((), ("NCCL_ALGO=Ring",)):
        judged, found = verdict(sglang(2, server=RING).context(*expect))
        assert found == set()
        assert judged.exit is Exit.HOLDS
        assert set(judged.counts.values()) == {0}


def test_a_retitled_server_with_what_sglang_writes_holds() -> None:
    scene = sglang(
        2,
        server={"CUDA_DEVICE_MAX_CONNECTIONS": "8", "NCCL_CUMEM_ENABLE": "0", **RING},
        server_exec={"CUDA_DEVICE_MAX_CONNECTIONS": "1", **RING},
        wipe=True,
    )
    judged, found = verdict(scene.context())
    assert found == {"framework-wrote", "block-wiped"}
    assert judged.exit is Exit.HOLDS
    assert judged.counts == {
        "error": 0,
        "warning": 0,
        "info": 3,
        "undetermined": 0,
        "accepted": 0,
        "ignored": 0,
    }


def test_no_worker_is_undetermined_unless_that_is_accepted() -> None:
    scene = Scene().add(ROOT)
    judged, found = verdict(scene.context())
    assert (judged.exit, found) == (Exit.UNDETERMINED, {"no-workers"})
    accepted, found = verdict(scene.context(allow_unknown={"no-workers": "because"}))
    assert (accepted.exit, found) == (Exit.HOLDS, {"no-workers"})
    assert accepted.counts["accepted"] == 1
    assert accepted.counts["undetermined"] == 0


def test_ignoring_the_check_is_no_evidence() -> None:
    scene = Scene().add(ROOT)
    context = scene.context(ignore={"no-workers": "because"})
    judged, found = verdict(context)
    assert (judged.exit, found) == (Exit.UNDETERMINED, {"no-workers"})
    # Even a result without any finding does not hold where nothing was read.
    assert judge(context, Result(())).exit is Exit.UNDETERMINED


def test_an_unreadable_worker_is_undetermined_unless_that_is_accepted() -> None:
    scene = view_of(sglang(2), 111, refused(View.LIBC))
    judged, found = verdict(scene.context())
    assert (judged.exit, found) == (Exit.UNDETERMINED, {"worker-unreadable"})
    assert judge(scene.context(), Result(())).exit is Exit.UNDETERMINED
    accepted, _ = verdict(scene.context(allow_unknown={"worker-unreadable": "because"}))
    assert accepted.exit is Exit.HOLDS
    other, _ = verdict(scene.context(allow_unknown={"env-unknown": "because"}))
    assert other.exit is Exit.UNDETERMINED


def test_accepting_the_unreadable_worker_does_not_accept_what_was_expected_of_it() -> None:
    scene = view_of(sglang(2, server=RING), 111, refused(View.LIBC))
    allowed = {"worker-unreadable": "because"}
    judged, found = verdict(scene.context("NCCL_ALGO", allow_unknown=allowed))
    assert (judged.exit, found) == (Exit.UNDETERMINED, {"worker-unreadable", "env-unknown"})
    both = {**allowed, "env-unknown": "because"}
    assert verdict(scene.context("NCCL_ALGO", allow_unknown=both))[0].exit is Exit.HOLDS


def test_a_partly_read_worker_is_evidence_only_for_expectations_that_it_decides() -> None:
    partial = libc_view({**BASE, **RING}, status=EnvironmentStatus.PARTIAL, reason="too long")
    scene = view_of(sglang(1, server=RING), 110, partial)
    assert verdict(scene.context("NCCL_ALGO=Ring"))[0].exit is Exit.HOLDS
    assert verdict(scene.context("NCCL_PROTO"))[0].exit is Exit.UNDETERMINED
    assert verdict(scene.context())[0].exit is Exit.UNDETERMINED


@pytest.mark.parametrize(
    ("severity", "fail_on", "code"),
    [
        (Severity.ERROR, Severity.ERROR, Exit.FINDING),
        (Severity.WARNING, Severity.ERROR, Exit.HOLDS),
        (Severity.INFO, Severity.ERROR, Exit.HOLDS),
        (Severity.ERROR, Severity.WARNING, Exit.FINDING),
        (Severity.WARNING, Severity.WARNING, Exit.FINDING),
        (Severity.INFO, Severity.WARNING, Exit.HOLDS),
        (Severity.INFO, Severity.INFO, Exit.FINDING),
    ],
)
def test_a_finding_at_or_above_fail_on_gives_one(
    severity: Severity, fail_on: Severity, code: Exit
) -> None:
    finding = Finding("env-missing", severity, Sentence.of("said."))
    judged = judge(sglang(1).context(), Result((finding,)), fail_on)
    assert judged.exit is code
    assert judged.counts[severity.value] == 1


@pytest.mark.parametrize("severity", Severity)
def test_what_could_not_be_determined_gives_three_whatever_its_severity(severity: Severity) -> None:
    finding = Finding("unstable-tree", severity, Sentence.of("said."), undetermined=True)
    judged = judge(sglang(1).context(), Result((finding,)), Severity.INFO)
    assert judged.exit is Exit.UNDETERMINED
    assert judged.counts["undetermined"] == 1
    assert judged.counts[severity.value] == 0


def test_a_finding_goes_before_what_could_not_be_determined() -> None:
    scene = view_of(worker(sglang(3, server=RING), 111, {}), 112, refused(View.LIBC))
    judged, found = verdict(scene.context("NCCL_ALGO"))
    assert {"env-missing", "env-unknown"} <= found
    assert judged.exit is Exit.FINDING


def test_an_ignored_finding_does_not_count() -> None:
    context = sglang(1).context("NCCL_ALGO", ignore={"env-missing": "because"})
    judged, found = verdict(context)
    assert (judged.exit, found) == (Exit.HOLDS, set())
    assert judged.counts["ignored"] == 1
    assert judged.counts["error"] == 0


def test_a_root_that_ended_during_the_scan_goes_before_findings() -> None:
    scene = sglang(1).change(ROOT, ended=True)
    judged, found = verdict(scene.context("NCCL_ALGO"))
    assert "env-missing" in found
    assert judged.exit is Exit.TARGET_GONE
    del scene.processes[ROOT]
    assert verdict(scene.context())[0].exit is Exit.TARGET_GONE


def test_a_helper_or_one_of_several_roots_that_ended_is_not_the_target() -> None:
    scene = sglang(1).change(101, ended=True)
    assert verdict(scene.context())[0].exit is Exit.HOLDS
    scene = sglang(1).change(ROOT, ended=True)
    scene.fields["roots"] = (ROOT, 110)
    assert verdict(scene.context())[0].exit is Exit.HOLDS


def test_a_worker_that_ended_unread_is_no_evidence_even_when_that_is_ignored() -> None:
    scene = view_of(sglang(2).change(111, ended=True), 111, refused(View.LIBC))
    judged, _ = verdict(scene.context())
    assert judged.exit is Exit.FINDING
    ignored, found = verdict(scene.context(ignore={"worker-vanished": "because"}))
    assert found == set()
    assert ignored.exit is Exit.UNDETERMINED


def test_strict_makes_a_late_value_undetermined() -> None:
    scene = worker(sglang(1), 110, RING, exec={})
    assert verdict(scene.context("NCCL_ALGO=Ring"))[0].exit is Exit.HOLDS
    judged, found = verdict(scene.context("NCCL_ALGO=Ring", strict=True))
    assert (judged.exit, found) == (Exit.UNDETERMINED, {"set-late-unproven"})


# --- waiting -------------------------------------------------------------------------------------


def test_waiting_ends_when_the_awaited_workers_are_there() -> None:
    scene = sglang(2)
    assert decided(scene.context(workers={"": 2}))
    assert not decided(scene.context(workers={"": 3}))
    assert progress(scene.context(workers={"scheduler": 3})).counts == {"scheduler": (2, 3)}


def test_without_a_number_one_worker_is_awaited() -> None:
    assert decided(sglang(1).context())
    assert not decided(Scene().add(ROOT).context())


def test_a_child_whose_role_is_not_final_does_not_count() -> None:
    scene = sglang(1).add(120, ROOT, role=Role("spawn child", "sglang", final=False))
    assert not decided(scene.context(workers={"": 2}))
    scene.change(120, role=scheduler(1))
    assert decided(scene.context(workers={"": 2}))


def test_a_worker_that_ended_does_not_count() -> None:
    assert not decided(sglang(2).change(111, ended=True).context(workers={"scheduler": 2}))


def test_waiting_goes_on_while_an_expectation_is_not_decided() -> None:
    changing = Environment(View.LIBC, EnvironmentStatus.CHANGING)
    scene = view_of(sglang(2, server=RING), 111, changing)
    found = progress(scene.context("NCCL_ALGO", workers={"": 2}))
    assert (found.undecided, found.decided) == (("NCCL_ALGO",), False)
    assert decided(scene.context(workers={"": 2}))


def test_waiting_does_not_go_on_for_what_another_scan_cannot_tell() -> None:
    scene = view_of(sglang(1), 110, wiped(), libc_view({**BASE, "PYTHONPATH": "/x"}))
    context = scene.context("PYTHONPATH=/x")
    assert slugs(run_all(context)) >= {"env-unknown"}
    assert decided(context)


def test_a_broken_expectation_is_decided() -> None:
    assert decided(sglang(2).context("NCCL_ALGO", workers={"": 2}))


def test_an_expectation_for_a_role_waits_for_a_process_of_that_role() -> None:
    wanted = Expectation("NCCL_ALGO", Rule.SET, role="detokenizer")
    scene = sglang(1)
    assert progress(scene.context(wanted)).undecided == ("NCCL_ALGO",)
    scene.add(120, ROOT, role=Role("detokenizer", "sglang"), exec=wiped(), libc=RING)
    assert decided(scene.context(wanted))
