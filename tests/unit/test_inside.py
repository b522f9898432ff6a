"""The second pass believes only what it reads of the image that the first pass has read."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator

import pytest

from envprobe import collect, inside
from envprobe.model import EnvironmentStatus, Process, View
from envprobe.pythonfacts import AnswerState, DiskState, PythonState
from envprobe.values import Value
from tests.programs.pytarget import PyTarget, clean_environment

QUERY = "json.decoder:JSONDecoder.decode"


@pytest.fixture(scope="module")
def target() -> Iterator[Process]:
    env = clean_environment(NCCL_ALGO="Ring")
    with PyTarget([sys.executable], {"imports": ["json"], "queries": []}, env) as running:
        request = collect.Request((running.pid,), ("NCCL_*",), python=False, orphans=False)
        (process,) = collect.collect(request).processes
        yield process


def look(
    process: Process,
    *,
    silent: tuple[int, ...] = (),
    wanted: Callable[[str], bool] = lambda name: name.startswith("NCCL_"),
    deadline: float = 10.0,
) -> Process:
    asked = {process.pid: (QUERY,)}
    (found,) = inside.with_inside((process,), asked, silent, wanted, deadline)
    return found


def unread(process: Process) -> tuple[PythonState, str]:
    """Return the state and reason of a process of which nothing must be told."""
    assert process.inside is not None
    assert process.inside.python is None
    answers = (*process.inside.hooks, *process.inside.answers)
    assert {one.state for one in answers} == {AnswerState.UNREADABLE}
    assert process.environment(View.PYTHON).entries == {}
    assert not process.environment(View.PYTHON).reading("NCCL_ALGO").known
    return process.inside.state, process.inside.reason


def test_all_is_read_of_the_image_that_was_read_before(target: Process) -> None:
    found = look(target)
    assert found.inside is not None
    assert found.inside.state is PythonState.READ
    assert found.inside.answer(QUERY) is found.inside.answers[0]
    assert found.inside.answers[0].state is AnswerState.VALUE
    assert [one.state for one in found.inside.files.values()] == [DiskState.UNCHANGED] * 1
    view = found.environment(View.PYTHON)
    assert view.status is EnvironmentStatus.COMPLETE
    assert view.entries["NCCL_ALGO"] == Value(b"Ring")
    assert view.entries["PATH"] is None
    assert dataclasses.replace(found, inside=None, environments=target.environments) == target


def test_another_image_of_the_same_process_is_not_believed(target: Process) -> None:
    other = dataclasses.replace(target.identity, random="0" * 32)
    state, reason = unread(look(dataclasses.replace(target, identity=other)))
    assert state is PythonState.CHANGING
    assert "became another program" in reason


def test_another_process_of_the_same_number_is_not_believed(target: Process) -> None:
    other = dataclasses.replace(target.identity, start_ticks=target.identity.start_ticks - 1)
    state, reason = unread(look(dataclasses.replace(target, identity=other)))
    assert state is PythonState.UNREADABLE
    assert "ended" in reason


def test_who_did_not_answer_in_the_first_pass_is_not_asked(target: Process) -> None:
    libc = dataclasses.replace(target.environment(View.LIBC), reason="does not answer")
    views = {**target.environments, View.LIBC: libc}
    silent = dataclasses.replace(target, environments=views)
    assert unread(look(silent, silent=(target.pid,))) == (PythonState.UNREADABLE, "does not answer")


def test_who_does_not_answer_in_time_is_unreadable(target: Process) -> None:
    state, reason = unread(look(target, deadline=1e-6))
    assert state is PythonState.UNREADABLE
    assert "took longer" in reason


def test_a_c_environ_that_has_changed_since_is_no_disagreement(target: Process) -> None:
    """The first pass read another value, which os.environ has had too by then."""
    libc = target.environment(View.LIBC)
    entries = {**libc.entries, "NCCL_ALGO": Value(b"Tree")}
    views = {**target.environments, View.LIBC: dataclasses.replace(libc, entries=entries)}
    view = look(dataclasses.replace(target, environments=views)).environment(View.PYTHON)
    assert view.status is EnvironmentStatus.CHANGING
    assert "changed" in view.reason


def test_launchers_get_no_questions_and_only_the_living_are_asked(target: Process) -> None:
    def process(pid: int, **fields: object) -> Process:
        role = dataclasses.replace(target.role, **fields)  # type: ignore[arg-type]
        return dataclasses.replace(target, pid=pid, role=role)

    worker, other = process(2, worker=True), process(4, name="detokenizer")
    orphan = dataclasses.replace(process(3, worker=True), orphan=True)
    known = (process(1), worker, orphan, other)
    assert inside.asked_of(known, {2: 1, 3: 9}.get, (), (QUERY,)) == {1: (), 2: (QUERY,)}
    asked = inside.asked_of(known, {2: None}.get, ("detokenizer",), (QUERY,))
    assert asked == {2: (QUERY,), 4: (QUERY,)}
