"""Facts about callables: where their code comes from and what they wrap."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from envprobe.cpython import dicts
from envprobe.cpython.describe import Describer
from envprobe.cpython.faults import Unreadable
from envprobe.cpython.objects import Objects, TypeInfo, cstring
from envprobe.cpython.types import Classes
from envprobe.pythonfacts import CLASS_RUNS, CallableFact, Wrapped

MAX_CALLABLES: Final = 32
MAX_CELLS: Final = 64
MAX_VARIABLES: Final = 1 << 14
_NATIVE: Final = {
    "builtin_function_or_method": "builtin_method",
    "method_descriptor": "descriptor_method",
    "classmethod_descriptor": "descriptor_method",
    "getset_descriptor": "descriptor_getset",
}
_HOLDERS: Final = ("function", "method", "staticmethod", "classmethod", "property", *_NATIVE)
_INNER_ATTRIBUTES: Final = ("__wrapped__", "__func__", "func", "fn", "_op")
"""Where instances keep what they call: functools.update_wrapper; bound methods written in Python;
functools.partialmethod, cached_property and singledispatchmethod; Triton's JITFunction; torch's
OpOverload."""


class Callables:
    """Describes the callables of one process; `modules` is the address of `sys.modules`."""

    __slots__ = ("_classes", "_describer", "_left", "_modules", "_objects", "_partial", "_seen")

    def __init__(
        self, objects: Objects, classes: Classes, describer: Describer, modules: int
    ) -> None:
        self._objects = objects
        self._classes = classes
        self._describer = describer
        self._modules = modules
        self._partial = 0
        self._left = 0
        self._seen: set[int] = set()

    def shape(self, info: TypeInfo) -> str:
        """Return the built-in holder of callables that a type is or derives from, or ""."""
        if info.exact in _HOLDERS:
            return info.exact
        for owner in self._classes.mro(info.address) if info.heap else (info.address,):
            found = self._objects.type_at(owner)
            if found.exact in _HOLDERS:
                return found.exact
            if found.name == "functools.partial" and self._is_partial(owner):
                return "partial"
        return ""

    def _is_partial(self, address: int) -> bool:
        """Return whether it is the class that `_functools` holds; it is made at run time."""
        if not self._partial:
            objects = self._objects
            module = dicts.get(objects, self._modules, "_functools")
            info = objects.type_of(module)
            self._partial = dicts.find(
                objects, dicts.instance_table(objects, module, info), "partial"
            )
        return address == self._partial

    def is_callable(self, address: int) -> bool:
        """Return whether the object is a function, something around one, or can be called."""
        info = self._objects.type_of(address)
        if info.exact in _HOLDERS or self.shape(info):
            return True
        return bool(self._objects.word(info.address + self._objects.layout.type_call))

    def runs_code(self, address: int) -> bool:
        """Return whether the object is callable, or a descriptor whose class is in Python."""
        info = self._objects.type_of(address)
        return self.is_callable(address) or (
            info.heap and self._classes.find(info.address, "__get__") is not None
        )

    def describe(self, address: int) -> CallableFact:
        """Describe the callable at `address` and what it wraps."""
        self._left = MAX_CALLABLES
        self._seen = set()
        return self._callable(address)

    def _callable(self, address: int) -> CallableFact:
        self._left -= 1
        self._seen.add(address)
        info = self._objects.type_of(address)
        if info.base == "type":
            return self._class_as_callable(address, info)
        if info.exact == "function":
            return self._function(address)
        if info.exact in _NATIVE or info.exact in ("wrapper_descriptor", "method-wrapper"):
            return self._native(address, info)
        return self._holder(address, info)

    def _class_as_callable(self, address: int, info: TypeInfo) -> CallableFact:
        classes = self._classes
        module, qualname = classes.module(address), classes.qualname(address)
        name = qualname.rpartition(".")[2]
        return CallableFact(classes.name_of_type(info), module, qualname, name)

    def _function(self, address: int) -> CallableFact:
        objects, layout = self._objects, self._objects.layout
        code = objects.word(address + layout.function_code)
        objects.require(code, "code")
        space = dicts.table_of(objects, objects.word(address + layout.function_globals))
        line = int.from_bytes(objects.memory.read(code + layout.code_firstlineno, 4), "little")
        true_name = layout.code_qualname or layout.code_name
        wraps, cut = self._links(self._inside_function(address, code))
        return CallableFact(
            "function",
            objects.text_or_none(objects.word(address + layout.function_module)),
            objects.text_or_none(objects.word(address + layout.function_qualname)),
            objects.text_or_none(objects.word(address + layout.function_name)),
            objects.text(objects.word(code + layout.code_filename)),
            line,
            objects.text(objects.word(code + true_name)),
            self._describer.text(space, "__name__"),
            self._describer.text(space, "__file__"),
            wraps=wraps,
            cut=cut,
        )

    def _links(self, found: Iterator[tuple[str, int]]) -> tuple[tuple[Wrapped, ...], bool]:
        """Describe each callable of (way, address) that was not described yet."""
        wraps: list[Wrapped] = []
        for via, inner in found:
            if inner in self._seen or not self.is_callable(inner):
                continue
            if self._left <= 0:
                return tuple(wraps), True
            wraps.append(Wrapped(via, self._callable(inner)))
        return tuple(wraps), any(link.inner.cut for link in wraps)

    def _inside_function(self, address: int, code: int) -> Iterator[tuple[str, int]]:
        """Yield `__wrapped__`, then the callables in the closure that are no classes."""
        objects, layout = self._objects, self._objects.layout
        own = objects.word(address + layout.function_dict)
        if own and (wrapped := dicts.get(objects, own, "__wrapped__")):
            yield "__wrapped__", wrapped
        closure = objects.word(address + layout.function_closure)
        if not closure:
            return
        objects.require(closure, "tuple")
        cells = objects.items(closure, MAX_CELLS)
        names = self._free_variables(code, len(cells))
        for cell, name in zip(cells, names, strict=False):
            objects.require(cell, "cell")
            held = objects.word(cell + layout.cell_value)
            if held and self._function_like(held):
                yield f"closure variable {name}", held

    def _function_like(self, address: int) -> bool:
        return self._objects.type_of(address).base != "type" and self.is_callable(address)

    def _free_variables(self, code: int, count: int) -> tuple[str, ...]:
        """Return the names of a closure's variables, the last of all local ones since 3.11."""
        objects, layout = self._objects, self._objects.layout
        place = layout.code_localsplusnames or layout.code_freevars
        names = objects.word(code + place)
        objects.require(names, "tuple")
        objects.length(names, MAX_VARIABLES)
        found = objects.items(names, MAX_VARIABLES)[-count:] if count else ()
        return tuple(objects.text(name) for name in found)

    def _native(self, address: int, info: TypeInfo) -> CallableFact:
        objects, layout = self._objects, self._objects.layout
        if info.exact == "builtin_function_or_method":
            return self._builtin(address, info)
        if info.exact == "method-wrapper":
            return self._method_wrapper(address)
        owner = objects.word(address + layout.descriptor_owner)
        name = objects.text(objects.word(address + layout.descriptor_name))
        if info.exact == "wrapper_descriptor":
            code = objects.word(address + layout.wrapper_function)
        else:
            definition = objects.word(address + getattr(layout, _NATIVE[info.exact]))
            code = objects.word(definition + 8)
        module, qualname = self._classes.module(owner), self._classes.qualname(owner)
        return CallableFact(
            info.name, module, f"{qualname}.{name}", name, library=self._describer.library(code)
        )

    def _method_wrapper(self, address: int) -> CallableFact:
        """Read a bound slot, such as `object().__repr__` (Objects/descrobject.c)."""
        objects, layout = self._objects, self._objects.layout
        slot = objects.word(address + layout.methodwrapper_descriptor)
        info = objects.require(slot, "wrapper_descriptor")
        bound = self._describer.type_or_class(objects.word(address + layout.methodwrapper_self))
        fact = self._native(slot, info)
        return dataclasses.replace(fact, type_name="method-wrapper", bound_to=bound)

    def _builtin(self, address: int, info: TypeInfo) -> CallableFact:
        """Read a PyCFunctionObject and its PyMethodDef (Include/methodobject.h)."""
        objects, layout = self._objects, self._objects.layout
        definition = objects.word(address + layout.builtin_method)
        name = cstring(objects, objects.word(definition))
        bound = objects.word(address + layout.builtin_self)
        module = objects.word(address + layout.builtin_module)
        return CallableFact(
            info.name,
            objects.text_or_none(module),
            self._builtin_qualname(bound, name),
            name,
            library=self._describer.library(objects.word(definition + 8)),
            bound_to=self._bound_type(bound),
        )

    def _builtin_qualname(self, bound: int, name: str) -> str:
        """Return `__qualname__` as Objects/methodobject.c makes it."""
        if not bound:
            return name
        info = self._objects.type_of(bound)
        if info.base == "module":
            return name
        owner = bound if info.base == "type" else info.address
        return f"{self._classes.qualname(owner)}.{name}"

    def _bound_type(self, bound: int) -> str | None:
        if not bound:
            return None
        info = self._objects.type_of(bound)
        return None if info.base == "module" else self._describer.type_or_class(bound)

    def _holder(self, address: int, info: TypeInfo) -> CallableFact:
        """Describe what holds a callable: a method, a descriptor, a partial, a foreign object."""
        objects, layout = self._objects, self._objects.layout
        wraps, cut = self._links(self._held(address, info))
        is_method = info.exact == "method"
        bound = objects.word(address + layout.method_self) if is_method else 0
        own = self._own_names(address, info)
        return CallableFact(
            info.exact or self._classes.name_of_type(info),
            own.get("__module__"),
            own.get("__qualname__"),
            own.get("__name__"),
            library=self._foreign_library(info),
            bound_to=self._describer.type_or_class(bound) if bound else None,
            wraps=wraps,
            cut=cut,
        )

    def _held(self, address: int, info: TypeInfo) -> Iterator[tuple[str, int]]:
        objects, layout = self._objects, self._objects.layout
        members = {
            "method": (("__func__", layout.method_function),),
            "staticmethod": (("__func__", layout.staticmethod_callable),),
            "classmethod": (("__func__", layout.classmethod_callable),),
            "property": (("fget", layout.property_get), ("fset", layout.property_set)),
            "partial": (("partial.func", layout.partial_function),),
        }.get(self.shape(info), ())
        for via, place in members:
            held = objects.word(address + place)
            if held and objects.type_of(held).exact != "NoneType":
                yield via, held
        if not members:
            yield from self._kept(address, info)
        yield from self._run_by_class(info)

    def _kept(self, address: int, info: TypeInfo) -> Iterator[tuple[str, int]]:
        own = self._instance(address, info)
        for name in _INNER_ATTRIBUTES:
            held = dicts.find(self._objects, own, name)
            if held:
                yield name, held

    def _run_by_class(self, info: TypeInfo) -> Iterator[tuple[str, int]]:
        """Yield the function of a class in Python that runs when its object is used."""
        for via in CLASS_RUNS if info.heap else ():
            found = self._classes.find(info.address, via.partition(".")[2])
            if found is not None and self._objects.type_of(found.value).exact == "function":
                yield via, found.value

    def _instance(self, address: int, info: TypeInfo) -> dicts.Table:
        try:
            return dicts.instance_table(self._objects, address, info)
        except Unreadable:
            return dicts.EMPTY

    def _own_names(self, address: int, info: TypeInfo) -> dict[str, str]:
        """Return the names that `functools.update_wrapper` copies into instances."""
        own = self._instance(address, info)
        wanted = ("__module__", "__qualname__", "__name__")
        found = ((name, self._describer.text(own, name)) for name in wanted)
        return {name: text for name, text in found if text is not None}

    def _foreign_library(self, info: TypeInfo) -> str | None:
        """Return the shared object of a type that is neither the interpreter's nor Python's."""
        if info.exact:
            return None
        if not info.heap:
            return self._describer.library(info.address)
        code = self._objects.word(info.address + self._objects.layout.type_call)
        if not code or self._objects.same_file(code):
            return None
        return self._describer.library(code)
