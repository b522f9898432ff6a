"""Measure where this very interpreter keeps what envprobe reads, and print it as JSON.

Run by the interpreter in question (`-I -S`), CPython 3.9 to 3.15 on 64-bit Linux, standard library
only. Each number is found by looking for something known (an address, a length, a C string) in the
memory of an object made for it; nothing here knows a structure's declaration. A number that cannot
be found, or that is found in two places, is left out and its name is listed under `missing`.

Output: one line, {"version": [major, minor, micro], "hexversion": N, "build": "release", "debug"
or "free-threaded" (with "-debug"), "image": path of the file that holds the interpreter, "forms":
{...}, "offsets": {...}, "missing": [...]}. An interpreter before 3.9 only says that it is too old.

It is one file, however long: its text is handed to the target's interpreter with `-c`, where
envprobe cannot be imported.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import json
import os
import struct
import sys
import sysconfig
import types
from typing import Any, Callable, Iterable, Optional

OLDEST = (3, 9)
if sys.version_info < OLDEST:  # what follows is not valid there
    said = [
        "CPython %d.%d is older than %d.%d, the first that is read"
        % (sys.version_info[:2] + OLDEST)
    ]
    print(json.dumps({"version": list(sys.version_info[:3]), "missing": said}))
    sys.exit()

WORD = 8
_MEMORY = os.open("/proc/self/mem", os.O_RDONLY)
Offsets = dict[str, int]
Forms = dict[str, str]


def read(address: int, size: int) -> bytes:
    """Return up to `size` bytes of this process; b"" where nothing can be read."""
    if not 0 < address < 1 << 63:
        return b""
    try:
        return os.pread(_MEMORY, size, address)
    except OSError:
        return b""


def word(address: int) -> int:
    """Return the word at `address`, 0 where nothing can be read."""
    data = read(address, WORD)
    return struct.unpack("<Q", data)[0] if len(data) == WORD else 0


def half_word(address: int) -> int:
    """Return the 32-bit number at `address`."""
    return struct.unpack("<I", read(address, 4))[0]


def words(address: int, size: int) -> tuple[int, ...]:
    """Return the words within `size` bytes, fewer where memory ends."""
    data = read(address, size)
    return struct.unpack("<%dQ" % (len(data) // WORD), data[: len(data) & ~7])


def text_at(address: int, limit: int = 256) -> bytes:
    """Return the C string at `address`."""
    return read(address, limit).split(b"\0", 1)[0]


class NotFound(Exception):  # noqa: N818 - an outcome of looking
    """A number was found nowhere, or in several places."""


def one(places: Iterable[Any], what: str = "") -> Any:
    """Return the only place, or give up."""
    found = sorted(set(places))
    if len(found) != 1:
        raise NotFound("%s: %s" % (what, found[:8]))
    return found[0]


def places_of(address: int, size: int, wanted: int) -> list[int]:
    """Return the offsets of the words within `size` bytes that equal `wanted`."""
    return [WORD * n for n, value in enumerate(words(address, size)) if value == wanted]


def place_of(thing: object, wanted: object, size: int = 0) -> int:
    """Return where the object `thing` holds the address of the object `wanted`."""
    return one(places_of(id(thing), size or sys.getsizeof(thing), id(wanted)), repr(wanted)[:40])


def pointing_to(address: int, size: int, test: Callable[[int], Any]) -> list[int]:
    """Return the offsets of words for whose value `test` holds."""
    return [WORD * n for n, value in enumerate(words(address, size)) if test(value)]


def everywhere(samples: Iterable[tuple[int, int, int]]) -> int:
    """Return the offsets that hold the wanted word in all of the (address, size, wanted)."""
    common: Optional[set[int]] = None
    for address, size, wanted in samples:
        found = set(places_of(address, size, wanted & (1 << 64) - 1))
        common = found if common is None else common & found
    return one(common or (), "common")


class Plain:
    """A class without anything."""


class Pair:
    """A class with two attributes."""

    def __init__(self, first: object, second: object) -> None:
        self.calibrated_first = first
        self.calibrated_second = second


class Text(str):
    """A subclass of str, whose instances keep their characters apart."""


class Call:
    """A class with a call slot."""

    def __call__(self) -> None:
        """Do nothing."""


def dict_of(kind: type) -> dict[str, Any]:
    """Return the dict behind a class's `__dict__`."""
    return gc.get_referents(kind.__dict__)[0]


def measure_object(out: Offsets) -> None:
    """Find the parts of every object."""
    sample = object()
    out["object_size"] = object.__basicsize__
    out["object_type"] = place_of(sample, object)
    block = bytes(range(1, 252)) * 19
    short = block[:77]
    out["var_size"] = everywhere([(id(block), 64, len(block)), (id(short), 64, len(short))])


def measure_numbers(out: Offsets, forms: Forms) -> None:
    """Find how int and float keep their values."""
    positive, negative = (1 << 64) + 5, -((1 << 64) + 5)
    base = out["object_size"]
    size = (positive.bit_length() + 29) // 30
    first = [struct.unpack("<q", read(id(n) + base, WORD))[0] for n in (positive, negative)]
    if first == [size, -size]:
        forms["integer"] = "size"
    elif first == [size << 3, size << 3 | 2]:
        forms["integer"] = "tag"
    else:
        raise NotFound("integer form %r" % first)
    out["long_tag"] = base
    digits = struct.pack("<3I", *[(positive >> 30 * n) & (1 << 30) - 1 for n in range(3)])
    out["long_digits"] = read(id(positive), 64).index(digits)
    out["float_value"] = read(id(_FLOAT), 64).index(struct.pack("<d", _FLOAT))


_FLOAT = 1234.5678e9


def measure_text(out: Offsets) -> None:
    """Find length, state and characters of strings of each width."""
    contents = ("a" * 0x1234, "\xe9" * 0x1235, "\u0113" * 0x1236, "\U0001f600" * 0x1237)
    texts = ["".join(list(text)) for text in contents]
    # Bits that no field uses keep what the memory held before: many samples tell them apart.
    # One-letter strings are part of the program, where such bits are 0.
    pool = [[text[0] * n for n in range(1, 300)] for text in contents]
    out["str_length"] = everywhere([(id(text), 32, len(text)) for text in texts])
    raw = [b"a" * 64, b"\xe9" * 64, b"\x13\x01" * 32, "\U0001f600".encode("utf-32-le") * 16]
    starts = [read(id(text), 256).index(data) for text, data in zip(texts, raw)]  # noqa: B905 - not in 3.9
    out["str_ascii_size"] = starts[0]
    out["str_compact_size"] = one(starts[1:], "compact size")
    loose = Text("a" * 0x1234)
    data = read(word(id(loose) + out["str_compact_size"]), 64)
    if data != raw[0]:
        raise NotFound("non-compact data")
    found = []
    for place in range(out["str_length"] + WORD, out["str_ascii_size"], 4):
        states = [half_word(id(text) + place) for text in texts]
        other = half_word(id(loose) + place)
        many = [[half_word(id(text) + place) for text in row] for row in pool]
        for shift in range(30):
            if [state >> shift & 7 for state in states] == [1, 1, 2, 4]:
                found.append((place, shift, *string_bits(many, other)))
    names = ("str_state", "str_kind_shift", "str_ascii_bit", "str_compact_bit")
    out.update(zip(names, one(found, "string state")))  # noqa: B905 - not in 3.9


def string_bits(many: list[list[int]], other: int) -> tuple[int, int]:
    """Return the bits for ASCII and for compact, from states by kind and one that is loose."""

    def always(bit: int, kinds: Iterable[int], value: int) -> bool:
        return all(state >> bit & 1 == value for kind in kinds for state in many[kind])

    ascii_bit = [b for b in range(32) if always(b, (0,), 1) and always(b, (1, 2, 3), 0)]
    compact = [b for b in range(32) if always(b, range(4), 1) and not other >> b & 1]
    return one(ascii_bit, "ascii"), one(compact, "compact")


def measure_sequences(out: Offsets) -> None:
    """Find the members of bytes, tuple and list."""
    items = tuple(object() for _ in range(5))
    out["bytes_data"] = read(id(_BYTES), 64).index(_BYTES)
    out["tuple_items"] = place_of(items, items[0], 128)
    listed = list(items)
    start = b"".join(struct.pack("<Q", id(item)) for item in items)
    out["list_items"] = one(
        pointing_to(id(listed), list.__basicsize__, lambda p: read(p, 40) == start)
    )
    for sample, name in ((items, "tuple_size"), (listed, "list_size"), (_BYTES, "bytes_size")):
        if word(id(sample) + out["var_size"]) != len(sample):
            raise NotFound(name)


_BYTES = b"calibrating 1"


def measure_types(out: Offsets) -> None:
    """Find the members of type objects."""
    size = type.__basicsize__
    attributes = {"slot%d" % n: None for n in range(13)}
    slotted = type("calibrated_name", (), {"__slots__": tuple(attributes)})
    slotted.__qualname__ = qualname = "".join(["calibrated", "_qualname"])
    out["type_name"] = one(
        pointing_to(id(slotted), size, lambda p: text_at(p) == b"calibrated_name"), "tp_name"
    )
    known = (slotted, Plain, Pair, int, str, dict, types.FunctionType, types.CodeType, type)
    for name, attribute in (
        ("type_basicsize", "__basicsize__"),
        ("type_flags", "__flags__"),
        ("type_dictoffset", "__dictoffset__"),
    ):
        out[name] = everywhere([(id(kind), size, getattr(kind, attribute)) for kind in known])
    out["type_dict"] = place_of(slotted, dict_of(slotted), size)
    out["type_mro"] = place_of(slotted, slotted.__mro__, size)
    out["type_members"] = one(
        pointing_to(id(types.CodeType), size, lambda p: text_at(word(p), 32) == b"co_argcount"),
        "tp_members",
    )
    get_slot = ctypes.pythonapi.PyType_GetSlot
    get_slot.restype, get_slot.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_int]
    out["type_call"] = one(places_of(id(Call), size, get_slot(Call, 50)), "tp_call")
    out["heaptype_qualname"] = place_of(slotted, qualname, size)


def key_words(address: int) -> tuple[int, ...]:
    """Return the words of a keys object, as many as belong to a dict of a few thousand."""
    return words(address, 1 << 18)


def measure_dicts(out: Offsets, forms: Forms) -> None:
    """Find the members of dicts and of their keys."""
    counts = (3, 40, 90, 200, 3000)
    texts = [
        {"calibrated %d of %d" % (n, count): object() for n in range(count)} for count in counts
    ]
    general = [{n + 10**9: object() for n in range(count)} for count in counts]
    base = dict.__basicsize__
    out["dict_used"] = everywhere([(id(d), base, len(d)) for d in texts + general])
    chosen = []
    for place in range(0, base, WORD):
        if all(_entries(word(id(d) + place), d) is not None for d in texts + general):
            chosen.append(place)
    out["dict_keys"] = one(chosen, "ma_keys")
    found = [(word(id(d) + out["dict_keys"]), d) for d in texts]
    other = [(word(id(d) + out["dict_keys"]), d) for d in general]
    rows = [(address, len(d), *_entries(address, d)) for address, d in found + other]
    forms["keys"] = "kinds" if rows[0][3] == 16 else "plain"
    if {row[3] for row in rows[len(found) :]} != {24}:
        raise NotFound("general entries")
    out["keys_used"] = everywhere([(address, 64, count) for address, count, _, _ in rows])
    fit = [_fit_size(rows, place, forms["keys"]) for place in range(0, 64)]
    out["keys_size"], out["keys_indices"] = one([pair for pair in fit if pair], "dk_size")
    if forms["keys"] == "kinds":
        out["keys_index_bytes"] = one(
            place
            for place in range(out["keys_indices"])
            if all(
                1 << read(address + place, 1)[0] == start - out["keys_indices"]
                for address, _, start, _ in rows
            )
        )
        out["keys_kind"] = one(
            place
            for place in range(out["keys_indices"])
            if all(
                read(address + place, 1)[0] == (1 if step == 16 else 0)
                for address, _, _, step in rows
            )
        )


def _entries(address: int, d: dict[Any, Any]) -> Optional[tuple[int, int]]:
    """Return where the entries of `d` start in its keys, and their size; None if not there."""
    block = key_words(address)
    keys = list(d)[:3]
    for place, value in enumerate(block):
        if value != id(keys[0]):
            continue
        for step in (2, 3):
            ahead = block[place : place + 3 * step : step]
            values = block[place + 1 : place + 1 + 3 * step : step]
            if list(ahead) == [id(k) for k in keys] and list(values) == [id(d[k]) for k in keys]:
                return WORD * (place - (step == 3)), WORD * step
    return None


def _fit_size(
    rows: list[tuple[int, int, int, int]], place: int, form: str
) -> Optional[tuple[int, int]]:
    """Return (place, where indices start) if `place` holds the number of slots in all keys."""
    starts = set()
    for address, count, start, _ in rows:
        if form == "plain":
            slots = word(address + place) if place % WORD == 0 else 0
        else:
            slots = 1 << min(read(address + place, 1)[0], 40)
        if slots < count or slots & slots - 1:
            return None
        width = 1 if slots <= 0xFF else 2 if slots <= 0xFFFF else 4
        starts.add(start - slots * width)
    only = starts.pop()
    return (place, only) if not starts and 8 < only < 64 else None


def measure_instances(out: Offsets, forms: Forms) -> None:
    """Find where instances keep their attributes."""
    size = type.__basicsize__
    first, second = object(), object()
    wanted = struct.pack("<2Q", id(first), id(second))
    bare, used = Pair(first, second), Pair(first, second)
    shown = used.__dict__
    starts = [
        (place, read(word(id(shown) + place), 64).index(wanted))
        for place in range(out["dict_keys"] + WORD, dict.__basicsize__, WORD)
        if wanted in read(word(id(shown) + place), 64)
    ]
    out["dict_values"], out["values_start"] = one(starts, "ma_values")
    keys = word(id(shown) + out["dict_keys"])
    out["heaptype_cached_keys"] = one(places_of(id(Pair), size, keys), "ht_cached_keys")
    body = read(id(bare), 128)
    before = words(id(bare) - 40, 40)
    if Pair.__dictoffset__ > 0:
        forms["instance"] = "pointer"
        return
    if id(shown) in words(id(used) - 40, 40):
        out["managed_dict"] = one(places_of(id(used) - 40, 40, id(shown))) - 40
    start = out["values_start"]
    if wanted in body[: out["object_size"] + 64]:
        forms["instance"] = "inline"
        if body.index(wanted) - start != Pair.__basicsize__:
            raise NotFound("inline values")
        return
    for place, value in enumerate(before):
        if read(value + start, 16) == wanted:
            forms["instance"] = "values"
            out["managed_values"] = WORD * place - 40
        elif value & 1 and read(value + 1 + start, 16) == wanted:
            forms["instance"] = "tagged"
            out["managed_dict"] = WORD * place - 40


def outer(first: object, second: object) -> Any:
    """Return a function with a closure."""

    def inner() -> tuple[object, object]:
        return first, second

    return inner


_SOURCE = "\n" * 54320 + "class C:\n    def calibrated_code(self): pass\n"


def measure_functions(out: Offsets) -> None:
    """Find the members of functions, their cells and their code."""
    function = outer(object(), object())
    function.__qualname__ = "".join(["calibrated", ".qualname"])
    function.__name__ = "".join(["calibrated", "_function"])
    function.__module__ = "".join(["calibrated", "_module"])
    function.mark = 1
    for name, wanted in (
        ("code", function.__code__),
        ("globals", function.__globals__),
        ("name", function.__name__),
        ("qualname", function.__qualname__),
        ("closure", function.__closure__),
        ("dict", function.__dict__),
        ("module", function.__module__),
    ):
        out["function_" + name] = place_of(function, wanted)
    cell = function.__closure__[0]
    out["cell_value"] = place_of(cell, cell.cell_contents)
    measure_code(out, function.__code__)


def measure_code(out: Offsets, closed: types.CodeType) -> None:
    """Find the members of code objects; `closed` has free variables."""
    space: dict[str, Any] = {}
    exec(compile(_SOURCE, "".join(["/calibrated/", "file"]), "exec"), space)
    code = space["C"].calibrated_code.__code__
    size = types.CodeType.__basicsize__ + 8
    out["code_filename"] = place_of(code, code.co_filename, size)
    out["code_name"] = place_of(code, code.co_name, size)
    if hasattr(code, "co_qualname"):
        out["code_qualname"] = place_of(code, code.co_qualname, size)
    numbers = struct.unpack("<%dI" % (size // 4), read(id(code), size))
    out["code_firstlineno"] = one(4 * n for n, value in enumerate(numbers) if value == 54322)
    names = [id(sys.intern(name)) for name in ("first", "second")]
    wanted = struct.pack("<2Q", *names)

    def holds(pointer: int) -> bool:
        is_tuple = word(pointer + out["object_type"]) == id(tuple)
        return is_tuple and read(pointer + out["tuple_items"], 16) == wanted

    found = one(pointing_to(id(closed), size, holds), "names of free variables")
    out["code_localsplusnames" if sys.version_info >= (3, 11) else "code_freevars"] = found


def measure_wrappers(out: Offsets) -> None:
    """Find what holds a callable."""
    holder = Call()
    method = holder.__call__
    out["method_function"] = place_of(method, Call.__call__)
    out["method_self"] = place_of(method, holder)
    function = outer(1, 2)
    out["staticmethod_callable"] = place_of(staticmethod(function), function, 64)
    out["classmethod_callable"] = place_of(classmethod(function), function, 64)
    other = outer(3, 4)
    out["property_get"] = place_of(property(function, other), function)
    out["property_set"] = place_of(property(function, other), other)
    out["partial_function"] = place_of(functools.partial(function), function)
    out["module_dict"] = place_of(_MODULE, _MODULE.__dict__)


_MODULE = types.ModuleType("calibrated_module")


def measure_builtins(out: Offsets) -> None:
    """Find the native code of functions and descriptors."""
    held: list[Any] = []
    append = held.append

    def defines(name: bytes) -> Callable[[int], bool]:
        return lambda pointer: text_at(word(pointer), 32) == name

    out["builtin_method"] = one(pointing_to(id(append), 64, defines(b"append")), "m_ml")
    out["builtin_self"] = place_of(append, held)
    out["builtin_module"] = place_of(len, len.__module__)
    described = list.append
    size = sys.getsizeof(described)
    out["descriptor_owner"] = place_of(described, list)
    out["descriptor_name"] = place_of(described, described.__name__)
    out["descriptor_method"] = one(pointing_to(id(described), size, defines(b"append")), "d_method")
    wrapper = int.__repr__
    size = sys.getsizeof(wrapper)
    slots = set(words(id(int), out["type_flags"]))
    out["wrapper_function"] = one(
        WORD * n
        for n, value in enumerate(words(id(wrapper), size))
        if value in slots and n > 1 and value not in (0, id(type), id(int)) and value > 1 << 16
    )
    sample = object()
    bound = sample.__repr__
    out["methodwrapper_descriptor"] = place_of(bound, object.__repr__)
    out["methodwrapper_self"] = place_of(bound, sample)
    out["descriptor_member"] = one(
        pointing_to(id(types.CodeType.co_argcount), 64, defines(b"co_argcount")), "d_member"
    )
    out["descriptor_getset"] = one(
        pointing_to(id(types.CodeType.co_code), 64, defines(b"co_code")), "d_getset"
    )


SPAN = 1 << 20


def main_interpreter() -> int:
    """Return the address of the state of this interpreter."""
    get = ctypes.pythonapi.PyInterpreterState_Get
    get.restype, get.argtypes = ctypes.c_void_p, []
    return get()


def runtime_address() -> int:
    """Return the address of `_PyRuntime`."""
    return ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))


def subinterpreters() -> list[Any]:
    """Make three interpreters more and return their numbers, which keep them alive."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            module = __import__(name)
        except ImportError:
            continue
        return [module.create() for _ in range(3)]
    raise NotFound("no module for sub-interpreters")


def whole(address: int) -> tuple[int, ...]:
    """Return the words of the interpreter's state; it is allocated, or part of `_PyRuntime`."""
    runtime = runtime_address()
    if runtime < address < runtime + SPAN:
        size = SPAN
    else:
        usable = ctypes.CDLL(None).malloc_usable_size
        usable.restype, usable.argtypes = ctypes.c_size_t, [ctypes.c_void_p]
        return words(address, usable(address))
    while size >= 4096:
        block = words(address, size)
        if block:
            return block
        size >>= 1
    return ()


def measure_runtime(out: Offsets) -> None:
    """Find the list of interpreters and the members of their state."""
    main = main_interpreter()
    runtime = runtime_address()
    block = whole(main)
    out["interpreter_modules"] = one(
        WORD * n for n, value in enumerate(block) if value == id(sys.modules)
    )
    out["interpreter_sysdict"] = one(
        WORD * n for n, value in enumerate(block) if value == id(sys.__dict__)
    )
    before = words(runtime, 4096)
    numbers = subinterpreters()
    after = words(runtime, 4096)
    heads = [n for n in range(len(after)) if before[n] == main and after[n] not in (main, 0)]
    out["runtime_interpreters_head"] = WORD * one(heads, "interpreters.head")
    newest = after[heads[0]]
    chains = []
    for place in range(0, 16384, WORD):
        chain = [newest]
        for _ in range(3):
            chain.append(word(chain[-1] + place))
        if chain[3] == main and len(set(chain)) == 4 and word(main + place) == 0:
            chains.append((place, chain))
    place = one((place for place, _ in chains), "next")
    out["interpreter_next"] = place
    chain = dict(chains)[place]
    wanted = [int(number) for number in reversed(numbers)] + [0]
    ids = [
        place
        for place in range(0, 16384, WORD)
        if [word(address + place) for address in chain] == wanted
    ]
    out["interpreter_id"] = one(ids, "id")
    if sys.version_info >= (3, 12):
        measure_static_types(out, main, block)


def measure_static_types(out: Offsets, main: int, block: tuple[int, ...]) -> None:
    """Since 3.12 the dicts of static types are kept by the interpreter, one row a type."""
    size = type.__basicsize__
    kinds = (object, type, int, str, list, tuple, bytes, float, set, BaseException, KeyError)
    rows = {}
    for kind in kinds:
        wanted = id(dict_of(kind))
        rows[kind] = one(WORD * n for n, value in enumerate(block) if value == wanted)
    based = type("Based", (Plain,), {})
    fits = set()
    for place in range(0, size, WORD):
        # The index replaces tp_subclasses, a dict in other types; version tags may count alike.
        if word(word(id(Plain) + place) + out["object_type"]) != id(dict):
            continue
        index = {kind: word(id(kind) + place) for kind in kinds}
        steps = {
            (rows[kind] - rows[object]) / (index[kind] - index[object])
            for kind in kinds
            if index[kind] != index[object]
        }
        if len(steps) == 1 and len(set(index.values())) == len(kinds) and max(index.values()) < 500:
            step = int(steps.pop())
            fits.add((place, step, rows[object] - step * (index[object] - 1)))
    place, step, first = one(fits, "static types")
    owner = one(
        (
            back
            for back in range(WORD, step, WORD)
            if all(word(main + rows[kind] - back) == id(kind) for kind in kinds)
        ),
        "owner of a row",
    )
    del based
    out["type_static_index"] = place
    out["static_types"] = first - owner
    out["static_type_size"] = step
    out["static_type_dict"] = owner
    if sys.version_info >= (3, 13):
        measure_extension_types(out, main)


def measure_extension_types(out: Offsets, main: int) -> None:
    """Since 3.13 so are those of static types in extension modules of CPython's own."""
    import datetime

    block = whole(main)
    starts = set()
    for kind in (datetime.date, datetime.datetime, datetime.timedelta, datetime.timezone):
        wanted = id(dict_of(kind))
        back = out["static_type_dict"]
        rows = [WORD * n - back for n, value in enumerate(block) if value == wanted]
        row = one(row for row in rows if word(main + row) == id(kind))
        number = word(id(kind) + out["type_static_index"]) - 1
        starts.add(row - number * out["static_type_size"])
    out["static_extension_types"] = one(starts, "extension types")


class AtExit:
    """Finds the word of `_PyRuntime` that turns from 0 to the thread that ends Python."""

    def __init__(self, result: dict[str, Any]) -> None:
        get = ctypes.pythonapi.PyThreadState_Get
        get.restype, get.argtypes = ctypes.c_void_p, []
        self.result = result
        self.get = get
        self.read = os.pread
        self.write = os.write
        self.dumps = json.dumps
        self.unpack = struct.unpack
        self.memory = _MEMORY
        self.runtime = runtime_address()
        self.before = words(self.runtime, 4096)

    def __del__(self) -> None:
        data = self.read(self.memory, 4096, self.runtime)
        after = self.unpack("<512Q", data)
        thread = self.get()
        found = [n for n in range(512) if self.before[n] == 0 and after[n] == thread]
        if len(found) == 1:
            self.result["offsets"]["runtime_finalizing"] = 8 * found[0]
        else:
            self.result["missing"].append("finalizing: %r" % found)
        self.write(1, (self.dumps(self.result) + "\n").encode())


def image() -> str:
    """Return the path of the file whose code is the interpreter's, "" if none is mapped."""
    address = ctypes.cast(ctypes.pythonapi.PyInterpreterState_Get, ctypes.c_void_p).value or 0
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.rstrip("\n").split(None, 5)
            start, end = (int(bound, 16) for bound in fields[0].split("-"))
            if start <= address < end and len(fields) == 6:
                return fields[5]
    return ""


def build() -> str:
    """Name the kind of this build."""
    kind = "free-threaded" if sysconfig.get_config_var("Py_GIL_DISABLED") else "release"
    if hasattr(sys, "gettotalrefcount"):
        kind = "debug" if kind == "release" else kind + "-debug"
    return kind


def main() -> dict[str, Any]:
    """Measure everything but what only the end of the interpreter shows."""
    out: Offsets = {}
    forms: Forms = {}
    missing: list[str] = []
    steps = (
        lambda: measure_object(out),
        lambda: measure_numbers(out, forms),
        lambda: measure_text(out),
        lambda: measure_sequences(out),
        lambda: measure_types(out),
        lambda: measure_dicts(out, forms),
        lambda: measure_instances(out, forms),
        lambda: measure_functions(out),
        lambda: measure_wrappers(out),
        lambda: measure_builtins(out),
        lambda: measure_runtime(out),
    )
    for step in steps:
        try:
            step()
        except (NotFound, KeyError, ValueError) as error:
            missing.append("%s: %s" % (step.__code__.co_names[0], error))
    return {
        "version": list(sys.version_info[:3]),
        "hexversion": sys.hexversion,
        "build": build(),
        "image": image(),
        "forms": forms,
        "offsets": out,
        "missing": missing,
    }


if __name__ == "__main__":
    _AT_EXIT = AtExit(main())
