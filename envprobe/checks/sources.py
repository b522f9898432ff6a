"""Where the code of what an attribute holds comes from, by evidence that a wrapper cannot copy.

`functools.wraps` copies `__module__` and `__qualname__`; the file in a code object, and the
namespace that a function runs in, stay its own, and count where they agree. What only holds a
callable (a bound method, a staticmethod, a partial) is looked through; so are the wrappers of
`_PASSES_ON`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final

from envprobe.patchexpect import is_below, is_within, normal
from envprobe.pythonfacts import (
    CLASS_RUNS,
    MAIN,
    Answer,
    CallableFact,
    ClassFact,
    Datum,
    Kind,
    ModuleFact,
)

_PASSES_ON: Final = ("contextlib", "functools", "numba", "torch", "triton", "wrapt")
"""Packages whose decorators put a callable of their own in front of a function, and call it:
contextlib.contextmanager, functools.lru_cache, torch.no_grad and torch.compile, triton.jit, ..."""
_DISPATCH: Final = "functools.singledispatchmethod"
_REGISTERED: Final = "other functions may be registered for other types of its argument"
_LONG: Final = 600
_END: Final = 100
_KEEPS: Final = "may call whatever it keeps"


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """One place that code comes from.

    `name` and `where` are for sentences. `modules` are dotted names that it belongs to, `files`
    paths that it was certainly loaded from. `doubt` says why its names prove nothing, "" if they
    do; `open` why it may run code of others as well. `plain`: a value such as None or a number,
    which comes from nowhere.
    """

    name: str
    where: str = ""
    modules: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    doubt: str = ""
    open: str = ""
    plain: bool = False

    @property
    def said(self) -> str:
        """The source in words, such as `my_kernels.attn.extend (/opt/my_kernels/attn.py:12)`."""
        return short(f"{self.name} ({self.where})" if self.where else self.name)

    def is_from(self, prefix: str, cwd: str | None) -> bool | None:
        """Return whether it comes from a module or path prefix; None if it cannot be told."""
        if self.plain:
            return False
        if "/" not in prefix:
            return self._is_of_module(prefix)
        places = [normal(file, cwd) for file in self.files]
        if any(place is not None and is_below(place, prefix) for place in places):
            return True
        return None if self.doubt or self.open or not places or None in places else False

    def _is_of_module(self, prefix: str) -> bool | None:
        """Return whether it is of a module; a name that is in doubt proves nothing."""
        if self.doubt:
            return None
        if any(is_within(module, prefix) for module in self.modules):
            return True
        return None if self.open or self._may_be_main(prefix) else False

    def _may_be_main(self, prefix: str) -> bool:
        """Return whether it runs as `__main__`, from a file that may be one of that module."""
        if MAIN.isdisjoint(self.modules):
            return False
        place = f"/{prefix.replace('.', '/')}"
        return any(f"{place}/" in f"/{file}" or f"{place}.py" in f"/{file}" for file in self.files)


@dataclasses.dataclass(frozen=True, slots=True)
class Sources:
    """What runs when the attribute is used, outermost first, and what that in turn holds.

    Of `own` all but the last are decorators that pass the call on.
    """

    own: tuple[Source, ...]
    inner: tuple[Source, ...] = ()


def short(text: str) -> str:
    """Return text from a process for a sentence: of a name of kilobytes both ends."""
    if len(text) <= _LONG:
        return text
    return f"{text[: _LONG - _END]}...({len(text)} characters)...{text[-_END:]}"


def sources_of(answer: Answer) -> Sources:
    """Return where what an answer in state VALUE has found comes from."""
    if answer.function is not None:
        return _of_callable(answer.function)
    if answer.kind is Kind.CLASS and answer.type is not None:
        return Sources((_of_class(answer.type),))
    if answer.kind is Kind.MODULE and answer.found_module is not None:
        return Sources((_of_module(answer.found_module, by_key=":" not in answer.query),))
    return Sources((_of_value(answer.value, answer.type),))


def chain(fact: CallableFact) -> Iterator[CallableFact]:
    """Yield a callable and all that it wraps, outermost first."""
    yield fact
    for link in fact.wraps:
        yield from chain(link.inner)


def _of_callable(fact: CallableFact) -> Sources:
    held = _held(fact)
    if fact.type_name == "property" and not held:
        return Sources(
            (Source("a property", doubt="it has no getter"),),
            _below(link.inner for link in fact.wraps),
        )
    if held and _only_holds(fact):
        found = _of_callable(held[0])
        return found if fact.type_name != _DISPATCH else _opened(found, _REGISTERED)
    if fact.file is None and (run := _run_by_class(fact)) is not None:
        return _of_object(fact, run, held)
    source = _of_one(fact)
    if not (held and _passes_on(fact)):
        return Sources((source,), _below(held))
    rest = _of_callable(held[0])
    return Sources((source, *rest.own), (*rest.inner, *_below(held[1:])))


def _held(fact: CallableFact) -> list[CallableFact]:
    """Return what a callable holds or calls; of a property that is its getter."""
    if fact.type_name == "property":
        return [link.inner for link in fact.wraps if link.via == "fget"]
    return [link.inner for link in fact.wraps if link.via not in CLASS_RUNS]


def _run_by_class(fact: CallableFact) -> CallableFact | None:
    """Return the function of its class that runs when an object is used; None for holders."""
    if _is_decorator(fact.type_name):
        return None
    return next((link.inner for link in fact.wraps if link.via in CLASS_RUNS), None)


def _of_object(fact: CallableFact, run: CallableFact, held: list[CallableFact]) -> Sources:
    """Return the source of the code of an object's class, which may call what the object keeps."""
    found = _opened(_of_callable(run), f"an object of type {fact.type_name} {_KEEPS}")
    return Sources(found.own, (*found.inner, *_below(held)))


def _opened(found: Sources, why: str) -> Sources:
    return Sources(tuple(dataclasses.replace(one, open=why) for one in found.own), found.inner)


def _below(facts: Iterable[CallableFact]) -> tuple[Source, ...]:
    every = (one for fact in facts for one in chain(fact))
    return tuple(_of_one(one) for one in every if not (_held(one) and _only_holds(one)))


def _only_holds(fact: CallableFact) -> bool:
    """Return whether it is a holder without code: of the interpreter's types, or a decorator's."""
    own_type = "." in fact.type_name and not _is_decorator(fact.type_name)
    return fact.file is None and not own_type


def _passes_on(fact: CallableFact) -> bool:
    """Return whether a function is that of a decorator."""
    return fact.file is not None and _is_decorator(fact.globals_module or "")


def _is_decorator(dotted: str) -> bool:
    return any(is_within(dotted, package) for package in _PASSES_ON)


def _of_one(fact: CallableFact) -> Source:
    if fact.file is not None:
        return _of_function(fact, fact.file)
    return _of_native(fact) if "." not in fact.type_name else _of_instance(fact)


def _of_function(fact: CallableFact, file: str) -> Source:
    space = fact.globals_file
    doubt = ""
    if file.startswith("<"):
        doubt = f"its code was made at run time ({file})"
    elif fact.globals_module is None or space is None:
        doubt = "the namespace that it runs in is not that of a module with a file"
    elif _unlike(file, space):
        doubt = f"its code is of {file}, the namespace that it runs in of {space}"
    # Of a namespace that anybody can pass on, the file proves no more than the name.
    files = tuple(dict.fromkeys((file, space))) if space and not doubt else (file,)
    return Source(
        _dotted(fact.globals_module, fact.code_name),
        f"{file}:{fact.line}",
        _given(fact.globals_module),
        tuple(one for one in files if not one.startswith("<")),
        doubt,
    )


def _unlike(file: str, other: str) -> bool:
    """Return whether code is certainly not of the file of a module.

    A script given by a relative path names another file. So does byte code without its source, but
    of the same name.
    """
    if not (file.startswith("/") and other.startswith("/")):
        return False
    if other.endswith(".pyc"):
        return _stem(file) != _stem(other)
    return other.endswith(".py") and normal(file, None) != normal(other, None)


def _stem(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0]


def _of_native(fact: CallableFact) -> Source:
    """Return the source of a built-in function or slot, or of a holder of nothing."""
    doubt = "" if fact.module and fact.library else "nothing tells where its code comes from"
    name = _dotted(fact.module, fact.qualname or fact.name) or f"a {fact.type_name}"
    return Source(name, fact.library or "", _given(fact.module), _given(fact.library), doubt)


def _of_instance(fact: CallableFact) -> Source:
    """Return the source of an object that is called and does not show its code.

    Types of Cython, nanobind and the like are made by one library and used by others.
    """
    doubt = "what it calls cannot be read"
    if fact.library is not None:
        doubt = "it is native code of a type that does not tell where the function comes from"
    name = f"an object of type {fact.type_name}"
    return Source(name, fact.library or "", (), _given(fact.library), doubt)


def _of_class(fact: ClassFact) -> Source:
    """Return the source of a class: the file of most of its methods' code, or of its native code.

    `__module__` can be set to anything, so that it counts only where that file is the module's.
    """
    methods = [file for file in fact.method_files if not file.startswith("<")][:1]
    doubt = ""
    if fact.module is None:
        doubt = "it does not say which module it belongs to"
    elif methods and (fact.file is None or _unlike(methods[0], fact.file)):
        doubt = f"it names {fact.module} ({fact.file or 'not imported'}) as its module, its methods"
        doubt += f" are of {methods[0]}"
    elif not methods and fact.library is None:
        doubt = "no code of its own shows whether it is of the module that it names"
    files = (*methods, *_given(fact.library))
    name = f"class {_dotted(fact.module, fact.qualname)}"
    return Source(name, (*files, fact.file or "")[0], _given(fact.module), files, doubt)


def _of_module(fact: ModuleFact, *, by_key: bool) -> Source:
    """Return the source of a module; its key in `sys.modules` does not tell what it is."""
    name = fact.spec_name or (None if by_key else fact.name)
    files = (fact.file,) if fact.file else fact.search
    where = files[0] if files else ""
    doubt = "" if name and files else "nothing in it tells where it was loaded from"
    if fact.disputed:
        doubt = f"its __file__ is {fact.file}, its specification names {fact.origin}"
        files = ()
    return Source(f"module {name or fact.name}", where, _given(name), files, doubt)


def _of_value(datum: Datum | None, of: ClassFact | None) -> Source:
    """Return the source of a value: that of its class, unless that is the interpreter's."""
    if datum is None or not datum.type_name:
        kind = "none" if datum is None else datum.kind
        return Source("None" if kind == "none" else f"a value of type {kind}", plain=True)
    name = f"an object of type {datum.type_name}"
    if of is None:
        return Source(name, doubt="its class was not read")
    return dataclasses.replace(_of_class(of), name=name)


def _dotted(*parts: str | None) -> str:
    return ".".join(part for part in parts if part)


def _given(text: str | None) -> tuple[str, ...]:
    return (text,) if text else ()
