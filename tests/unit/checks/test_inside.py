"""What the interpreters of workers tell: disagreements, an ignored PYTHONPATH, other Pythons."""

from __future__ import annotations

from typing import Any

import pytest

from envprobe.checks.finding import Finding, Severity
from envprobe.checks.pythonpath_ignored import resolved
from envprobe.model import Confidence, View
from tests.unit.checks.insides import looked_into, mirrored
from tests.unit.checks.scene import (
    ROOT,
    Scene,
    evidence,
    of,
    one,
    refused,
    sglang,
    slugs,
    text,
    wiped,
    worker,
)

IGNORING = {"isolated": 1, "ignore_environment": 1}


# --- c-and-python-disagree -----------------------------------------------------------------------


def disagreeing(name: str, *expect: str) -> Finding:
    scene = worker(sglang(2, server={}), 111, {name: "C"})
    mirrored(mirrored(scene, 110, {}), 111, {name: ""})
    return one(scene.run(*expect), "c-and-python-disagree")


def test_a_variable_that_only_c_code_has() -> None:
    finding = disagreeing("NCCL_ALGO")
    assert (finding.severity, finding.pids, finding.variable) == (
        Severity.WARNING,
        (111,),
        "NCCL_ALGO",
    )
    message = text(finding.message)
    assert "NCCL_ALGO is C in the C environ" in message
    assert "absent in os.environ" in message
    assert "from a configuration file" in evidence(finding)


def test_it_is_a_note_where_ranks_need_not_agree_and_nothing_is_expected() -> None:
    assert disagreeing("NCCL_DEBUG_SUBSYS").severity is Severity.INFO
    assert disagreeing("NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_SUBSYS=C").severity is Severity.WARNING


def test_equal_views_unread_views_and_what_libraries_set_for_themselves_are_no_finding() -> None:
    scene = worker(sglang(2, server={}), 111, {"NCCL_ALGO": "C"})
    assert "c-and-python-disagree" not in slugs(scene.run())
    mirrored(scene, 111, refused(View.PYTHON))
    assert "c-and-python-disagree" not in slugs(scene.run())
    mirrored(scene, 111, {"NCCL_ALGO": "C"})
    assert "c-and-python-disagree" not in slugs(scene.run())
    name = "__KMP_REGISTERED_LIB_111_0"
    scene = worker(sglang(2, server={}), 111, {name: "1"})
    mirrored(scene, 111, {name: ""})
    assert "c-and-python-disagree" not in slugs(scene.run(f"{name}=1"))


def test_nothing_disagrees_with_a_c_environ_that_was_not_read() -> None:
    scene = sglang(1, server={"NCCL_ALGO": "Ring"})
    mirrored(scene, 110, {"NCCL_ALGO": "Tree"})
    scene.processes[110].environments[View.LIBC] = refused(View.LIBC)
    assert "c-and-python-disagree" not in slugs(scene.run())


# --- pythonpath-ignored --------------------------------------------------------------------------


def ignoring(**changes: Any) -> Scene:
    scene = sglang(2, server={"PYTHONPATH": "/opt/hooks:plugins:/opt/venv/lib"})
    return looked_into(scene, 111, **{"flags": IGNORING, **changes})


def test_pythonpath_of_an_isolated_worker() -> None:
    finding = one(ignoring().run(), "pythonpath-ignored")
    assert (finding.severity, finding.pids) == (Severity.WARNING, (111,))
    assert finding.confidence is Confidence.PROVED
    assert "started with -I" in text(finding.message)
    told = evidence(finding)
    assert "/opt/hooks is not on sys.path." in told
    assert "plugins (relative, in its working directory: /srv/plugins) is not on sys.path." in told
    assert "/opt/venv/lib is on sys.path all the same." in told


def test_minus_e_is_told_from_minus_i() -> None:
    scene = ignoring(flags={"isolated": 0, "ignore_environment": 1})
    assert "started with -E" in text(one(scene.run(), "pythonpath-ignored").message)


def test_a_wiped_block_leaves_it_inferred_from_what_is_there_now() -> None:
    scene = ignoring()
    scene.processes[111].environments[View.EXEC] = wiped()
    assert one(scene.run(), "pythonpath-ignored").confidence is Confidence.INFERRED


@pytest.mark.parametrize("flags", [{}, {"isolated": 0, "ignore_environment": 0}])
def test_without_the_flags_nothing_is_ignored(flags: dict[str, int]) -> None:
    assert "pythonpath-ignored" not in slugs(ignoring(flags=flags).run())


def test_without_the_variable_nothing_is_ignored() -> None:
    for given in ({}, {"PYTHONPATH": ""}):
        scene = looked_into(sglang(1, server=given), 110, flags=IGNORING)
        assert "pythonpath-ignored" not in slugs(scene.run())


def test_where_entries_lead() -> None:
    assert resolved("/a/../b", None) == "/b"
    assert resolved("x", "/srv") == "/srv/x"
    assert resolved("", "/srv") == "/srv"
    assert resolved("x", None) is None


# --- other-interpreter ---------------------------------------------------------------------------


def alike() -> Scene:
    return looked_into(sglang(3, server={}), ROOT, 110, 111, 112)


def test_one_interpreter_everywhere_is_no_finding() -> None:
    assert "other-interpreter" not in slugs(alike().run())
    assert "other-interpreter" not in slugs(alike().change(111, inside=None).run())


@pytest.mark.parametrize("changes", [{"version": "3.12.1"}, {"prefix": "/opt/other"}])
def test_a_worker_of_another_interpreter(changes: dict[str, str]) -> None:
    finding = one(looked_into(alike(), 111, **changes).run(), "other-interpreter")
    assert (finding.severity, finding.pids) == (Severity.WARNING, (111,))
    assert next(iter(changes.values())) in evidence(finding)


def test_a_worker_of_another_program() -> None:
    scene = alike().change(112, exe="/usr/local/bin/python3")
    assert one(scene.run(), "other-interpreter").pids == (112,)


def test_workers_of_another_interpreter_than_their_launcher() -> None:
    finding = one(looked_into(alike(), ROOT, prefix="/usr").run(), "other-interpreter")
    assert finding.pids == (110, 111, 112)
    assert "prefix /usr" in evidence(finding)


def test_different_names_of_one_program_are_no_difference() -> None:
    scene = looked_into(alike(), 111, executable="/opt/venv/bin/python3")
    assert of(scene.run(), "other-interpreter") == []
