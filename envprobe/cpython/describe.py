"""Facts about modules and classes: where they come from."""

from __future__ import annotations

import collections
import dataclasses
from typing import Final

from envprobe.cpython import dicts
from envprobe.cpython.objects import Objects
from envprobe.cpython.types import Classes
from envprobe.pythonfacts import ClassFact, ModuleFact

MAX_METHODS: Final = 256
MAX_SEARCH: Final = 256


class Describer:
    """Describes the modules and classes of one process."""

    __slots__ = ("_classes", "_modules", "_objects")

    def __init__(self, objects: Objects, classes: Classes, modules: int) -> None:
        self._objects = objects
        self._classes = classes
        self._modules = modules

    def module(self, address: int, name: str | None = None) -> ModuleFact:
        """Describe what `sys.modules` holds, or another module."""
        objects = self._objects
        info = objects.type_of(address)
        own = dicts.instance_table(objects, address, info)
        spec = dicts.find(objects, own, "__spec__")
        fact = ModuleFact(
            name if name is not None else self.text(own, "__name__") or "",
            info.exact or self._classes.name_of_type(info),
            file=self.text(own, "__file__"),
            cached=self.text(own, "__cached__"),
        )
        return self._with_spec(fact, spec) if spec else fact

    def _with_spec(self, fact: ModuleFact, address: int) -> ModuleFact:
        """Add what a ModuleSpec says (Lib/importlib/_bootstrap.py), or what stands in its place."""
        objects = self._objects
        info = objects.type_of(address)
        if info.exact == "NoneType":
            return fact
        own = dicts.instance_table(objects, address, info)
        loader = dicts.find(objects, own, "loader")
        search = dicts.find(objects, own, "submodule_search_locations")
        initializing = dicts.find(objects, own, "_initializing")
        return dataclasses.replace(
            fact,
            origin=self.text(own, "origin"),
            loader=self.type_or_class(loader) if loader else None,
            spec_name=self.text(own, "name"),
            search=self._search(search) if search else (),
            initializing=bool(initializing) and self._true(initializing),
        )

    def _true(self, address: int) -> bool:
        return self._objects.type_of(address).exact == "bool" and (
            self._objects.integer(address) != 0
        )

    def _search(self, address: int) -> tuple[str, ...]:
        base = self._objects.type_of(address).base
        return self._objects.texts(address, MAX_SEARCH) if base in ("list", "tuple") else ()

    def type_or_class(self, address: int) -> str | None:
        """Return the name of a class, or of the object's class; built-in loaders are classes."""
        info = self._objects.type_of(address)
        if info.exact == "NoneType":
            return None
        is_class = info.base == "type"
        return self._classes.full_name(address if is_class else info.address)

    def text(self, table: dicts.Table, name: str) -> str | None:
        """Return the string under `name`, None if there is none."""
        value = dicts.find(self._objects, table, name)
        return self._objects.text_or_none(value)

    def file_of_module(self, name: str | None) -> str | None:
        """Return `__file__` of an imported module."""
        address = dicts.get(self._objects, self._modules, name) if name else 0
        return self.file_of(address) if address else None

    def file_of(self, address: int) -> str | None:
        """Return `__file__` of the object at `address`."""
        info = self._objects.type_of(address)
        return self.text(dicts.instance_table(self._objects, address, info), "__file__")

    def klass(self, address: int) -> ClassFact:
        """Describe the class at `address`."""
        objects, classes = self._objects, self._classes
        info, meta = objects.type_at(address), objects.type_of(address)
        module = classes.module(address)
        return ClassFact(
            module,
            classes.qualname(address),
            classes.name_of_type(meta),
            self.file_of_module(module),
            self._method_files(address) if info.heap else (),
            tuple(classes.full_name(base) for base in classes.mro(address) if base != address),
            None if info.heap else self.library(address),
        )

    def _method_files(self, address: int) -> tuple[str, ...]:
        objects, layout = self._objects, self._objects.layout
        files: collections.Counter[str] = collections.Counter()
        for number, (_, _, value) in enumerate(dicts.pairs(objects, self._classes.table(address))):
            if number >= MAX_METHODS:
                break
            if objects.type_of(value).exact == "function":
                code = objects.word(value + layout.function_code)
                objects.require(code, "code")
                files[objects.text(objects.word(code + layout.code_filename))] += 1
        return tuple(file for file, _ in files.most_common(8))

    def library(self, address: int) -> str | None:
        """Return the path of the mapped file at `address`."""
        mapping = self._objects.space.at(address)
        if mapping is None or not mapping.path.startswith("/"):
            return None
        return mapping.path
