"""Classes: their names, their dicts and the order in which attributes are looked for."""

from __future__ import annotations

from typing import Final, NamedTuple

from envprobe.cpython import dicts
from envprobe.cpython.faults import Torn, Unreadable
from envprobe.cpython.objects import MAX_MRO, Objects, TypeInfo

_MAX_STATIC_TYPES: Final = 1 << 10
_DATA_DESCRIPTORS: Final = ("property", "getset_descriptor", "member_descriptor")


class ClassAttribute(NamedTuple):
    """An attribute found along a method resolution order: its value and the class that holds it.

    `place` is the address of the word that points to the value.
    """

    value: int
    owner: int
    place: int


class Classes:
    """The classes of one process; `interpreter` is the address of its main interpreter's state."""

    __slots__ = ("_interpreter", "_objects")

    def __init__(self, objects: Objects, interpreter: int) -> None:
        self._objects = objects
        self._interpreter = interpreter

    def mro(self, address: int) -> tuple[int, ...]:
        """Return the addresses along the class's `__mro__`, itself first."""
        objects = self._objects
        order = objects.word(address + objects.layout.type_mro)
        if not order:
            raise Unreadable("a class that is not complete yet")
        objects.require(order, "tuple")
        return objects.items(order, MAX_MRO)

    def table(self, address: int) -> dicts.Table:
        """Return the entries of the class's own `__dict__`."""
        objects = self._objects
        found = objects.word(address + objects.layout.type_dict)
        if not found:
            found = self._static_dict(address)
        return dicts.table_of(objects, found)

    def _static_dict(self, address: int) -> int:
        """Return the dict of a static type, which the interpreter keeps (3.12 and later).

        The row is found by the number that stands in the place of `tp_subclasses`
        (Include/internal/pycore_typeobject.h), and begins with its type.
        """
        objects, layout = self._objects, self._objects.layout
        if not layout.static_types:
            raise Torn("a class without a dict")
        number = objects.word(address + layout.type_static_index)
        if not 0 < number <= _MAX_STATIC_TYPES:
            raise Unreadable("a static type whose attributes are kept elsewhere")
        for start in (layout.static_types, layout.static_extension_types):
            row = self._interpreter + start + (number - 1) * layout.static_type_size
            if start and objects.word(row) == address:
                return objects.word(row + layout.static_type_dict)
        raise Unreadable("a static type whose attributes are kept elsewhere")

    def find(self, address: int, name: str) -> ClassAttribute | None:
        """Return the first attribute `name` along the order of the class at `address`."""
        for owner in self.mro(address):
            if not self._objects.is_class(owner):
                raise Torn("no class in a method resolution order")
            held = dicts.find_entry(self._objects, self.table(owner), name)
            if held.value:
                return ClassAttribute(held.value, owner, held.place)
        return None

    def is_data_descriptor(self, address: int) -> bool:
        """Return whether an attribute of a type comes before the instance's own."""
        info = self._objects.type_of(address)
        if info.heap:
            return self.find(info.address, "__set__") is not None
        return info.exact in _DATA_DESCRIPTORS

    def qualname(self, address: int) -> str:
        """Return `__qualname__` of the class at `address`."""
        objects = self._objects
        info = objects.type_at(address)
        if info.heap:
            text = objects.text_or_none(objects.word(address + objects.layout.heaptype_qualname))
            if text is not None:
                return text
        return info.name.rpartition(".")[2]

    def module(self, address: int) -> str | None:
        """Return `__module__` of the class at `address`."""
        objects = self._objects
        info = objects.type_at(address)
        if info.heap:
            value = dicts.find(objects, self.table(address), "__module__")
            text = objects.text_or_none(value)
            if text is not None:
                return text
            # A class made by native code may keep a descriptor for its instances under the name.
            return info.name.rpartition(".")[0] or None
        return info.name.rpartition(".")[0] or "builtins"

    def full_name(self, address: int) -> str:
        """Return module and qualified name, without `builtins`."""
        module, qualname = self.module(address), self.qualname(address)
        return qualname if module in (None, "builtins") else f"{module}.{qualname}"

    def name_of_type(self, info: TypeInfo) -> str:
        """Return the full name of an object's type."""
        return self.full_name(info.address)
