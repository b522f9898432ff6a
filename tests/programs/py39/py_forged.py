"""A Python process with damaged objects in a module `forged`; prints "ready", then waits.

Each attribute is well formed but for one thing, written over with ctypes. Offsets are those that
all builds with a GIL share, CPython 3.9 to 3.15 on 64-bit machines.
"""

import ctypes
import gc
import struct
import sys
import types

KEPT = []
FAR = 0x7FFF00000000
TYPE, SIZE, STATE = 8, 16, 32
DICT_KEYS, TYPE_NAME, TYPE_FLAGS, TYPE_MRO, TYPE_DICT = 32, 24, 168, 344, 264

forged = sys.modules["forged"] = types.ModuleType("forged")


def poke(address, value, form="<Q"):
    data = struct.pack(form, value)
    ctypes.memmove(address, data, len(data))


def copy_of(thing, size):
    """Return the address of a copy of an object's first bytes, in memory of its own."""
    block = ctypes.create_string_buffer(ctypes.string_at(id(thing), size) + bytes(64), size + 64)
    KEPT.append((block, thing))
    address = ctypes.addressof(block)
    poke(address, 1 << 30, "<Q")
    return address


def put(name, address):
    """Make the object at `address` an attribute of the module."""
    vars(forged)[name] = ctypes.cast(address, ctypes.py_object).value


def spoiled(name, thing, size, *pokes):
    """Put a copy of `thing` into the module, then write over it."""
    address = copy_of(thing, size)
    put(name, address)
    for place, value, form in pokes:
        poke(address + place, value, form)
    return address


class Plain:
    kept = 1

    def method(self):
        return self


def outer(first):
    def inner():
        return first

    return inner


def strings():
    text = "forged text"
    spoiled("text_long", text, 64, (SIZE, 1 << 60, "<Q"))
    spoiled("text_negative", text, 64, (SIZE, -5, "<q"))
    spoiled("text_kind", text, 64, (STATE, 0xFFFFFFFF, "<I"))
    spoiled("bytes_long", b"forged", 64, (SIZE, 1 << 59, "<Q"))
    spoiled("bytes_negative", b"forged", 64, (SIZE, -1, "<q"))


def numbers():
    spoiled("int_long", 1 << 100, 48, (SIZE, 1 << 50, "<Q"))
    spoiled("int_digits", 1 << 100, 48, (24, 0xFFFFFFFF, "<I"))


def sequences():
    spoiled("tuple_long", (1, 2, 3), 64, (SIZE, 1 << 58, "<Q"))
    spoiled("tuple_negative", (1, 2, 3), 64, (SIZE, -3, "<q"))
    spoiled("list_far", [1, 2, 3], 40, (24, FAR, "<Q"))
    spoiled("list_odd", [1, 2, 3], 40, (24, 3, "<Q"))
    wide = [None] * 1000
    for _ in range(5):
        wide = [wide] * 1000
    forged.list_wide = wide
    around = []
    around.append(around)
    forged.list_around = around


def dicts():
    sample = {"a": 1, "b": 2}
    for name, keys in (("far", FAR), ("null", 0), ("odd", 12345), ("high", (1 << 64) - 8)):
        spoiled("dict_" + name, sample, 48, (DICT_KEYS, keys, "<Q"))
    for name, filling in (("zeros", 0), ("ones", 255), ("sevens", 7)):
        block = ctypes.create_string_buffer(bytes([filling]) * 4096, 4096)
        KEPT.append(block)
        keys = ctypes.addressof(block) + 7 & ~7
        spoiled("dict_" + name, sample, 48, (DICT_KEYS, keys, "<Q"))
    for number in range(64):
        source = ctypes.c_uint64.from_address(id(sample) + DICT_KEYS).value
        block = ctypes.create_string_buffer(ctypes.string_at(source, 128), 128)
        KEPT.append(block)
        poke(ctypes.addressof(block) + number, 0xFF, "<B")
        spoiled("dict_byte_%d" % number, sample, 48, (DICT_KEYS, ctypes.addressof(block), "<Q"))


def kinds():
    poke(spoiled("type_self", Plain(), 48) + TYPE, 0)
    loop = spoiled("type_loop", Plain(), 48)
    poke(loop + TYPE, loop)
    for name, kind in (("far", FAR), ("odd", 7), ("high", (1 << 64) - 8), ("text", id("text"))):
        spoiled("type_" + name, Plain(), 48, (TYPE, kind, "<Q"))
    size = type.__basicsize__ + 64
    for name, place, value in (
        ("name", TYPE_NAME, FAR),
        ("mro", TYPE_MRO, FAR),
        ("mro_text", TYPE_MRO, id("text")),
        ("mro_null", TYPE_MRO, 0),
        ("dict", TYPE_DICT, FAR),
        ("dict_text", TYPE_DICT, id("text")),
    ):
        spoiled("class_" + name, Plain, size, (place, value, "<Q"))
    itself = spoiled("class_mro_itself", Plain, size)
    order = copy_of(tuple(range(100)), sys.getsizeof(tuple(range(100))))
    start = tuple.__basicsize__
    for number in range(100):
        poke(order + start + 8 * number, itself)
    poke(itself + TYPE_MRO, order)


def callables():
    function = outer(outer)
    words = struct.unpack("<20Q", ctypes.string_at(id(function), 160))
    for name, wanted in (
        ("code", id(function.__code__)),
        ("closure", id(function.__closure__)),
        ("globals", id(function.__globals__)),
    ):
        place = 8 * words.index(wanted)
        for kind, value in (("far", FAR), ("text", id("text")), ("null", 0)):
            spoiled("function_%s_%s" % (name, kind), function, 160, (place, value, "<Q"))
    around = spoiled("static_itself", staticmethod(function), 64)
    poke(around + 16, around)
    forged.wrapped_itself = wrapped = outer(1)
    wrapped.__wrapped__ = wrapped
    forged.wrapped_deeply = chain = outer(1)
    for _ in range(5000):
        following = outer(1)
        chain.__wrapped__ = following
        chain = following
    spoiled("builtin_far", len, 64, (16, FAR, "<Q"))
    spoiled("builtin_odd", len, 64, (16, id("text"), "<Q"))


def main():
    gc.disable()
    forged.honest = {"value": [1, 2, 3]}
    forged.Honest = Plain
    forged.names = []
    for make in (strings, numbers, sequences, dicts, kinds, callables):
        make()
    forged.names = [name for name in vars(forged) if not name.startswith("__")]
    sys.stdout.write("ready " + " ".join(forged.names) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


main()
