"""A Python process, attached: what `inspect` and `workers` ask is asked here.

Nothing is started or written in the process and it is not stopped, so what is read may change under
the reader: each question is retried a few times before the answer is "changing".
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from envprobe.cpython import dicts, environ, runtime
from envprobe.cpython.attributes import MISSING
from envprobe.cpython.faults import NotRunning, Torn, UnknownBuild, Unreadable
from envprobe.cpython.layouts import Layout
from envprobe.cpython.metered import READ_BUDGET, Metered
from envprobe.cpython.objects import WORK_BUDGET, Objects
from envprobe.cpython.query import Query, Questions, Walk
from envprobe.model import Environment, EnvironmentStatus, View
from envprobe.process.checked import CheckedMemory
from envprobe.process.closing import Closing
from envprobe.process.handle import AccessRefused, MemoryFault, ProcessGone, ProcessHandle
from envprobe.process.maps import AddressSpace
from envprobe.process.memory import Memory
from envprobe.process.scope import Scope
from envprobe.pythonfacts import Answer, AnswerState, PythonFact

ATTEMPTS: Final = 6
PAUSE_S: Final = 0.0005
"""Before the second attempt twice this, then doubled: a target that was interrupted goes on."""
MAX_PATH: Final = 1000
_FLAG_BYTES: Final = 40  # sizeof(PyMemberDef), Include/descrobject.h
_MAX_FLAGS: Final = 64
_CHANGING: Final = "its parts never fitted together: it keeps changing, or is damaged"
_ASK_AGAIN: Final = "Ask again when the process is less busy."
_LOOK_INSIDE: Final = "Ask for another attribute, or print this one in the process itself."

_TOO_LATE: Final = "Ask while the process runs."

T = TypeVar("T")


class Survey(NamedTuple):
    """What was read of a process at once; None for what has to be asked for by itself."""

    python: PythonFact | None
    environment: Environment | None
    answers: tuple[Answer | None, ...]


class PythonReader(Closing):
    """The main interpreter of one process, read through memory that the caller keeps open."""

    def __init__(
        self,
        handle: ProcessHandle,
        memory: Memory,
        space: AddressSpace,
        scope: Scope,
        calibrated: Layout | None = None,
    ) -> None:
        """Find the interpreter; use `attach`, which says what it raises."""
        self._handle = handle
        self._memory = memory
        self._own_space: AddressSpace | None = None
        self._meter = Metered(memory)
        self._checked = CheckedMemory(self._meter, space)
        self._located = runtime.locate(handle, scope, space, self._checked, calibrated)
        self._objects: Objects = self._located.objects
        self._questions = Questions(self._objects, self._located.classes, self._located.modules)

    def close(self) -> None:
        """Close what the reader opened itself; what the caller passed in stays open."""
        if self._own_space is not None:
            self._own_space.close()

    # Bounds and retries

    def _begin(self) -> None:
        """Begin a reading of its own: nothing of an earlier one is kept, or counts."""
        self._allow()
        self._objects.forget()

    def _allow(self) -> None:
        """Give the next question its bounds; what was read before stays known."""
        self._meter.left = READ_BUDGET
        self._objects.left = WORK_BUDGET

    def _settled(self, attempt: Callable[[], T]) -> T:
        """Return what `attempt` gives, trying again while what it reads does not fit together.

        Raises Torn when it never does, Unreadable, MemoryFault, NotRunning, ProcessGone.
        """
        failure: Exception = Torn("nothing was read")
        for number in range(ATTEMPTS):
            if number:
                time.sleep(PAUSE_S * 2**number)
            try:
                self._begin()
                found = attempt()
                self._begin()
                self._require_running()
            except (Torn, MemoryFault) as error:
                failure = error
                self._renew_space()
            else:
                return found
        if not self._memory.alive():
            raise ProcessGone(self._handle.pid)
        raise failure

    def _require_running(self) -> None:
        if self._checked.word(self._located.finalizing):
            raise NotRunning(runtime.SHUTTING_DOWN)

    def _renew_space(self) -> None:
        """Look the mappings up anew: memory that was mapped since may hold what is asked for."""
        try:
            space = AddressSpace(self._handle)
        except AccessRefused:
            return
        self.close()
        self._own_space = self._objects.space = self._checked.space = space

    def survey(self, wanted: Callable[[str], bool], texts: Sequence[str]) -> Survey:
        """Return what `interpreter`, `os_environ` and `query` give, at a fraction of their cost.

        All are read one after another, twice, with pages shared, in the first reading also those
        that attaching has read. Both readings must agree; None where they do not, and for all where
        the interpreter is not running. UsageError for a malformed question.
        """
        queries, at = [Query.parse(text) for text in texts], time.time()
        readings = [functools.partial(self._reading, query) for query in queries]
        try:
            first = self._parts(wanted, readings)
            self._begin()
            second = self._parts(wanted, readings)
            self._begin()
            self._require_running()
        except (AccessRefused, MemoryFault, NotRunning):
            return Survey(None, None, (None,) * len(texts))
        python, environment, *answers = (
            one if one == other else None for one, other in zip(first, second, strict=True)
        )
        return Survey(
            python,
            environment and dataclasses.replace(environment, at=at),
            tuple(one and dataclasses.replace(one[1], at=at) for one in answers),
        )

    def _parts(self, wanted: Callable[[str], bool], readings: Iterable[Callable[[], Any]]) -> Any:
        """Return one reading of each part, None where it did not fit together; AccessRefused."""
        parts = (self._read_interpreter, lambda: self._environ_reading(wanted), *readings)
        found: list[Any] = []
        for part in parts:
            self._allow()
            try:
                found.append(part())
            except (Torn, MemoryFault, Unreadable):
                found.append(None)
        return found

    # The interpreter

    def interpreter(self) -> PythonFact:
        """Return version, build, flags and paths; Torn, Unreadable, MemoryFault, NotRunning."""
        return self._settled(self._read_interpreter)

    def _read_interpreter(self) -> PythonFact:
        located, objects = self._located, self._objects
        table = dicts.table_of(objects, located.sysdict)

        def text(name: str) -> str | None:
            return objects.text_or_none(dicts.find(objects, table, name))

        def texts(name: str) -> tuple[str, ...]:
            found = dicts.find(objects, table, name)
            if not found or objects.type_of(found).base not in ("list", "tuple"):
                return ()
            return objects.texts(found, MAX_PATH)

        return PythonFact(
            (text("version") or "").partition(" ")[0],
            self._build(table),
            f"{located.layout.source} ({located.layout.build})",
            located.interpreters,
            self._flags(dicts.find(objects, table, "flags")),
            texts("path"),
            text("executable"),
            text("prefix"),
            text("base_prefix"),
            texts("argv"),
            texts("orig_argv"),
        )

    def _build(self, table: dicts.Table) -> str:
        """Tell a debug build by `sys.gettotalrefcount`, which only such a build has."""
        free_threaded = self._located.layout.build.startswith("free-threaded")
        debug = bool(dicts.find(self._objects, table, "gettotalrefcount"))
        if free_threaded:
            return "free-threaded-debug" if debug else "free-threaded"
        return "debug" if debug else "release"

    def _flags(self, address: int) -> dict[str, int]:
        """Read `sys.flags` by the names that its type keeps (PyMemberDef, 40 bytes each)."""
        objects = self._objects
        if not address:
            return {}
        info = objects.require(address, "tuple")
        members = objects.word(info.address + objects.layout.type_members)
        found: dict[str, int] = {}
        for number in range(_MAX_FLAGS):
            entry = members + number * _FLAG_BYTES
            name = objects.word(entry)
            if not name:
                return found
            text = objects.memory.cstring(name, 64).decode("ascii", "replace")
            value = objects.word(address + objects.signed(entry + 16))
            if objects.type_of(value).base == "int":
                found[text] = objects.integer(value)
        raise Torn("flags without end")

    # The environment

    def os_environ(self, wanted: Callable[[str], bool] = lambda name: True) -> Environment:
        """Return the view `python`: what `os.environ` holds, values only of `wanted` names."""
        at = time.time()
        try:
            found = self._settled(lambda: self._read_environ(wanted))
        except (Torn, MemoryFault):
            return _environment(EnvironmentStatus.CHANGING, _CHANGING, _ASK_AGAIN, at)
        except NotRunning as outcome:
            return _environment(EnvironmentStatus.NOT_APPLICABLE, outcome.reason, "", at)
        except AccessRefused as fault:
            return _environment(EnvironmentStatus.UNREADABLE, str(fault), _ASK_AGAIN, at)
        return dataclasses.replace(found, at=at)

    def _read_environ(self, wanted: Callable[[str], bool]) -> Environment:
        first = self._environ_reading(wanted)
        self._begin()
        if self._environ_reading(wanted) != first:
            raise Torn("os.environ")
        return first

    def _environ_reading(self, wanted: Callable[[str], bool]) -> Environment:
        try:
            address = self._questions.module_address("os")
            if not address:
                reason = "os is not imported: the interpreter is still starting"
                return _environment(EnvironmentStatus.NOT_APPLICABLE, reason, "", None)
            return environ.read(self._objects, address, wanted)
        except Unreadable as fault:
            remedy = fault.remedy or _LOOK_INSIDE
            return _environment(EnvironmentStatus.UNREADABLE, fault.reason, remedy, None)

    # Questions

    def query(self, text: str) -> Answer:
        """Answer a question; UsageError for one that is not of the form, ProcessGone."""
        query, at = Query.parse(text), time.time()
        try:
            return dataclasses.replace(self._settled(lambda: self._answer(query)), at=at)
        except (Torn, MemoryFault) as fault:
            # A pointer that leads nowhere is one that was freed or not yet set.
            return _no_answer(query, AnswerState.CHANGING, f"{_CHANGING} ({fault})", _ASK_AGAIN)
        except NotRunning as outcome:
            return _no_answer(query, AnswerState.UNREADABLE, outcome.reason, _TOO_LATE)
        except AccessRefused as fault:
            return _no_answer(query, AnswerState.UNREADABLE, str(fault), _ASK_AGAIN)

    def _answer(self, query: Query) -> Answer:
        """Answer from two separate readings that agree."""
        first = self._reading(query)
        self._begin()
        second = self._reading(query)
        if first != second:
            raise Torn("two readings that differ")
        _, answer = first
        return answer

    def _reading(self, query: Query) -> tuple[tuple[int, ...], Answer]:
        """Return the objects on the way and the answer, confirmed as far as the way was found."""
        walk = Walk((), MISSING)
        try:
            walk = self._questions.walk(query)
            answer = self._questions.answer(query, walk)
        except Unreadable as fault:
            remedy = fault.remedy or _LOOK_INSIDE
            state = AnswerState.UNREADABLE
            answer = Answer(query.text, state, reason=fault.reason, remedy=remedy)
        self._questions.confirm(walk)
        return walk.trail, answer

    def modules(self) -> list[str]:
        """Return the names in `sys.modules`; Torn, Unreadable, MemoryFault, NotRunning."""
        return self._settled(self._questions.module_names)

    def module_files(self) -> dict[str, str]:
        """Return `__file__` of each module in `sys.modules` that has one.

        Raises Torn, Unreadable, MemoryFault, NotRunning.
        """
        return self._settled(self._questions.module_files)


def attach(
    handle: ProcessHandle,
    memory: Memory,
    space: AddressSpace,
    scope: Scope,
    calibrated: Layout | None = None,
) -> PythonReader:
    """Return a reader of the process's main interpreter.

    `calibrated` is tried where no known layout fits (`layouts.calibrated`).

    Raises NoPython, UnknownBuild and NotRunning (all CannotAttach), ProcessGone, AccessRefused.
    """
    failure = UnknownBuild("nothing was read")
    for number in range(ATTEMPTS):
        if number:
            time.sleep(PAUSE_S * 2**number)
            scope.memory.forget()
        try:
            return PythonReader(handle, memory, space, scope, calibrated)
        except UnknownBuild as error:
            failure = error
        except (Torn, Unreadable, MemoryFault) as fault:
            failure = UnknownBuild(f"the interpreter cannot be read: {fault}", _ASK_AGAIN)
        if not memory.alive():
            raise ProcessGone(handle.pid)
    raise failure


def _environment(
    status: EnvironmentStatus, reason: str, remedy: str, at: float | None
) -> Environment:
    return Environment(
        View.PYTHON, status, source=environ.SOURCE, at=at, reason=reason, remedy=remedy
    )


def _no_answer(query: Query, state: AnswerState, reason: str, remedy: str) -> Answer:
    return Answer(query.text, state, reason=reason, remedy=remedy, at=time.time())
