"""The break between a worker's C environ and its os.environ, and the causes that fit there."""

from __future__ import annotations

import pytest

from envprobe.model import Confidence, EdgeKind, View
from envprobe.routes.types import CauseId, Change, Route
from tests.unit.routes.builders import Tree, Variables, environment, text, unreadable, wiped

A, B = {"X": "a"}, {"X": "b"}
C_SIDE = {CauseId.C_LEVEL_SETENV, CauseId.OS_PUTENV}


def route(exec: Variables, libc: Variables, python: Variables, name: str = "X") -> Route:
    tree = Tree().add(1, exec=exec).worker(2, 1, exec=exec, libc=libc, python=python)
    return tree.route(2, name)


def causes(made: Route) -> set[CauseId]:
    assert made.mirrored is not None
    return {cause.id for cause in made.mirrored.causes}


def ruled_out(made: Route) -> set[CauseId]:
    assert made.mirrored is not None
    return {cause.id for cause in made.mirrored.excluded}


@pytest.mark.parametrize(
    ("exec", "libc", "python", "change"),
    [({}, A, {}, Change.LOST), (A, B, A, Change.CHANGED), (A, {}, A, Change.APPEARED)],
)
def test_the_c_environ_alone_was_changed(
    exec: Variables, libc: Variables, python: Variables, change: Change
) -> None:
    made = route(exec, libc, python)
    assert made.mirrored is not None
    assert (made.mirrored.change, made.mirrored.confidence) == (change, Confidence.INFERRED)
    assert causes(made) == C_SIDE
    assert ruled_out(made) == {CauseId.OS_ENVIRON_EDITED}
    for cause in made.mirrored.causes:
        assert "os.environ still has what there was of X at the exec" in text(*cause.evidence_for)


@pytest.mark.parametrize(
    ("exec", "python", "change"),
    [(A, {}, Change.LOST), (A, B, Change.CHANGED), ({}, A, Change.APPEARED)],
)
def test_os_environ_alone_was_changed(exec: Variables, python: Variables, change: Change) -> None:
    made = route(exec, exec, python)
    assert made.mirrored is not None
    assert (made.mirrored.change, made.mirrored.confidence) == (change, Confidence.PROVED)
    assert causes(made) == {CauseId.OS_ENVIRON_EDITED}
    assert ruled_out(made) == C_SIDE
    (cause,) = made.mirrored.causes
    assert "the C environ still has" in text(*cause.evidence_for)


def test_without_the_exec_block_both_sides_fit() -> None:
    tree = Tree().add(1, exec=A).worker(2, 1, exec=wiped(), libc=A, python=B)
    made = tree.route(2)
    assert causes(made) == {*C_SIDE, CauseId.OS_ENVIRON_EDITED}
    assert ruled_out(made) == set()


def test_nccls_conf_file_is_a_cause_of_what_nccl_reads() -> None:
    variables = {"NCCL_ALGO": "Ring"}
    assert causes(route({}, variables, {}, "NCCL_ALGO")) == {*C_SIDE, CauseId.NCCL_CONF_FILE}
    assert CauseId.NCCL_CONF_FILE not in causes(route({}, A, {}))


def test_nccls_conf_file_replaces_no_value() -> None:
    before, after = {"NCCL_ALGO": "Ring"}, {"NCCL_ALGO": "Tree"}
    made = route(before, after, before, "NCCL_ALGO")
    assert causes(made) == C_SIDE
    assert CauseId.NCCL_CONF_FILE in ruled_out(made)


def test_nccls_conf_file_takes_nothing_away() -> None:
    before = {"NCCL_ALGO": "Ring"}
    made = route(before, {}, before, "NCCL_ALGO")
    assert CauseId.NCCL_CONF_FILE not in causes(made) | ruled_out(made)


def test_a_library_that_is_known_to_set_it_is_named() -> None:
    name = "__KMP_REGISTERED_LIB_77_0"
    made = route({}, {name: "7f-1-libomp.so"}, {}, name)
    assert made.mirrored is not None
    (cause,) = (one for one in made.mirrored.causes if one.id is CauseId.C_LEVEL_SETENV)
    assert "OpenMP runtime" in text(*cause.evidence_for)


def test_a_fork_childs_os_environ_was_made_in_the_image_that_it_was_forked_from() -> None:
    tree = Tree().add(1, exec=A).worker(2, 1, EdgeKind.FORK, exec={}, libc=A, python=B)
    assert causes(tree.route(2)) == {CauseId.OS_ENVIRON_EDITED}


def test_the_way_to_the_c_environ_is_judged_as_if_os_environ_had_not_been_read() -> None:
    alone = Tree().add(1, exec=A).worker(2, 1, exec=A, libc=B).route(2)
    mirrored = route(A, B, {})
    assert mirrored.arriving == alone.breaks
    never = Tree().add(1).worker(2, 1).route(2)
    assert [one.change for one in never.breaks] == [Change.NEVER_THERE]
    assert route({}, {}, A).arriving == never.breaks
    tree = Tree().add(1).worker(2, 1, python={})
    blind = environment(View.PYTHON, {})
    tree.processes[2].environments[View.PYTHON] = unreadable(View.PYTHON)
    assert tree.route(2).breaks == never.breaks
    tree.processes[2].environments[View.PYTHON] = blind
    assert tree.route(2).breaks == never.breaks


def test_what_os_environ_tells_where_the_c_environ_could_not_be_read() -> None:
    tree = Tree().add(1, exec=A)
    tree.worker(2, 1, exec=A, libc=unreadable(View.LIBC), python=B)
    made = tree.route(2)
    assert made.arriving == ()
    assert causes(made) == {CauseId.CHANGED_IN_WORKER, CauseId.OS_ENVIRON_EDITED}
    tree.processes[2].environments[View.PYTHON] = environment(View.PYTHON, A)
    assert tree.route(2).breaks == ()
