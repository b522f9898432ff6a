"""A process attached for its questions, and what stands in the way of attaching.

All of this reads memory, which may block: it is run in a child (`runner.forked`).
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Final

from envprobe.cpython.faults import CannotAttach, NoPython, NotRunning, Torn, Unreadable
from envprobe.cpython.layouts import Layout
from envprobe.cpython.reader import PythonReader, attach
from envprobe.model import Environment, Identity
from envprobe.process.access import explain
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
from envprobe.process.tree import title_through
from envprobe.pythonfacts import Answer, AnswerState, PythonFact, PythonState

_MEMORY: Final = "the memory of the interpreter"
_ASK_AGAIN: Final = "Run envprobe again when the process is less busy."


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """The process and its interpreter.

    `python` is set in state READ; `reason` and `remedy` explain the other states. `environment` is
    the view `python`, with values of names that begin with PYTHON only; None: not asked. `cwd` and
    `exe` are as they are now, None where they were not read.
    """

    identity: Identity
    start_time: float
    comm: str
    state: PythonState
    title: tuple[str, ...] = ()
    exe: str | None = None
    cwd: str | None = None
    python: PythonFact | None = None
    environment: Environment | None = None
    reason: str = ""
    remedy: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """What the child found; `identity` (None: not read) is that of the image after the reads."""

    found: Subject | Answer
    identity: Identity | None = None
    held: bool = True


class Session:
    """The process, opened when the first question comes and closed when the child ends."""

    def __init__(
        self, handle: ProcessHandle, start: float, comm: str, calibrated: Layout | None = None
    ) -> None:
        """Keep what is needed; `calibrated` is a layout to try where no known one fits."""
        self._handle = handle
        self._calibrated = calibrated
        self._start = start
        self._comm = comm
        self._memory: Memory | None = None
        self._identity: Identity | None = None
        self._reader: PythonReader | None = None
        self._failure = (PythonState.UNREADABLE, "nothing was read", _ASK_AGAIN)

    def reply(self, query: str | None) -> Reply:
        """Answer one question, or describe the subject; say whether the image still is the same."""
        try:
            if self._identity is None:
                self._open()
            found = self._subject() if query is None else self._answer(query)
        except ProcessGone:
            return Reply(unreadable(query or "", "", ""), held=False)
        return Reply(found, self._named(), self._holds())

    def _open(self) -> None:
        """Attach; what stands in the way is kept for every answer. ProcessGone."""
        handle = self._handle
        self._identity = handle.identity()
        try:
            self._memory = memory = Memory.open(handle)
            self._identity = handle.identity(memory)
            space = AddressSpace(handle)
            scope = Scope(handle, memory, space)
            self._reader = attach(handle, memory, space, scope, self._calibrated)
        except (AccessRefused, Unsupported) as refused:
            self._failure = (PythonState.UNREADABLE, *self._explain(refused))
        except CannotAttach as outcome:
            self._failure = (state_of(outcome), outcome.reason, outcome.remedy or _ASK_AGAIN)
        except MemoryFault as fault:
            self._failure = (PythonState.CHANGING, str(fault), _ASK_AGAIN)

    def _explain(self, refused: AccessRefused | Unsupported) -> tuple[str, str]:
        return explain(self._handle, refused, _MEMORY, environment=False)

    def _named(self) -> Identity | None:
        """Return the identity; glibc makes the stack protector's secret of the bytes in it."""
        one = self._identity
        if one is None or not one.random:
            return one
        digest = hashlib.sha256(bytes.fromhex(one.random)).hexdigest()[:32]
        return dataclasses.replace(one, random=digest)

    def _holds(self) -> bool:
        if self._memory is None or self._identity is None:
            return not has_ended(self._handle)
        return self._memory.alive() and self._handle.verify(self._identity, self._memory)

    def _answer(self, query: str) -> Answer:
        if self._reader is None:
            _, reason, remedy = self._failure
            return unreadable(query, reason, remedy)
        return self._reader.query(query)

    def _subject(self) -> Subject:
        handle, identity = self._handle, self._named()
        assert identity is not None
        common = Subject(
            identity,
            self._start,
            self._comm,
            PythonState.UNREADABLE,
            title=_title(handle),
            exe=_link(handle, "exe"),
            cwd=_link(handle, "cwd"),
        )
        if self._reader is None:
            state, reason, remedy = self._failure
            return dataclasses.replace(common, state=state, reason=reason, remedy=remedy)
        environment = self._reader.os_environ(lambda name: name.startswith("PYTHON"))
        common = dataclasses.replace(common, environment=environment)
        return _with_interpreter(common, self._reader)


def _with_interpreter(subject: Subject, reader: PythonReader) -> Subject:
    state, python, reason = interpreter_of(reader)
    remedy = _ASK_AGAIN if reason else ""
    return dataclasses.replace(subject, state=state, python=python, reason=reason, remedy=remedy)


def interpreter_of(reader: PythonReader) -> tuple[PythonState, PythonFact | None, str]:
    """Return what became of reading the interpreter, and why if it was not read; ProcessGone."""
    try:
        return PythonState.READ, reader.interpreter(), ""
    except NotRunning as outcome:
        return PythonState.NOT_RUNNING, None, outcome.reason
    except (Torn, MemoryFault) as fault:
        return PythonState.CHANGING, None, f"the interpreter keeps changing ({fault})"
    except (Unreadable, AccessRefused) as fault:
        return PythonState.UNREADABLE, None, str(fault)


def state_of(outcome: CannotAttach) -> PythonState:
    """Return the state that a failure to attach stands for."""
    if isinstance(outcome, NoPython):
        return PythonState.NO_PYTHON
    if isinstance(outcome, NotRunning):
        return PythonState.NOT_RUNNING
    return PythonState.UNKNOWN_BUILD


def _title(handle: ProcessHandle) -> tuple[str, ...]:
    try:
        return title_through(handle)
    except AccessRefused:
        return ()


def _link(handle: ProcessHandle, name: str) -> str | None:
    try:
        return handle.readlink(name)
    except AccessRefused:
        return None


def unreadable(query: str, reason: str, remedy: str) -> Answer:
    """Return the answer to a question that could not be asked."""
    return Answer(query, AnswerState.UNREADABLE, reason=reason, remedy=remedy)


def has_ended(handle: ProcessHandle) -> bool:
    """Return whether the process is gone, or a zombie without a living thread."""
    try:
        return handle.stat().state in "ZX" and handle.living_task() is None
    except (ProcessGone, AccessRefused):
        return True
