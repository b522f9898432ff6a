"""What is found inside a running Python process: plain facts, serialisable.

Names and files are text as the process holds it. Contents of strings are `values.Value`, because an
attribute may hold a secret.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from typing import Final

from envprobe.values import Value

HOOKS: Final = ("sitecustomize", "usercustomize")
"""The modules that site imports at each start (Lib/site.py)."""

MAIN: Final = frozenset({"__main__", "__mp_main__"})
"""Names of the module that a process was started with, whatever it is called elsewhere."""

CLASS_RUNS: Final = ("type.__call__", "type.__get__")
"""Ways (`Wrapped.via`) to what an object's class runs when the object is called or looked up."""


class AnswerState(str, enum.Enum):
    """What became of a question: exactly one of these."""

    VALUE = "value"
    NOT_IMPORTED = "not_imported"
    ABSENT = "absent"
    UNREADABLE = "unreadable"
    CHANGING = "changing"


class Kind(str, enum.Enum):
    """What an attribute is; which field of the `Answer` describes it follows from it."""

    MODULE = "module"
    CLASS = "class"
    CALLABLE = "callable"
    VALUE = "value"
    OBJECT = "object"


@dataclasses.dataclass(frozen=True, slots=True)
class ModuleFact:
    """An entry of `sys.modules`, or a module held by an attribute.

    `name` is the key asked for, else `__name__`; `type_name` other than "module" is what stands in
    its place. `file` is `__file__`; `origin`, `spec_name`, `search` and `loader` (the type's name)
    are those of `__spec__`; `cached` is the byte code's file. `initializing`: the import has not
    ended, so attributes may still come.
    """

    name: str
    type_name: str
    file: str | None = None
    origin: str | None = None
    cached: str | None = None
    loader: str | None = None
    spec_name: str | None = None
    search: tuple[str, ...] = ()
    initializing: bool = False

    @property
    def disputed(self) -> bool:
        """Whether `__file__` and the origin, which an import sets alike, are two files."""
        if self.file is None or self.origin is None or "/" not in self.origin:
            return False
        return self.file != self.origin


@dataclasses.dataclass(frozen=True, slots=True)
class Wrapped:
    """What a callable holds or calls: `via` is the way to it, such as `__wrapped__`."""

    via: str
    inner: CallableFact


@dataclasses.dataclass(frozen=True, slots=True)
class CallableFact:
    """A function, or anything that wraps, binds or stands for one.

    `type_name` is the type as Python names it. `module`, `qualname` and `name` are what the object
    says of itself, which `functools.wraps` copies from another; `file`, `line` and `code_name`
    (qualified from 3.11 on) come from its code and cannot be copied; `globals_module` and
    `globals_file` are `__name__` and `__file__` of the namespace that it runs in. Without code:
    `library` is the shared object or program that holds the native code. `bound_to` is the type of
    a method's self. `wraps` is cut at a bounded number of callables (`cut`).
    """

    type_name: str
    module: str | None = None
    qualname: str | None = None
    name: str | None = None
    file: str | None = None
    line: int | None = None
    code_name: str | None = None
    globals_module: str | None = None
    globals_file: str | None = None
    library: str | None = None
    bound_to: str | None = None
    wraps: tuple[Wrapped, ...] = ()
    cut: bool = False

    def innermost(self) -> CallableFact:
        """Return the end of the chain, always following the first link."""
        found = self
        while found.wraps:
            found = found.wraps[0].inner
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class ClassFact:
    """A class.

    `module` and `qualname` are what it says of itself; `file` is `__file__` of that module;
    `method_files` are the files of the code of its own methods, most frequent first: they cannot be
    copied from another class. `bases` are the qualified names along the method resolution order,
    without itself. `library`: the shared object or program that holds a static type.
    """

    module: str | None
    qualname: str
    metaclass: str
    file: str | None = None
    method_files: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    library: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Datum:
    """A simple value: `kind` is none, bool, int, float, str, bytes, list, tuple, dict or object.

    `value` holds the text of bool, int and float, UTF-8 (with surrogates passed through) of str,
    and the bytes of bytes. `items` are the members of a list or tuple and the values of a dict,
    whose keys are `keys`; those of a tuple with named fields are the names. `length` counts all
    members, or characters or bytes; `cut` says that not all of them are here. `type_name` is set
    for a subclass, and for an object that is not simple.
    """

    kind: str
    value: Value | None = None
    items: tuple[Datum, ...] = ()
    keys: tuple[Datum, ...] = ()
    length: int | None = None
    cut: bool = False
    type_name: str = ""

    def plain(self) -> object:
        """Return it as a Python object; None stands for what is not simple, or hidden, as well."""
        if self.kind == "list":
            return [item.plain() for item in self.items]
        if self.kind == "tuple":
            return tuple(item.plain() for item in self.items)
        if self.kind == "dict":
            pairs = zip(self.keys, self.items, strict=True)
            return {key.plain(): item.plain() for key, item in pairs}
        return self._scalar()

    def _scalar(self) -> object:
        if self.value is None or self.value.hidden:
            return None
        raw = self.value.reveal()
        if self.kind == "bytes":
            return raw
        if self.kind == "str":
            return raw.decode("utf-8", "surrogatepass")
        text = raw.decode("ascii")
        if self.kind == "bool":
            return text == "True"
        return float(text) if self.kind == "float" else int(text)


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What a running process says to one question.

    `module` is the module that the question names, whatever the state, unless it is not imported.
    In state VALUE, `kind` tells what was found: in `found_module`, `type`, `function` or `value`
    (kinds VALUE and OBJECT). Beside a value, `type` is its class, if it has one of its own, and
    `function` what it is as a callable or descriptor. `owner` is the class in whose dict an
    attribute was found. `address` is that of the object; two answers of one process with one
    address are one object.
    """

    query: str
    state: AnswerState
    kind: Kind | None = None
    module: ModuleFact | None = None
    owner: str | None = None
    found_module: ModuleFact | None = None
    type: ClassFact | None = None
    function: CallableFact | None = None
    value: Datum | None = None
    address: int | None = None
    reason: str = ""
    remedy: str = ""
    notes: tuple[str, ...] = ()
    at: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class PythonFact:
    """The interpreter of a process.

    `version` is `sys.version`'s first word, `build` "release", "debug", "free-threaded" or
    "free-threaded-debug"; `interpreters` counts those in the process, of which the first is read.
    `flags` are `sys.flags` by name. None: not set, or not a text. `layout` says where the offsets
    came from.
    """

    version: str
    build: str
    layout: str
    interpreters: int = 1
    flags: dict[str, int] = dataclasses.field(default_factory=dict)
    path: tuple[str, ...] = ()
    executable: str | None = None
    prefix: str | None = None
    base_prefix: str | None = None
    argv: tuple[str, ...] = ()
    orig_argv: tuple[str, ...] = ()


class PythonState(str, enum.Enum):
    """What became of looking for the interpreter: exactly one of these."""

    READ = "read"
    NO_PYTHON = "no_python"
    UNKNOWN_BUILD = "unknown_build"
    NOT_RUNNING = "not_running"
    UNREADABLE = "unreadable"
    CHANGING = "changing"


class DiskState(str, enum.Enum):
    """What became of a file of code since the process started."""

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    MISSING = "missing"
    UNREADABLE = "unreadable"


@dataclasses.dataclass(frozen=True, slots=True)
class FileFact:
    """A file of code, in the process's own root directory.

    `changed` is its ctime: `rsync -a` and `cp -p` keep the mtime, nothing keeps the ctime. `reason`
    explains UNREADABLE.
    """

    path: str
    state: DiskState
    changed: float | None = None
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Inside:
    """What one scan read inside one process of a tree.

    `python` is set in state READ; `reason` and `remedy` explain the other states. `hooks` answers
    `HOOKS`, `answers` the questions that were asked of every worker, in their order. `files` maps
    each path that an answer names (`files_of`) to what became of it. `at` is the time of the reads.
    """

    state: PythonState
    python: PythonFact | None = None
    hooks: tuple[Answer, ...] = ()
    answers: tuple[Answer, ...] = ()
    files: dict[str, FileFact] = dataclasses.field(default_factory=dict)
    at: float | None = None
    reason: str = ""
    remedy: str = ""

    def answer(self, query: str) -> Answer | None:
        """Return the answer to a question, or about a hook; None if it was not asked."""
        for answer in (*self.hooks, *self.answers):
            if answer.query == query:
                return answer
        return None


def files_of(answer: Answer) -> tuple[str, ...]:
    """Return the files of code that an answer names, each once, the innermost function's last.

    Byte code without its source (Lib/importlib, SourcelessFileLoader) names the file that it was
    compiled from, wherever that was: there the module's own file stands in its place.
    """
    modules = (answer.found_module, answer.module)
    found = [module.file for module in modules if module is not None]
    if answer.type is not None:
        methods = () if _is_bytecode(answer.type.file) else answer.type.method_files
        found += [answer.type.file, *methods]
    if answer.function is not None:
        found += map(_file_of_callable, _chain(answer.function))
    real = (path for path in found if path and not path.startswith("<"))
    return tuple(dict.fromkeys(real))


def only_named(answer: Answer) -> frozenset[str]:
    """Return the paths that code names although its module was loaded from another file.

    They were given to `compile` and need never have existed.
    """
    if answer.function is None:
        return frozenset()
    modules = (answer.found_module, answer.module)
    loaded = {module.file for module in modules if module is not None}
    found = {
        one.file
        for one in _chain(answer.function)
        if one.file and one.globals_file and one.file != one.globals_file
    }
    return frozenset(path for path in found if path and path not in loaded)


def _chain(function: CallableFact) -> Iterator[CallableFact]:
    yield function
    for link in function.wraps:
        yield from _chain(link.inner)


def _is_bytecode(path: str | None) -> bool:
    return path is not None and path.endswith(".pyc")


def _file_of_callable(function: CallableFact) -> str | None:
    space = function.globals_file
    return space if function.file is not None and _is_bytecode(space) else function.file


def names_of(query: str) -> tuple[str, ...]:
    """Return the names that decide whether a value is masked: the attributes on the way to it."""
    _, _, path = query.partition(":")
    return tuple(path.split("."))


def name_of(key: Datum | None) -> tuple[str, ...]:
    """Return the texts in a dict's key, or in a field's name, which name its value."""
    if key is None:
        return ()
    if key.kind == "tuple":
        return tuple(name for item in key.items for name in name_of(item))
    text = text_of(key)
    return () if text is None else (text,)


def text_of(datum: Datum) -> str | None:
    """Return a string, or bytes as text; None for what is neither."""
    if datum.kind not in ("str", "bytes") or datum.value is None:
        return None
    return datum.value.reveal().decode("utf-8", "replace")
