"""The second pass of a scan: what the interpreters of the processes that count say of themselves.

All memory and every file is read in one child that can be killed (`runner.forked`). What is read is
believed only of the very image that the first pass has read.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from envprobe.cpython.environ import SOURCE
from envprobe.cpython.faults import CannotAttach
from envprobe.cpython.reader import PythonReader, attach
from envprobe.cpython.session import interpreter_of, state_of, unreadable
from envprobe.model import Environment, EnvironmentStatus, Process, State, View
from envprobe.process.access import explain
from envprobe.process.codefiles import CodeFiles
from envprobe.process.environ_libc import read_libc
from envprobe.process.facts import digest
from envprobe.process.handle import (
    AccessRefused,
    MemoryFault,
    ProcessGone,
    ProcessHandle,
    Unsupported,
)
from envprobe.process.maps import AddressSpace
from envprobe.process.memory import Memory
from envprobe.process.scope import Scope
from envprobe.pythonfacts import (
    HOOKS,
    Answer,
    DiskState,
    FileFact,
    Inside,
    PythonState,
    files_of,
)
from envprobe.runner.forked import run_each

_MEMORY: Final = "the memory of the interpreter"
_AGAIN: Final = "Run envprobe again."
_ENDED: Final = ("the process ended while it was scanned", _AGAIN)
_ANOTHER: Final = ("the process became another program (exec) while it was scanned", _AGAIN)
_MOVED: Final = ("the C environ changed while the interpreter was read", _AGAIN)
_CRASHED: Final = (
    "reading inside the process ended the child that read it",
    "Run envprobe again, with more memory if its limit is tight; if it happens again, report it "
    "with the version of envprobe.",
)
_STATUS: Final = {
    PythonState.NO_PYTHON: EnvironmentStatus.NOT_APPLICABLE,
    PythonState.NOT_RUNNING: EnvironmentStatus.NOT_APPLICABLE,
    PythonState.CHANGING: EnvironmentStatus.CHANGING,
}


class Asked(NamedTuple):
    """One process to look into, as the first pass saw it, and its questions besides `HOOKS`."""

    process: Process
    queries: tuple[str, ...]


class Found(NamedTuple):
    """What was read inside one process, and its view `python`."""

    inside: Inside
    environment: Environment


def asked_of(
    processes: Iterable[Process],
    launcher_of: Callable[[int], int | None],
    roles: Container[str],
    queries: tuple[str, ...],
    pids: Container[int] = (),
) -> dict[int, tuple[str, ...]]:
    """Return by pid whose interpreters are to be read, each with its questions.

    These are the workers that count, their launchers (without questions), and what lives of the
    named `roles` or has one of the `pids`.
    """
    living = [one for one in processes if one.death is None and not one.orphan]
    workers = [one.pid for one in living if one.role.worker]
    named = [one.pid for one in living if one.role.name in roles or one.pid in pids]
    asked: dict[int, tuple[str, ...]] = {
        pid: () for pid in map(launcher_of, workers) if pid is not None
    }
    return asked | dict.fromkeys((*named, *workers), queries)


def with_inside(
    processes: tuple[Process, ...],
    queries: Mapping[int, tuple[str, ...]],
    silent: Container[int],
    wanted: Callable[[str], bool],
    deadline: float,
) -> tuple[Process, ...]:
    """Return the processes, those that `queries` names (by pid) with what was read inside them.

    Queries are well-formed questions (`cpython.query`); of variables that are not `wanted` no
    values are read. `deadline` is in seconds for each process; the `silent` have exceeded theirs in
    the first pass and are left in peace. What cannot be read is UNREADABLE with the reason.
    """
    asked = [Asked(one, queries[one.pid]) for one in processes if one.pid in queries]
    answering = [one for one in asked if one.process.pid not in silent]
    found = {one.process.pid: _did_not_answer(one) for one in asked}
    found |= _look_inside(answering, _Look(wanted, deadline))
    return tuple(_with(one, found[one.pid]) if one.pid in found else one for one in processes)


def _with(process: Process, found: Found) -> Process:
    environments = {**process.environments, View.PYTHON: found.environment}
    return dataclasses.replace(process, inside=found.inside, environments=environments)


def _did_not_answer(one: Asked) -> Found:
    first = one.process.environment(View.LIBC)
    return _failed(one, PythonState.UNREADABLE, first.reason, first.remedy)


def _look_inside(asked: Sequence[Asked], look: _Look) -> dict[int, Found]:
    """Ask in a child; who does not answer in time once more, without a look at files."""
    late: list[Asked] = []
    found = list(_each(asked, look, late.append))
    found += _each(late, dataclasses.replace(look, files=False), look.silent)
    return {one.process.pid: read for one, read in found if read is not None}


def _each(
    asked: Sequence[Asked], look: _Look, on_timeout: Callable[[Asked], Found | None]
) -> Iterator[tuple[Asked, Found | None]]:
    return run_each(
        asked,
        look.read,
        deadline=look.deadline,
        on_timeout=on_timeout,
        on_crash=lambda one: _failed(one, PythonState.UNREADABLE, *_CRASHED),
    )


def _failed(one: Asked, state: PythonState, reason: str, remedy: str) -> Found:
    """Return what is known of a process of which nothing could be read."""
    at = time.time()
    status = _STATUS.get(state, EnvironmentStatus.UNREADABLE)
    hooks: tuple[Answer, ...] = ()
    answers: tuple[Answer, ...] = ()
    if state is not PythonState.NO_PYTHON:
        hooks = tuple(unreadable(query, reason, remedy) for query in HOOKS)
        answers = tuple(unreadable(query, reason, remedy) for query in one.queries)
    return Found(
        Inside(state, hooks=hooks, answers=answers, at=at, reason=reason, remedy=remedy),
        Environment(View.PYTHON, status, source=SOURCE, at=at, reason=reason, remedy=remedy),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Look:
    """How to look; without `files` nothing on a disk is looked at, which may be what hangs."""

    wanted: Callable[[str], bool]
    deadline: float
    files: bool = True

    def silent(self, one: Asked) -> Found:
        reason = f"reading inside the process took longer than {self.deadline:g} s"
        remedy = (
            "Give --deadline more seconds, or look for a stalled file system that the process has"
            " mapped (NFS, FUSE)."
        )
        return _failed(one, PythonState.UNREADABLE, reason, remedy)

    def read(self, one: Asked) -> Found:
        """Read all of one process; runs in the child."""
        try:
            with ProcessHandle.open(one.process.identity.pid) as handle:
                if handle.start_ticks != one.process.identity.start_ticks:
                    raise ProcessGone(handle.pid)
                return self._opened(handle, one)
        except ProcessGone:
            return _failed(one, PythonState.UNREADABLE, *_ENDED)
        except AccessRefused as refused:
            words = explain(one.process.identity.pid, refused, _MEMORY, environment=False)
            return _failed(one, PythonState.UNREADABLE, *words)

    def _opened(self, handle: ProcessHandle, one: Asked) -> Found:
        try:
            with Memory.open(handle) as memory, AddressSpace(handle) as space:
                return self._same(handle, memory, space, one)
        except (AccessRefused, Unsupported) as refused:
            words = explain(handle, refused, _MEMORY, environment=False)
            return _failed(one, PythonState.UNREADABLE, *words)

    def _same(
        self, handle: ProcessHandle, memory: Memory, space: AddressSpace, one: Asked
    ) -> Found:
        """Read, and make sure before and after that it is the image of the first pass."""
        identity = handle.identity(memory)
        before, now = one.process.identity.random, digest(bytes.fromhex(identity.random))
        if before and now != before:
            return _failed(one, PythonState.CHANGING, *_ANOTHER)
        found = self._attached(handle, memory, space, one)
        if memory.alive() and handle.verify(identity, memory):
            return found
        words = _ANOTHER if handle.same() else _ENDED
        return _failed(one, PythonState.UNREADABLE, *words)

    def _attached(
        self, handle: ProcessHandle, memory: Memory, space: AddressSpace, one: Asked
    ) -> Found:
        try:
            scope = Scope(handle, memory, space)
            with attach(handle, memory, space, scope) as reader:
                found = self._survey(handle, reader, one)
        except CannotAttach as outcome:
            return _failed(one, state_of(outcome), outcome.reason, outcome.remedy)
        except MemoryFault as fault:
            return _failed(one, PythonState.CHANGING, str(fault), _AGAIN)
        libc = one.process.environment(View.LIBC)
        if _unlike(libc, found.environment):
            # The first pass was a while ago: another change of both may lie between.
            scope.memory.forget()
            again = read_libc(handle, memory, space, self.wanted, scope=scope)
            if _unlike(libc, again):
                return found._replace(environment=_moved(found.environment))
        return found

    def _survey(self, handle: ProcessHandle, reader: PythonReader, one: Asked) -> Found:
        queries = (*HOOKS, *one.queries)
        at = time.time()
        survey = reader.survey(self.wanted, queries)
        environment = survey.environment or reader.os_environ(self.wanted)
        answers = tuple(
            answer or reader.query(query)
            for query, answer in zip(queries, survey.answers, strict=True)
        )
        python, state, reason = survey.python, PythonState.READ, ""
        if python is None:
            state, python, reason = interpreter_of(reader)
        inside = Inside(
            state,
            python,
            answers[: len(HOOKS)],
            answers[len(HOOKS) :],
            self._looked_at(handle, one, answers),
            at,
            reason,
            _AGAIN if reason else "",
        )
        return Found(inside, environment)

    def _looked_at(
        self, handle: ProcessHandle, one: Asked, answers: tuple[Answer, ...]
    ) -> dict[str, FileFact]:
        paths = dict.fromkeys(path for answer in answers for path in files_of(answer))
        if not self.files:
            reason = f"looking at files did not end within {self.deadline:g} s"
            return {path: FileFact(path, DiskState.UNREADABLE, reason=reason) for path in paths}
        files = CodeFiles(handle, one.process.start_time, one.process.cwd)
        return {path: files.look(path) for path in paths}


def _unlike(one: Environment, other: Environment) -> bool:
    """Return whether two views say different things of a variable whose value both have read."""
    names = one.entries.keys() | other.entries.keys()
    readings = ((one.reading(name), other.reading(name)) for name in names)
    return any(
        (first.state, first.value) != (second.state, second.value)
        for first, second in readings
        if first.known and second.known and State.VALUE in (first.state, second.state)
    )


def _moved(view: Environment) -> Environment:
    reason, remedy = _MOVED
    status = EnvironmentStatus.CHANGING
    return Environment(View.PYTHON, status, source=SOURCE, at=view.at, reason=reason, remedy=remedy)
