"""Simple values, bounded: what a marker or a counter that a patch keeps looks like."""

from __future__ import annotations

from typing import Final

from envprobe.cpython import dicts
from envprobe.cpython.faults import Unreadable
from envprobe.cpython.objects import Objects, TypeInfo
from envprobe.cpython.types import Classes
from envprobe.pythonfacts import Datum
from envprobe.values import Value

MAX_DEPTH: Final = 6
MAX_MEMBERS: Final = 1000
MAX_NODES: Final = 5000
MAX_SHOWN: Final = 1 << 16
MAX_SHOWN_INSIDE: Final = 1 << 10
SIMPLE: Final = ("int", "str", "bytes", "list", "tuple", "dict")


class Values:
    """Decodes simple values of one process."""

    __slots__ = ("_classes", "_nodes", "_objects")

    def __init__(self, objects: Objects, classes: Classes) -> None:
        self._objects = objects
        self._classes = classes
        self._nodes = 0

    def simple(self, info: TypeInfo) -> bool:
        """Return whether objects of this type are decoded."""
        return info.base in SIMPLE or info.exact in ("NoneType", "bool", "float")

    def decode(self, address: int) -> Datum:
        """Return the value of the object at `address`; MemoryFault, Torn, Unreadable."""
        self._nodes = 0
        return self._decode(address, 0)

    def _decode(self, address: int, depth: int) -> Datum:
        self._nodes += 1
        objects, info = self._objects, self._objects.type_of(address)
        exact = info.exact
        if exact == "NoneType":
            return Datum("none")
        if exact == "bool":
            return Datum("bool", Value(str(objects.integer(address) != 0).encode()))
        if exact == "float":
            return Datum("float", Value(repr(objects.number(address)).encode()))
        name = "" if exact == info.base else self._classes.name_of_type(info)
        if info.base in ("str", "bytes", "int"):
            return self._scalar(address, info.base, name, depth)
        if info.base in ("list", "tuple", "dict"):
            return self._container(address, info.base, name, depth)
        return Datum("object", type_name=self._classes.name_of_type(info))

    def _scalar(self, address: int, kind: str, name: str, depth: int) -> Datum:
        objects, limit = self._objects, MAX_SHOWN_INSIDE if depth else MAX_SHOWN
        if kind == "int":
            return Datum("int", _decimal(objects.integer(address)), type_name=name)
        if kind == "bytes":
            raw, length = objects.bytes_start(address, limit)
            return Datum("bytes", Value(raw), length=length, cut=length > len(raw), type_name=name)
        text, length = objects.text_start(address, limit)
        value = Value(text.encode("utf-8", "surrogatepass"))
        return Datum("str", value, length=length, cut=length > len(text), type_name=name)

    def _container(self, address: int, kind: str, name: str, depth: int) -> Datum:
        objects = self._objects
        if kind == "dict":
            table = dicts.table_of(objects, address)
            length = objects.signed(address + objects.layout.dict_used)
            found = dicts.pairs(objects, table)
        else:
            length = objects.length(address, 1 << 40)
            found = ((0, 0, item) for item in objects.items(address, MAX_MEMBERS))
        keys: list[Datum] = []
        items: list[Datum] = []
        for _, key, value in found:
            if depth >= MAX_DEPTH or len(items) >= MAX_MEMBERS or self._nodes >= MAX_NODES:
                break
            if kind == "dict":
                keys.append(self._decode(key, depth + 1))
            items.append(self._decode(value, depth + 1))
        if kind == "tuple" and name:
            keys = self._fields(address, len(items))
        return Datum(
            kind,
            items=tuple(items),
            keys=tuple(keys),
            length=length,
            cut=len(items) < length,
            type_name=name,
        )

    def _fields(self, address: int, count: int) -> list[Datum]:
        """Return the names of a tuple's fields (Lib/collections, `_fields`), [] without them."""
        objects = self._objects
        found = self._classes.find(objects.type_of(address).address, "_fields")
        if found is None or objects.type_of(found.value).base != "tuple":
            return []
        names = objects.texts(found.value, count)
        made = [Datum("str", Value(name.encode("utf-8", "surrogatepass"))) for name in names]
        return made if len(made) == count else []


def _decimal(number: int) -> Value:
    """Write a number in decimal; Python refuses to do so above 4300 digits."""
    try:
        return Value(str(number).encode())
    except ValueError as error:
        raise Unreadable("a number of more than 4300 decimal digits") from error
