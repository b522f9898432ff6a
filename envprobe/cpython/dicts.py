"""Dicts and the dicts of instances, in the shapes that CPython 3.9 to 3.15 give them.

A dict is a table of keys (Include/internal/pycore_dict.h; up to 3.10 Objects/dict-common.h) with
the values beside the keys, or, when instances of a class share the keys, in a vector of their own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from envprobe.cpython.faults import Torn, Unreadable
from envprobe.cpython.objects import INLINE_VALUES, MANAGED_DICT, Objects, TypeInfo
from envprobe.process.handle import MemoryFault

MAX_ENTRIES: Final = 1 << 20
MAX_NAME: Final = 1 << 12
_BLOCK: Final = 2048
_GENERAL, _UNICODE, _SPLIT = 0, 1, 2
_MAX_LOG2: Final = 40


class Table(NamedTuple):
    """A dict's entries: `used` of `step` bytes from `entries` on, the key at `key` in each.

    `values` is the address of the vector of values, 0 when each follows its key. `keys` is the
    address of the keys object. `guards` are words, (address, value), that change when the table is
    replaced by another.
    """

    keys: int
    entries: int
    used: int
    step: int
    key: int
    values: int
    guards: tuple[tuple[int, int], ...] = ()


class Held(NamedTuple):
    """An object and the address of the word that points to it."""

    value: int
    place: int


NOTHING: Final = Held(0, 0)
EMPTY: Final = Table(0, 0, 0, 16, 0, 0)


class Wanted:
    """A string to look for, prepared for comparison with many."""

    __slots__ = ("length", "raw", "text", "width")

    def __init__(self, text: str) -> None:
        self.text = text
        self.length = len(text)
        highest = max(map(ord, text), default=0)
        self.width = 1 if highest < 0x100 else 2 if highest < 0x10000 else 4
        encoding = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[self.width]
        self.raw = text.encode(encoding, "surrogatepass")


def table_of(objects: Objects, address: int) -> Table:
    """Return the entries of the dict at `address`; MemoryFault, Torn, Unreadable."""
    objects.require(address, "dict")
    layout = objects.layout
    keys = objects.word(address + layout.dict_keys)
    values = objects.word(address + layout.dict_values)
    table = keys_table(objects, keys, values + layout.values_start if values else 0)
    if table.used < objects.signed(address + layout.dict_used):
        # Up to 3.12 a dict shows its new keys while they are still empty (dictresize).
        raise Torn("a dict that is being resized")
    guards = ((address + layout.dict_keys, keys), (address + layout.dict_values, values))
    return table._replace(guards=guards)


def keys_table(objects: Objects, keys: int, values: int) -> Table:
    """Return the entries of a keys object, with `values` as their vector (0: beside the keys)."""
    if not keys or keys % 8:
        raise Torn("no keys")
    if objects.layout.keys == "plain":
        return _plain_table(objects, keys, values)
    layout = objects.layout
    head = objects.memory.read(keys, layout.keys_indices)
    log2_size, log2_bytes = head[layout.keys_size], head[layout.keys_index_bytes]
    kind = head[layout.keys_kind]
    count: int = struct.unpack_from("<q", head, layout.keys_used)[0]
    if log2_size > _MAX_LOG2 or not log2_size <= log2_bytes <= log2_size + 3:
        raise Torn("no keys")
    if kind > _SPLIT or (kind == _SPLIT) != bool(values):
        raise Torn("no keys")
    entries = keys + layout.keys_indices + (1 << log2_bytes)
    _check_count(count, 1 << log2_size)
    if kind == _GENERAL:
        return Table(keys, entries, count, 24, 8, values)
    return Table(keys, entries, count, 16, 0, values)


def _plain_table(objects: Objects, keys: int, values: int) -> Table:
    layout = objects.layout
    size = objects.signed(keys + layout.keys_size)
    count = objects.signed(keys + layout.keys_used)
    if not 0 < size <= 1 << _MAX_LOG2 or size & size - 1:
        raise Torn("no keys")
    _check_count(count, size)
    width = 1 if size <= 0xFF else 2 if size <= 0xFFFF else 4 if size <= 0xFFFFFFFF else 8
    return Table(keys, keys + layout.keys_indices + size * width, count, 24, 8, values)


def _check_count(count: int, size: int) -> None:
    if not 0 <= count <= size:
        raise Torn("no keys")
    if count > MAX_ENTRIES:
        raise Unreadable(f"a dict with {count} entries")


def blocks(
    objects: Objects, table: Table, start: int = 0
) -> Iterator[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    """Yield a number, and the addresses of the keys and the values of the entries from it on."""
    memory = objects.memory
    stride, first = table.step // 8, table.key // 8
    for number in range(start, table.used, _BLOCK):
        count = min(_BLOCK, table.used - number)
        objects.spend(count)
        raw = memory.words(table.entries + number * table.step, count * stride)
        keys = raw[first::stride]
        if table.values:
            values = memory.words(table.values + 8 * number, count)
        else:
            values = raw[first + 1 :: stride]
        yield number, keys, values


def pairs(objects: Objects, table: Table, start: int = 0) -> Iterator[tuple[int, int, int]]:
    """Yield the number, the key's and the value's address of each entry that holds a value."""
    for first, keys, values in blocks(objects, table, start):
        for number, (key, value) in enumerate(zip(keys, values, strict=True), first):
            if key and value:
                yield number, key, value


def find(objects: Objects, table: Table, name: str) -> int:
    """Return the address of the value under the string `name`, 0 if there is none."""
    return find_entry(objects, table, name).value


def find_entry(objects: Objects, table: Table, name: str) -> Held:
    """Return the value under the string `name` and the word that holds it, `NOTHING` if none.

    Most names are interned: the string that was found under this name before is looked for first.
    """
    wanted = Wanted(name)
    length, lengths = wanted.length, objects.lengths
    doubtful: set[int] = set()
    held = _known_entry(objects, table, wanted, doubtful)
    if held.value:
        return held
    for first, keys, values in blocks(objects, table):
        for number, (key, value) in enumerate(zip(keys, values, strict=True), first):
            if not key or not value or lengths.get(key, length) != length:
                continue
            if may_be(objects, key, wanted, doubtful):
                objects.names[name] = key
                return Held(value, value_place(table, number))
    check_absent(objects, table, doubtful)
    return NOTHING


def _known_entry(objects: Objects, table: Table, wanted: Wanted, doubtful: set[int]) -> Held:
    """Return the entry whose key is the string that was found under the name before."""
    known = objects.names.get(wanted.text, 0)
    if not known:
        return NOTHING
    for first, keys, values in blocks(objects, table):
        if known in keys and may_be(objects, known, wanted, doubtful):
            number = keys.index(known)
            if values[number]:
                return Held(values[number], value_place(table, first + number))
    return NOTHING


def value_place(table: Table, number: int) -> int:
    """Return the address of the word that holds the value of one entry."""
    if table.values:
        return table.values + 8 * number
    return table.entries + number * table.step + table.key + 8


def may_be(objects: Objects, key: int, wanted: Wanted, doubtful: set[int]) -> bool:
    """Return whether a key is the string; one that cannot be read is kept among the `doubtful`."""
    try:
        return is_text(objects, key, wanted)
    except (Torn, MemoryFault):
        doubtful.add(key)
        return False


def check_absent(objects: Objects, table: Table, doubtful: set[int]) -> None:
    """Raise Torn unless all keys were seen that the table holds.

    Until a table is replaced, entries are only added at its end, or emptied: what was not seen was
    not there. A table made later at the same address has other keys, or the same ones in other
    places. The `doubtful` are keys that were no strings when they were read: they must be gone now.
    """
    for address, value in table.guards:
        if objects.fresh_words(address, 1) != (value,):
            raise Torn("a dict that was resized meanwhile")
    stride, first = table.step // 8, table.key // 8
    for number, keys, _ in blocks(objects, table):
        raw = objects.fresh_words(table.entries + number * table.step, len(keys) * stride)
        now = raw[first::stride]
        if now == keys and not doubtful:
            continue
        for here, key in zip(now, keys, strict=True):
            if here and (here != key or key in doubtful):
                raise Torn("a dict that was resized meanwhile")


def is_text(objects: Objects, key: int, wanted: Wanted) -> bool:
    """Return whether the object at `key` is the string; Torn when it is no object."""
    head = objects.str_head
    kind, length = head.unpack(objects.memory.read(key, head.size))
    if kind != objects.str_type and objects.type_of(key).base != "str":
        return False
    objects.lengths[key] = length
    if length != wanted.length:
        return False
    length, width, start = objects.text_shape(key)
    if width != wanted.width:
        return False
    return not length or objects.memory.read(start, length * width) == wanted.raw


def get(objects: Objects, address: int, name: str) -> int:
    """Return the value under `name` in the dict at `address`, 0 if there is none."""
    return find(objects, table_of(objects, address), name)


def instance_table(objects: Objects, address: int, info: TypeInfo) -> Table:
    """Return the attributes of the object at `address`, `EMPTY` if it keeps none.

    `info` is its type. Include/internal/pycore_object.h, and PEP 412 for shared keys.
    """
    if info.base == "module":
        return _dict_at(objects, address + objects.layout.module_dict)
    if info.flags & MANAGED_DICT and objects.layout.instance != "pointer":
        return _managed_table(objects, address, info)
    if info.dictoffset > 0:
        return _dict_at(objects, address + info.dictoffset)
    if info.dictoffset < 0:
        raise Unreadable(f"attributes at the end of a {info.name} object")
    return EMPTY


def _dict_at(objects: Objects, place: int) -> Table:
    pointer = objects.word(place)
    return table_of(objects, pointer) if pointer else EMPTY


def _managed_table(objects: Objects, address: int, info: TypeInfo) -> Table:
    layout = objects.layout
    place = address + layout.managed_dict
    word = objects.word(place)
    if layout.instance == "values":
        vector = address + layout.managed_values
        values = objects.word(vector)
        if not values:
            return _dict_or_empty(objects, word)
        return _shared_table(objects, info, values, (vector, values))
    if layout.instance == "tagged":
        if not word & 1:
            return _dict_or_empty(objects, word)
        return _shared_table(objects, info, word + 1, (place, word))
    if word or not info.flags & INLINE_VALUES:
        return _dict_or_empty(objects, word)
    start = address + info.basicsize
    capacity, _, _, valid = objects.memory.read(start, 4)
    if not valid:
        return EMPTY._replace(guards=((place, word),))
    table = _shared_table(objects, info, start, (place, word))
    if table.used > capacity:
        raise Torn("more keys than values")
    return table


def _dict_or_empty(objects: Objects, pointer: int) -> Table:
    return table_of(objects, pointer) if pointer else EMPTY


def _shared_table(objects: Objects, info: TypeInfo, values: int, guard: tuple[int, int]) -> Table:
    place = info.address + objects.layout.heaptype_cached_keys
    keys = objects.word(place)
    table = keys_table(objects, keys, values + objects.layout.values_start)
    return table._replace(guards=(guard, (place, keys)))


def texts(objects: Objects, table: Table) -> Iterator[tuple[str, int]]:
    """Yield each key that is a string, up to `MAX_NAME` characters, with the value's address."""
    for _, key, value in pairs(objects, table):
        if objects.type_of(key).base == "str":
            text, length = objects.text_start(key, MAX_NAME)
            if length == len(text):
                yield text, value
