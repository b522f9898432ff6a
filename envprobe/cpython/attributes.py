"""Looking attributes up as Python does, as far as that takes no code to run.

Where Python would run code (a property, `__getattr__`), the look-up says so instead of guessing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from envprobe.cpython import dicts
from envprobe.cpython.callables import Callables
from envprobe.cpython.faults import Unreadable
from envprobe.cpython.objects import Objects, TypeInfo, cstring
from envprobe.cpython.types import ClassAttribute, Classes

MAX_NESTED: Final = 8
_OBJECT_MEMBERS: Final = (6, 16)  # T_OBJECT and T_OBJECT_EX, Include/descrobject.h


class Found(NamedTuple):
    """An attribute: its address and the class in whose dict it is, 0 for the object's own.

    `place` is the address of the word that points to it.
    """

    value: int
    place: int
    owner: int = 0


class Missing(NamedTuple):
    """No such attribute."""


class Computed(NamedTuple):
    """An attribute that only code of the process could give."""

    why: str


class Lazy(NamedTuple):
    """An attribute that stands for an import that has not happened yet."""

    why: str


Outcome = Found | Missing | Computed | Lazy
MISSING: Final = Missing()


class Attributes:
    """Looks attributes up in one process."""

    __slots__ = ("_callables", "_classes", "_objects")

    def __init__(self, objects: Objects, classes: Classes, callables: Callables) -> None:
        self._objects = objects
        self._classes = classes
        self._callables = callables

    def look_up(self, address: int, name: str) -> Outcome:
        """Return attribute `name` of the object; MemoryFault, Torn, Unreadable."""
        found = self._look_up(address, name)
        if isinstance(found, Found):
            info = self._objects.type_of(found.value)
            if info.exact == "lazy_import":  # PEP 810, 3.15
                return Lazy(f"{name} is a lazy import that has not been resolved")
        return found

    def _look_up(self, address: int, name: str) -> Outcome:
        info = self._objects.type_of(address)
        if info.base == "type":
            return self._of_class(address, info, name)
        for _ in range(MAX_NESTED):
            shape = self._callables.shape(info)
            if shape not in ("staticmethod", "classmethod"):
                return self._of_instance(address, info, name)
            place = getattr(self._objects.layout, f"{shape}_callable")
            address = self._objects.word(address + place)
            info = self._objects.type_of(address)
        raise Unreadable("methods nested too deeply")

    def _of_class(self, address: int, meta: TypeInfo, name: str) -> Outcome:
        found = self._classes.find(address, name)
        if found is not None and not meta.heap:
            return Found(found.value, found.place, found.owner)
        of_meta = self._classes.find(meta.address, name)
        if found is not None:
            if of_meta is not None and self._made_for(of_meta):
                return Computed(f"{name} is computed by the class of the class, {meta.name}")
            return Found(found.value, found.place, found.owner)
        if of_meta is not None:
            return self._from_type(of_meta, address, name)
        return self._hook(meta, name)

    def _made_for(self, found: ClassAttribute) -> bool:
        """Return whether a metaclass written in Python computes what a class also holds.

        What `type` itself computes (`__module__`, `__doc__`, ...) comes from the class's dict.
        """
        owner = self._objects.type_at(found.owner)
        return owner.heap and self._classes.is_data_descriptor(found.value)

    def _of_instance(self, address: int, info: TypeInfo, name: str) -> Outcome:
        of_type = self._classes.find(info.address, name)
        if of_type is not None and self._takes_over(info, of_type):
            return self._from_type(of_type, address, name)
        table = dicts.instance_table(self._objects, address, info)
        held = dicts.find_entry(self._objects, table, name)
        if held.value:
            return Found(held.value, held.place)
        if of_type is not None:
            return self._from_type(of_type, address, name)
        if info.base == "module":
            if self._classes.full_name(info.address) == "importlib.util._LazyModule":
                return Lazy("the module is loaded at its first use")
            if dicts.find(self._objects, table, "__getattr__"):
                return Computed(f"{name} would come from the module's __getattr__")
        return self._hook(info, name)

    def _takes_over(self, info: TypeInfo, found: ClassAttribute) -> bool:
        """Return whether the type's attribute comes before the instance's own.

        Plain modules and functions have none that a dict could hold as well.
        """
        if info.exact in ("module", "function"):
            return False
        return self._classes.is_data_descriptor(found.value)

    def _from_type(self, found: ClassAttribute, instance: int, name: str) -> Outcome:
        info = self._objects.type_of(found.value)
        if info.exact == "member_descriptor":
            return self._member(found, instance, name)
        if info.exact == "getset_descriptor" or self._callables.shape(info) == "property":
            return Computed(f"{name} is computed by a {info.name}")
        if self._classes.is_data_descriptor(found.value):
            return Computed(f"{name} is computed by a descriptor of type {info.name}")
        return Found(found.value, found.place, found.owner)

    def _member(self, found: ClassAttribute, instance: int, name: str) -> Outcome:
        """Read a slot by its PyMemberDef: name, type, offset (Include/descrobject.h)."""
        objects = self._objects
        definition = objects.word(found.value + objects.layout.descriptor_member)
        if cstring(objects, objects.word(definition)) != name:
            return Computed(f"{name} is computed by a member_descriptor")
        kind = objects.word(definition + 8) & 0xFFFFFFFF
        place = objects.signed(definition + 16)
        if kind not in _OBJECT_MEMBERS or not 0 < place < 1 << 16:
            return Computed(f"{name} is a number kept outside of objects")
        value = objects.word(instance + place)
        return Found(value, instance + place, found.owner) if value else MISSING

    def _hook(self, info: TypeInfo, name: str) -> Outcome:
        """Return what a missing attribute means for a type that may make attributes up."""
        for hook in ("__getattr__", "__getattribute__") if info.heap else ():
            found = self._classes.find(info.address, hook)
            if found is not None and self._objects.type_at(found.owner).heap:
                return Computed(f"{name} would come from {hook} of {info.name}")
        return MISSING
