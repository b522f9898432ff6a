"""The questions that can be put to a running process, and how they are answered.

    pkg.mod               which file the module was loaded from
    pkg.mod:name          what an attribute of the module is
    pkg.mod:Class.attr    what an attribute of a class (or of any object) is

Each question is answered from fresh reads, and its way through the process is walked a second time
afterwards: only where both walks lead to the same objects is the answer given.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Final, NamedTuple

from envprobe.cpython import dicts
from envprobe.cpython.attributes import MISSING, Attributes, Computed, Found, Lazy, Outcome
from envprobe.cpython.callables import Callables
from envprobe.cpython.describe import Describer
from envprobe.cpython.faults import Unreadable
from envprobe.cpython.objects import Objects
from envprobe.cpython.types import Classes
from envprobe.cpython.values import Values
from envprobe.errors import UsageError
from envprobe.pythonfacts import Answer, AnswerState, Kind, ModuleFact

MAX_QUERY: Final = 4096
MAX_PARTS: Final = 32
_ODD: Final = re.compile(r"[\s:=,;()\[\]{}'\"]")
_FORM: Final = "Write pkg.mod, pkg.mod:name or pkg.mod:Class.attr."


class Query(NamedTuple):
    """A question, parsed: a module and the attributes to follow from it."""

    text: str
    module: str
    path: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Query:
        """Parse a question; UsageError says what is wrong with it."""
        if len(text) > MAX_QUERY:
            raise UsageError("the question is too long", _FORM)
        module, colon, rest = text.partition(":")
        path = tuple(rest.split(".")) if colon else ()
        if not all(module.split(".")) or not all(path) or len(path) > MAX_PARTS:
            raise UsageError(f"not a question about a module: {text!r}", _FORM)
        if odd := _ODD.search(module + "".join(path)):
            what = "blanks" if odd.group().isspace() else f"a sign such as {odd.group()}"
            raise UsageError(f"{what} in the question {text!r}", _FORM)
        return cls(text, module, path)


class Walk(NamedTuple):
    """Where a question leads: what was found on the way, and the outcome at its end.

    `at` is the part of the path that could not be followed, if the outcome is no `Found`.
    """

    steps: tuple[Found, ...]
    outcome: Outcome
    at: str = ""

    @property
    def trail(self) -> tuple[int, ...]:
        """The addresses of the objects on the way."""
        return tuple(step.value for step in self.steps)


class Questions:
    """Answers questions about one process."""

    __slots__ = (
        "_attributes",
        "_callables",
        "_classes",
        "_describer",
        "_modules",
        "_objects",
        "_values",
    )

    def __init__(self, objects: Objects, classes: Classes, modules: int) -> None:
        self._objects = objects
        self._classes = classes
        self._modules = modules
        self._describer = Describer(objects, classes, self._modules)
        self._callables = Callables(objects, classes, self._describer, modules)
        self._attributes = Attributes(objects, classes, self._callables)
        self._values = Values(objects, classes)

    def module_names(self) -> list[str]:
        """Return the keys of `sys.modules` that are strings, in order of import."""
        return [name for name, _ in self._module_table()]

    def _module_table(self) -> list[tuple[str, int]]:
        objects = self._objects
        return list(dicts.texts(objects, dicts.table_of(objects, self._modules)))

    def module_files(self) -> dict[str, str]:
        """Return `__file__` of each module in `sys.modules` that has one."""
        found = ((name, self._describer.file_of(value)) for name, value in self._module_table())
        return {name: file for name, file in found if file is not None}

    def module_address(self, name: str) -> int:
        """Return the address of what `sys.modules` holds under `name`, 0 for nothing."""
        return dicts.get(self._objects, self._modules, name)

    def walk(self, query: Query) -> Walk:
        """Follow the question to its end; MemoryFault, Torn, Unreadable."""
        objects = self._objects
        table = dicts.table_of(objects, self._modules)
        held = dicts.find_entry(objects, table, query.module)
        if not held.value:
            return Walk((), MISSING)
        steps = [Found(held.value, held.place)]
        if objects.is_none(held.value):
            return Walk(tuple(steps), steps[0])
        for number, name in enumerate(query.path):
            outcome = self._attributes.look_up(steps[-1].value, name)
            if not isinstance(outcome, Found):
                return Walk(tuple(steps), outcome, ".".join(query.path[: number + 1]))
            steps.append(outcome)
        return Walk(tuple(steps), steps[-1])

    def confirm(self, walk: Walk) -> None:
        """Raise Torn unless each word on the way still points to the object that was read.

        The words and the beginning of the object are read again within microseconds, so that an
        object that was freed, and its memory used for another, does not pass for the first.
        """
        for step in walk.steps:
            self._objects.confirm(step.value, step.place)

    def answer(self, query: Query, walk: Walk) -> Answer:
        """Describe what a walk has led to; MemoryFault, Torn, Unreadable."""
        address = walk.steps[0].value if walk.steps else 0
        if not address:
            reason = f"{query.module} is not imported"
            meant = self._hint(query)
            notes = (f"did you mean {meant}?",) if meant else ()
            remedy = f"Write {meant}: a colon stands between module and attribute." if meant else ""
            return Answer(
                query.text, AnswerState.NOT_IMPORTED, reason=reason, remedy=remedy, notes=notes
            )
        if self._objects.is_none(address):
            reason = f"sys.modules holds None for {query.module}, so that importing it fails"
            return Answer(query.text, AnswerState.NOT_IMPORTED, reason=reason)
        module = self._describer.module(address, query.module)
        if not query.path:
            return Answer(
                query.text,
                AnswerState.VALUE,
                Kind.MODULE,
                module,
                found_module=module,
                address=address,
            )
        if isinstance(walk.outcome, Found):
            return self._found(query, module, walk.outcome)
        return _not_found(query, module, walk)

    def _found(self, query: Query, module: ModuleFact, found: Found) -> Answer:
        describer, address = self._describer, found.value
        owner = self._classes.full_name(found.owner) if found.owner else None
        info = self._objects.type_of(address)
        common = Answer(query.text, AnswerState.VALUE, None, module, owner, address=address)
        if info.base == "module":
            return _with(common, Kind.MODULE, found_module=describer.module(address))
        if info.base == "type":
            return _with(common, Kind.CLASS, type=describer.klass(address))
        simple = self._values.simple(info)
        if not simple and self._callables.is_callable(address):
            return _with(common, Kind.CALLABLE, function=self._callables.describe(address))
        kind = Kind.VALUE if simple else Kind.OBJECT
        return _with(common, kind, value=self._values.decode(address), **self._used(address))

    def _used(self, address: int) -> dict[str, object]:
        """Return the class of an object that has one of its own, and what using it runs."""
        info = self._objects.type_of(address)
        if info.exact:
            return {}
        callables = self._callables
        try:
            function = callables.describe(address) if callables.runs_code(address) else None
            return {"type": self._describer.klass(info.address), "function": function}
        except Unreadable:
            return {}

    def _hint(self, query: Query) -> str:
        """Return the question that was meant when a dot stands in the place of the colon, or ""."""
        parts = query.module.split(".")
        for number in range(len(parts) - 1, 0, -1):
            parent = ".".join(parts[:number])
            address = self.module_address(parent)
            if not address or self._objects.type_of(address).base != "module":
                continue
            if not isinstance(self._attributes.look_up(address, parts[number]), Found):
                return ""
            return f"{parent}:{'.'.join((*parts[number:], *query.path))}"
        return ""


def _with(answer: Answer, kind: Kind, **fields: object) -> Answer:
    return dataclasses.replace(answer, kind=kind, **fields)  # type: ignore[arg-type]


def _not_found(query: Query, module: ModuleFact, walk: Walk) -> Answer:
    outcome = walk.outcome
    if isinstance(outcome, Computed):
        raise Unreadable(
            f"{outcome.why}; only the process itself could run that",
            "Ask for the descriptor through its class, or for the attribute that it computes from.",
        )
    if isinstance(outcome, Lazy):
        return Answer(query.text, AnswerState.NOT_IMPORTED, None, module, reason=outcome.why)
    reason = f"{query.module} has no {walk.at}"
    if module.initializing:
        reason += " yet: it is being imported"
        return Answer(query.text, AnswerState.NOT_IMPORTED, None, module, reason=reason)
    return Answer(query.text, AnswerState.ABSENT, None, module, reason=reason)
