"""Decoders of single objects, each of which checks the type before it believes the contents.

A type is known by its address: a static type of the interpreter lies in the same mapped file as
`type` itself and is told by its name; all others only by the subclass bits of `tp_flags`
(Include/object.h), which CPython keeps for fast checks.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from envprobe.cpython.faults import Torn, Unreadable
from envprobe.cpython.layouts import Layout
from envprobe.process.checked import CheckedMemory
from envprobe.process.handle import MemoryFault
from envprobe.process.maps import AddressSpace, Mapping

MAX_TEXT: Final = 1 << 16
MAX_ITEMS: Final = 1 << 20
MAX_DIGITS: Final = 1 << 10
MAX_MRO: Final = 512
MAX_COMPARED: Final = 256
WORK_BUDGET: Final = 4 << 20

INLINE_VALUES: Final = 1 << 2
MANAGED_DICT: Final = 1 << 4
HEAP_TYPE: Final = 1 << 9
TYPE_SUBCLASS: Final = 1 << 31
_TUPLE_SUBCLASS: Final = 1 << 26
SUBCLASS_BITS: Final = (
    ("int", 1 << 24),
    ("list", 1 << 25),
    ("tuple", 1 << 26),
    ("bytes", 1 << 27),
    ("str", 1 << 28),
    ("dict", 1 << 29),
    ("type", TYPE_SUBCLASS),
)
_ENCODINGS: Final = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}
_DIGIT_BITS: Final = 30  # Include/cpython/longintrepr.h on every 64-bit build
_MAX_METATYPES: Final = 8
_MAX_TYPE_NAME: Final = 1024
_WORD: Final = struct.Struct("<Q")
_USER_LIMIT: Final = 1 << 47


class TypeInfo(NamedTuple):
    """A type object.

    `exact` is the name of a static type of the interpreter itself, "" for all other types; `base`
    that of the built-in type whose instances' shape its own begin with, as far as flags tell.
    """

    address: int
    name: str
    flags: int
    basicsize: int
    dictoffset: int
    exact: str
    base: str

    @property
    def heap(self) -> bool:
        """Whether it was made at run time, as all classes written in Python are."""
        return bool(self.flags & HEAP_TYPE)


class Objects:
    """The objects of one process, read with one layout.

    `type_type` is the address of `type`; `lengths` holds those of strings that were read as keys.
    Methods raise MemoryFault, Torn and Unreadable.
    """

    __slots__ = (
        "_home",
        "_static",
        "layout",
        "left",
        "lengths",
        "memory",
        "module_type",
        "names",
        "space",
        "str_head",
        "str_type",
        "type_type",
    )

    def __init__(
        self, memory: CheckedMemory, space: AddressSpace, layout: Layout, type_type: int
    ) -> None:
        self.memory = memory
        self.space = space
        self.layout = layout
        self.type_type = type_type
        self.left = WORK_BUDGET
        self.lengths: dict[int, int] = {}
        self.names: dict[str, int] = {}
        self.str_type = 0
        self.module_type = 0
        gap = layout.str_length - layout.object_type - 8
        self.str_head = struct.Struct(f"<{layout.object_type}xQ{gap}xq")
        self._static: dict[int, TypeInfo] = {}
        self._home = space.at(type_type)

    def forget(self) -> None:
        """Drop what was read, so that the next reads show the present."""
        self.memory.forget()
        self.lengths.clear()

    def spend(self, steps: int) -> None:
        """Count steps of work; Unreadable when one question takes too many."""
        self.left -= steps
        if self.left < 0:
            raise Unreadable(f"answering takes more than {WORK_BUDGET} steps")

    def word(self, address: int) -> int:
        """Return the pointer or count at `address`."""
        return self.memory.word(address)

    def fresh_words(self, address: int, count: int) -> tuple[int, ...]:
        """Return words as they are now; their pages must have been read before."""
        raw = self.memory.source.read_some(address, 8 * count)
        if len(raw) < 8 * count:
            raise Torn("memory that was unmapped meanwhile")
        return struct.unpack(f"<{count}Q", raw)

    def confirm(self, address: int, place: int) -> None:
        """Raise Torn unless `place` points to `address` now and what was read there is there.

        Counts of references change all the time and are left out.
        """
        head = self.layout.object_type
        size = self._compared(address)
        before = self.memory.read(address + head, size)
        pointed = self.fresh_words(place, 1)
        now = self.memory.source.read_some(address + head, size)
        if pointed != (address,) or now != before or self.fresh_words(place, 1) != pointed:
            raise Torn("an object that was replaced meanwhile")

    def _compared(self, address: int) -> int:
        """Return how many bytes from the type on tell an object from another."""
        info, layout = self.type_of(address), self.layout
        head = layout.object_type
        if info.base == "int":
            tag = self.signed(address + layout.long_tag)
            count = abs(tag if layout.integer == "size" else tag >> 3)
            return layout.long_digits + 4 * min(count, MAX_COMPARED // 4) - head
        size = min(info.basicsize, MAX_COMPARED)
        return max(size, layout.object_size) - head

    def signed(self, address: int) -> int:
        """Return the signed 64-bit number at `address`."""
        value = self.memory.word(address)
        return value - (1 << 64) if value >> 63 else value

    def type_of(self, address: int) -> TypeInfo:
        """Return the type of the object at `address`; Torn when there is no object."""
        if not address or address % 8 or address >= _USER_LIMIT:
            raise Torn("no object")
        return self.type_at(self.word(address + self.layout.object_type))

    def type_at(self, address: int) -> TypeInfo:
        """Return the type object at `address`; Torn when there is none."""
        found = self._static.get(address)
        if found is not None:
            return found
        self._require_type(address)
        layout = self.layout
        name = self.memory.cstring(self.word(address + layout.type_name), _MAX_TYPE_NAME)
        text = name.decode("utf-8", "replace")
        flags = self.word(address + layout.type_flags)
        exact = "" if flags & HEAP_TYPE or not self.same_file(address) else text
        info = TypeInfo(
            address,
            text,
            flags,
            self.signed(address + layout.type_basicsize),
            self.signed(address + layout.type_dictoffset),
            exact,
            self._base_of(address, flags) or exact,
        )
        if exact:
            self._static[address] = info
            if exact == "str":
                self.str_type = address
            elif exact == "module":
                self.module_type = address
        return info

    def _base_of(self, address: int, flags: int) -> str:
        """Return the built-in type whose shape the instances of a class made at run time have."""
        for base, bit in SUBCLASS_BITS:
            if flags & bit:
                return base
        if not flags & HEAP_TYPE or not self.module_type:
            return ""
        order = self.word(address + self.layout.type_mro)
        return "module" if order and self.module_type in self._order(order) else ""

    def _order(self, address: int) -> tuple[int, ...]:
        """Return a method resolution order by its flags alone: its type may be this very class."""
        kind = self.word(address + self.layout.object_type)
        if not self.word(kind + self.layout.type_flags) & _TUPLE_SUBCLASS:
            return ()
        count = min(self.length(address), MAX_MRO)
        return self.memory.words(address + self.layout.tuple_items, count) if count else ()

    def _require_type(self, address: int) -> None:
        """Follow the types of types up to `type`; each must say that it is a type of types."""
        here = address
        for _ in range(_MAX_METATYPES):
            if not here or here % 8 or here >= _USER_LIMIT:
                break
            here = self.word(here + self.layout.object_type)
            if here == self.type_type:
                return
            if not self.word(here + self.layout.type_flags) & TYPE_SUBCLASS:
                break
        raise Torn("no type object")

    def same_file(self, address: int) -> bool:
        """Return whether `address` lies in the mapped file that holds `type`."""
        home, mapping = self._home, self.space.at(address)
        if home is None or mapping is None:
            return False
        if mapping.start == home.start:
            return True
        return bool(home.inode) and _file_of(mapping) == _file_of(home)

    def is_class(self, address: int) -> bool:
        """Return whether the object at `address` is a class."""
        return bool(self.type_of(address).flags & TYPE_SUBCLASS)

    def is_none(self, address: int) -> bool:
        """Return whether the object at `address` is None."""
        return self.type_of(address).exact == "NoneType"

    def require(self, address: int, base: str) -> TypeInfo:
        """Return the object's type if it is `base` or a subclass of it; Torn otherwise."""
        info = self.type_of(address)
        if base not in (info.base, info.exact):
            raise Torn(f"{info.name} instead of {base}")
        return info

    def length(self, address: int, limit: int = MAX_ITEMS) -> int:
        """Return `ob_size`; Unreadable when it is above `limit`."""
        count = self.signed(address + self.layout.var_size)
        if count < 0:
            raise Torn("a negative length")
        if count > limit:
            raise Unreadable(f"an object with {count} items")
        return count

    def text(self, address: int, limit: int = MAX_TEXT) -> str:
        """Return the whole string at `address`; Unreadable when it has more than `limit` chars."""
        text, length = self.text_start(address, limit)
        if length > limit:
            raise Unreadable(f"a string of {length} characters")
        return text

    def text_start(self, address: int, limit: int) -> tuple[str, int]:
        """Return the first `limit` characters of the string at `address`, and its length.

        Instances of subclasses keep their characters apart (Include/cpython/unicodeobject.h).
        """
        self.require(address, "str")
        length, width, start = self.text_shape(address)
        shown = min(length, limit)
        self.spend(shown >> 6)
        self._require_whole(start, length * width)
        raw = self.memory.read(start, shown * width) if shown else b""
        try:
            return raw.decode(_ENCODINGS[width], "surrogatepass"), length
        except UnicodeDecodeError as error:
            raise Torn("no characters") from error

    def text_shape(self, address: int) -> tuple[int, int, int]:
        """Return length, bytes per character and where the characters of a string start."""
        layout = self.layout
        length = self.signed(address + layout.str_length)
        state = int.from_bytes(self.memory.read(address + layout.str_state, 4), "little")
        width = state >> layout.str_kind_shift & 7
        if length < 0 or width not in _ENCODINGS:
            raise Torn("no string")
        if state >> layout.str_compact_bit & 1:
            ascii_only = state >> layout.str_ascii_bit & 1
            head = layout.str_ascii_size if ascii_only else layout.str_compact_size
            return length, width, address + head
        return length, width, self.word(address + layout.str_compact_size)

    def text_or_none(self, address: int) -> str | None:
        """Return the string at `address`; None for a null pointer or another type."""
        if not address or self.type_of(address).base != "str":
            return None
        return self.text(address)

    def bytes_start(self, address: int, limit: int) -> tuple[bytes, int]:
        """Return the first `limit` bytes of the bytes object at `address`, and its length."""
        self.require(address, "bytes")
        length = self.length(address, 1 << 40)
        start, shown = address + self.layout.bytes_data, min(length, limit)
        self._require_whole(start, length + 1)
        raw = self.memory.read(start, shown + 1)
        if shown == length and raw[-1]:
            raise Torn("bytes without their final NUL")
        return raw[:shown], length

    def _require_whole(self, start: int, size: int) -> None:
        """Raise Torn unless as much memory is there as an object claims to fill."""
        if size and not (size < _USER_LIMIT and self.space.readable_regular(start, size)):
            raise Torn("an object longer than the memory that it lies in")

    def integer(self, address: int) -> int:
        """Return the int (or bool) at `address`; Unreadable above 30,720 bits."""
        self.require(address, "int")
        layout = self.layout
        tag = self.signed(address + layout.long_tag)
        if layout.integer == "size":
            negative, count = tag < 0, abs(tag)
        else:  # longintrepr.h: two bits of sign (0 positive, 1 zero, 2 negative), one unused
            negative, count = tag & 3 == 2, (tag >> 3) & (1 << 61) - 1
            if tag & 3 == 1:
                return 0
        if count > MAX_DIGITS:
            raise Unreadable(f"a number of {count} digits of 30 bits")
        raw = self.memory.read(address + layout.long_digits, 4 * count) if count else b""
        digits: tuple[int, ...] = struct.unpack(f"<{count}I", raw)
        if any(digit >> _DIGIT_BITS for digit in digits):
            raise Torn("no digits")
        value = 0
        for digit in reversed(digits):
            value = value << _DIGIT_BITS | digit
        return -value if negative else value

    def number(self, address: int) -> float:
        """Return the float at `address`."""
        self.require(address, "float")
        raw = self.memory.read(address + self.layout.float_value, 8)
        found: float = struct.unpack("<d", raw)[0]
        return found

    def items(self, address: int, limit: int = MAX_ITEMS) -> tuple[int, ...]:
        """Return the addresses of the first `limit` members of a list or tuple."""
        info = self.type_of(address)
        count = min(self.length(address, 1 << 40), limit)
        if info.base == "tuple":
            start = address + self.layout.tuple_items
        elif info.base == "list":
            start = self.word(address + self.layout.list_items)
        else:
            raise Torn(f"{info.name} instead of a list or tuple")
        return self.memory.words(start, count) if count else ()

    def texts(self, address: int, limit: int) -> tuple[str, ...]:
        """Return the strings among the first `limit` members of a list or tuple."""
        found = (self.text_or_none(item) for item in self.items(address, limit))
        return tuple(text for text in found if text is not None)


def _file_of(mapping: Mapping) -> tuple[tuple[int, int], int]:
    return mapping.device, mapping.inode


def cstring(objects: Objects, address: int, limit: int = 256) -> str:
    """Return the C string at `address` as text; Torn when there is none."""
    try:
        return objects.memory.cstring(address, limit).decode("utf-8", "replace")
    except MemoryFault as fault:
        raise Torn("no name") from fault
