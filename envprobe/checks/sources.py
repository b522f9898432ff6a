"""Where the code of what an attribute holds comes from, by evidence that a wrapper cannot copy.

`functools.wraps` copies `__module__` and `__qualname__`; the file in a code object, and the
namespace that a function runs in, stay its own. What only holds a callable (a bound method, a
staticmethod, a partial) is looked through; so are the wrappers of `_PASSES_ON`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final

from envprobe.patchexpect import is_below, is_within, normal
from envprobe.pythonfacts import Answer, CallableFact, ClassFact, Datum, Kind, ModuleFact

_PASSES_ON: Final = ("contextlib", "functools", "numba", "torch", "triton", "wrapt")
"""Packages whose decorators put a callable of their own in front of a function, and call it:
contextlib.contextmanager, functools.lru_cache, torch.no_grad and torch.compile, triton.jit, ..."""


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """One place that code comes from.

    `name` and `where` are for sentences. `modules` are dotted names that it belongs to, `files`
    paths that it was loaded from. `doubt` says why another place cannot be ruled out, "" if it can.
    `plain`: a value such as None or a number, which comes from nowhere.
    """

    name: str
    where: str = ""
    modules: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    doubt: str = ""
    plain: bool = False

    @property
    def said(self) -> str:
        """The source in words, such as `my_kernels.attn.extend (/opt/my_kernels/attn.py:12)`."""
        return f"{self.name} ({self.where})" if self.where else self.name

    def is_from(self, prefix: str, cwd: str | None) -> bool | None:
        """Return whether it comes from a module or path prefix; None if it cannot be told."""
        if self.plain:
            return False
        if "/" not in prefix:
            found = any(is_within(module, prefix) for module in self.modules)
            return found or (None if self.doubt else False)
        places = [normal(file, cwd) for file in self.files]
        if any(place is not None and is_below(place, prefix) for place in places):
            return True
        return None if self.doubt or not places or None in places else False


@dataclasses.dataclass(frozen=True, slots=True)
class Sources:
    """What runs when the attribute is used, outermost first, and what that in turn holds.

    Of `own` all but the last are decorators that pass the call on.
    """

    own: tuple[Source, ...]
    inner: tuple[Source, ...] = ()


def sources_of(answer: Answer) -> Sources:
    """Return where what an answer in state VALUE has found comes from."""
    if answer.function is not None:
        return _of_callable(answer.function)
    if answer.type is not None:
        return Sources((_of_class(answer.type),))
    if answer.kind is Kind.MODULE and answer.found_module is not None:
        return Sources((_of_module(answer.found_module, by_key=":" not in answer.query),))
    return Sources((_of_value(answer.value),))


def chain(fact: CallableFact) -> Iterator[CallableFact]:
    """Yield a callable and all that it wraps, outermost first."""
    yield fact
    for link in fact.wraps:
        yield from chain(link.inner)


def _of_callable(fact: CallableFact) -> Sources:
    if fact.wraps and _only_holds(fact):
        return _of_callable(fact.wraps[0].inner)
    source = _of_one(fact)
    if not (fact.wraps and _passes_on(fact)):
        return Sources((source,), _below(link.inner for link in fact.wraps))
    rest = _of_callable(fact.wraps[0].inner)
    others = _below(link.inner for link in fact.wraps[1:])
    return Sources((source, *rest.own), (*rest.inner, *others))


def _below(facts: Iterable[CallableFact]) -> tuple[Source, ...]:
    every = (one for fact in facts for one in chain(fact))
    return tuple(_of_one(one) for one in every if not (one.wraps and _only_holds(one)))


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
    elif fact.globals_module is None:
        doubt = "the namespace that it runs in has no name"
    elif space is not None and _unlike(file, space):
        doubt = f"its code is of {file}, the namespace that it runs in of {space}"
    files = tuple(one for one in dict.fromkeys((file, space)) if one and not one.startswith("<"))
    return Source(
        _dotted(fact.globals_module, fact.code_name),
        f"{file}:{fact.line}",
        _given(fact.globals_module),
        files,
        doubt,
    )


def _unlike(file: str, other: str) -> bool:
    """Return whether code is certainly not of the file of a module.

    Byte code without its source, and a script given by a relative path, name another file.
    """
    comparable = file.startswith("/") and other.startswith("/") and other.endswith(".py")
    return comparable and normal(file, None) != normal(other, None)


def _of_native(fact: CallableFact) -> Source:
    """Return the source of a built-in function or slot, or of a holder of nothing."""
    doubt = "" if fact.module and fact.library else "nothing tells where its code comes from"
    name = _dotted(fact.module, fact.qualname or fact.name) or f"a {fact.type_name}"
    return Source(name, fact.library or "", _given(fact.module), _given(fact.library), doubt)


def _of_instance(fact: CallableFact) -> Source:
    """Return the source of an object that is called: that of its class.

    Types of Cython, nanobind and the like are made by one library and used by others.
    """
    doubt = ""
    if fact.library is not None:
        doubt = "it is native code of a type that does not tell where the function comes from"
    elif _is_decorator(fact.type_name):
        doubt = "what it calls cannot be read"
    name = f"an object of type {fact.type_name}"
    modules = () if doubt else (fact.type_name,)
    return Source(name, fact.library or "", modules, _given(fact.library), doubt)


def _of_class(fact: ClassFact) -> Source:
    methods = fact.method_files[:1]
    doubt = ""
    if fact.module is None:
        doubt = "it does not say which module it belongs to"
    elif methods and fact.file is not None and _unlike(methods[0], fact.file):
        doubt = f"it names {fact.module} ({fact.file}) as its module, its methods are of"
        doubt += f" {methods[0]}"
    files = tuple(dict.fromkeys(one for one in (*methods, fact.file, fact.library) if one))
    name = f"class {_dotted(fact.module, fact.qualname)}"
    return Source(name, files[0] if files else "", _given(fact.module), files, doubt)


def _of_module(fact: ModuleFact, *, by_key: bool) -> Source:
    """Return the source of a module; its key in `sys.modules` does not tell what it is."""
    name = fact.spec_name or (None if by_key else fact.name)
    files = (fact.file,) if fact.file else fact.search
    doubt = "" if name and files else "nothing in it tells where it was loaded from"
    where = files[0] if files else ""
    return Source(f"module {name or fact.name}", where, _given(name), files, doubt)


def _of_value(datum: Datum | None) -> Source:
    """Return the source of a value: that of its class, unless that is the interpreter's."""
    if datum is None or not datum.type_name:
        kind = "none" if datum is None else datum.kind
        return Source("None" if kind == "none" else f"a value of type {kind}", plain=True)
    return Source(f"an object of type {datum.type_name}", modules=(datum.type_name,))


def _dotted(*parts: str | None) -> str:
    return ".".join(part for part in parts if part)


def _given(text: str | None) -> tuple[str, ...]:
    return (text,) if text else ()
