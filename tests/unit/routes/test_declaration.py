"""The hop from what a unit declares to what its main process was started with: every cause."""

from __future__ import annotations

from typing import Any

import pytest

from envprobe.model import Confidence, View
from envprobe.routes.types import Break, CauseId, Change, Route
from envprobe.unitfacts import Entry, Hop
from tests.unit.checks import units
from tests.unit.checks.scene import ROOT, Scene, one, sglang, slugs, view_of, wiped
from tests.unit.routes.builders import text

REST = (CauseId.DEFINITION_CHANGED, CauseId.EXEC_AGAIN)
"""What is possible wherever nothing else explains exactly what the process was given."""

RING = {"NCCL_ALGO": "Ring"}
TREE = {"NCCL_ALGO": "Tree"}
SCRIPT = "/opt/start.sh"
THROUGH = (Hop("bash", f"{units.PATH}:4", "runs shell text"), Hop("env", f"{SCRIPT}:3", "sets"))


def route(scene: Scene, pid: int = ROOT) -> Route:
    return scene.context().routing.routes[pid, "NCCL_ALGO"]


def the_break(scene: Scene) -> Break:
    found = route(scene).breaks[0]
    assert [route(scene).stops[index].view for index in (found.before, found.after)] == [
        View.DECLARED,
        View.EXEC,
    ]
    return found


def causes(found: Break) -> set[CauseId]:
    return {cause.id for cause in found.causes}


def evidence(found: Break, identity: CauseId) -> str:
    (cause,) = [one for one in (*found.causes, *found.excluded) if one.id is identity]
    return text(*cause.evidence_for, *cause.evidence_against)


def server(declared: tuple[Entry, ...], variables: dict[str, str], **fields: Any) -> Scene:
    return units.put(sglang(2, server=variables), declared, **fields)


def test_every_route_starts_at_the_declaration() -> None:
    scene = server(units.entries({**RING, "OWN_SWITCH": "on"}), {**RING, "OWN_SWITCH": "on"})
    for pid in (ROOT, 110, 111):
        for name in ("NCCL_ALGO", "OWN_SWITCH"):
            found = scene.context().routing.routes[pid, name]
            assert [(stop.pid, stop.view) for stop in found.stops[:3]] == [
                (ROOT, View.DECLARED),
                (ROOT, View.EXEC),
                (ROOT, View.LIBC),
            ]
            assert (found.breaks, found.stops[-1].pid) == ((), pid)
    assert slugs(scene.run()) == set()


def test_a_wrapper_that_gives_just_this_is_proved() -> None:
    said = units.entries(RING)
    behind = units.entries(RING, removed=f"{SCRIPT}:3")
    found = the_break(server(said, {}, handed=behind, hops=THROUGH))
    assert (causes(found), found.change) == ({CauseId.EXEC_START_WRAPPER}, Change.LOST)
    assert found.confidence is Confidence.PROVED
    assert evidence(found, CauseId.EXEC_START_WRAPPER) == f"{SCRIPT}:3: NCCL_ALGO is taken out."
    assert evidence(found, CauseId.EXEC_AGAIN) == "What ExecStart= goes through gives exactly this."


def test_a_wrapper_that_hands_on_what_is_declared_is_excluded() -> None:
    found = the_break(server(units.entries(RING), TREE, hops=THROUGH))
    assert causes(found) == {CauseId.EXEC_AGAIN, CauseId.DEFINITION_CHANGED}
    assert "handed on as declared" in evidence(found, CauseId.EXEC_START_WRAPPER)
    told = evidence(found, CauseId.DEFINITION_CHANGED)
    assert told == f"None of its files was written after server (PID {ROOT}) started."
    assert found.causes[0].id is CauseId.EXEC_AGAIN


def test_a_wrapper_whose_script_was_edited_since_may_have_said_anything() -> None:
    scene = server(
        units.entries(RING),
        TREE,
        hops=THROUGH,
        scripts=(SCRIPT,),
        modified={units.PATH: 0.0, SCRIPT: 1e9},
    )
    found = the_break(scene)
    assert causes(found) == {CauseId.EXEC_START_WRAPPER, *REST}
    told = evidence(found, CauseId.EXEC_START_WRAPPER)
    assert f"{SCRIPT} was written after the start." in told
    assert "They hand on something else than the process was given." in told


def test_a_wrapper_that_cannot_be_followed_fits() -> None:
    opaque = f"{SCRIPT}:2: what `module` does has to be run to be known"
    found = the_break(server(units.entries(RING), {}, hops=THROUGH, opaque=opaque))
    assert causes(found) == {CauseId.EXEC_START_WRAPPER, *REST}
    assert evidence(found, CauseId.EXEC_START_WRAPPER) == f"Could not tell at {opaque}."


def test_without_wrappers_nothing_is_said_of_them() -> None:
    found = the_break(server(units.entries(RING), {}))
    ids = causes(found) | {cause.id for cause in found.excluded}
    assert CauseId.EXEC_START_WRAPPER not in ids
    assert CauseId.BUILT_BY_LAUNCHER not in ids


def test_what_is_loaded_and_is_what_the_process_has_is_proved() -> None:
    loaded = {one.name: one.value for one in units.entries(TREE)}
    scene = server(units.entries(RING), TREE, need_reload=True, loaded=loaded)
    found = the_break(scene)
    assert (causes(found), found.confidence) == ({CauseId.DEFINITION_CHANGED}, Confidence.PROVED)
    told = evidence(found, CauseId.DEFINITION_CHANGED)
    assert "What is loaded says NCCL_ALGO=Tree in Environment=." in told
    assert slugs(scene.run()) == {"definition-not-loaded"}


def test_an_edit_after_the_start_leaves_several_causes() -> None:
    found = the_break(server(units.entries(RING), TREE, edited=5.0))
    assert causes(found) == {CauseId.DEFINITION_CHANGED, CauseId.EXEC_AGAIN}
    assert found.confidence is Confidence.INFERRED
    assert found.causes[0].id is CauseId.DEFINITION_CHANGED


def test_a_file_that_was_copied_with_its_old_time_counts_as_written() -> None:
    start = sglang(1).processes[ROOT].start_time
    scene = server(units.entries(RING), TREE, touched={units.PATH: start + 5})
    assert f"{units.PATH} was written" in evidence(the_break(scene), CauseId.DEFINITION_CHANGED)
    assert slugs(scene.run()) == {"server-not-restarted"}
    said = units.entries(RING, units.FILE)
    scene = server(said, TREE, touched={units.ENV_FILE: start + 5})
    assert CauseId.ENVIRONMENT_FILE in causes(the_break(scene))
    assert slugs(scene.run()) == {"env-file-changed"}


@pytest.mark.parametrize(("file_edited", "fits"), [(5.0, True), (None, False)])
def test_an_environment_file_fits_only_if_it_was_changed(
    file_edited: float | None, fits: bool
) -> None:
    said = units.entries(RING, units.FILE)
    found = the_break(server(said, TREE, file_edited=file_edited))
    assert (CauseId.ENVIRONMENT_FILE in causes(found)) is fits


def test_an_environment_file_that_cannot_be_read_fits() -> None:
    why = f"{units.ENV_FILE} cannot be read here: Permission denied"
    said = units.entries(RING, doubt=why)
    scene = server(said, TREE, open=why, env_files=(units.ENV_FILE,))
    found = the_break(scene)
    assert CauseId.ENVIRONMENT_FILE in causes(found)
    assert evidence(found, CauseId.ENVIRONMENT_FILE) == f"{why}."
    told = one(scene.run(), "declared-not-handed-over")
    assert (told.pids, told.variable, told.confidence) == (
        (ROOT,),
        "NCCL_ALGO",
        Confidence.INFERRED,
    )


def test_pam_fits_where_the_unit_has_it() -> None:
    scene = server(units.entries(RING), TREE, pam=True)
    assert causes(the_break(scene)) == {CauseId.PAM, *REST}


def test_the_manager_fits_for_what_it_adds_itself() -> None:
    said = units.entries(RING, "manager", given=True, file="", place="")
    scene = server(said, {})
    assert CauseId.MANAGER_CHANGED in causes(the_break(scene))
    assert one(scene.run(), "declared-not-handed-over").severity.value == "warning"
    own = the_break(server(units.entries(RING), {}))
    assert "Environment= counts more" in evidence(own, CauseId.MANAGER_CHANGED)


def test_what_systemd_sets_itself_is_no_surprise() -> None:
    scene = server(units.entries(RING), {**RING, "NOTIFY_SOCKET": "/run/x"})
    scene.fields["wanted"] = (*scene.fields["wanted"], "NOTIFY_SOCKET")
    found = scene.context().routing.routes[ROOT, "NOTIFY_SOCKET"].breaks[0]
    assert causes(found) == {CauseId.SET_BY_MANAGER}
    assert slugs(scene.run()) == set()


def test_an_overwritten_block_moves_the_break_behind_it() -> None:
    scene = server(units.entries(RING), {})
    view_of(scene, ROOT, wiped())
    found = route(scene, 110).breaks[0]
    assert route(scene, 110).stops[found.after].view is View.LIBC
    assert CauseId.CHANGED_IN_PARENT in causes(found)
    assert slugs(scene.run()) >= {"lost-on-the-way"}
    assert "declared-not-handed-over" not in slugs(scene.run())


def test_a_value_that_a_wrapper_extends_is_kept() -> None:
    said = units.entries({"NCCL_ALGO": "Ring"})
    behind = units.entries({"NCCL_ALGO": "Tree,Ring"}, place=f"{SCRIPT}:3")
    kept = server(said, {"NCCL_ALGO": "Tree,Ring"}, handed=behind, hops=THROUGH)
    assert slugs(kept.run()) == set()
    other = units.entries({"NCCL_ALGO": "Tree"}, place=f"{SCRIPT}:3")
    changed = server(said, TREE, handed=other, hops=THROUGH)
    assert one(changed.run(), "declared-not-handed-over").severity.value == "warning"


def test_an_expectation_tells_of_the_same_break_once() -> None:
    scene = server(units.entries(RING), {})
    result = scene.run("NCCL_ALGO=Ring")
    assert one(result, "env-missing").pids == (110, 111)
    assert slugs(result) == {"env-missing"}
