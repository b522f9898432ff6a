"""Every decoder on memory that is no Python: bounded, and no exceptions but its own."""

from __future__ import annotations

import dataclasses
import random
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envprobe.cpython import dicts, environ, layouts, runtime
from envprobe.cpython.callables import Callables
from envprobe.cpython.describe import Describer
from envprobe.cpython.faults import CannotAttach, Torn, Unreadable
from envprobe.cpython.layouts import Layout
from envprobe.cpython.metered import Metered
from envprobe.cpython.objects import SUBCLASS_BITS, Objects
from envprobe.cpython.query import Query, Questions
from envprobe.cpython.sites import Site
from envprobe.cpython.types import Classes
from envprobe.cpython.values import Values
from envprobe.process.checked import CheckedMemory
from envprobe.process.handle import MemoryFault
from envprobe.process.maps import Mapping

BASE = 0x7F0000000000
SIZE = 1 << 16
OWN = (MemoryFault, Torn, Unreadable)
MINORS = [(3, minor) for minor in range(9, 16)]
KINDS = (
    *("type", "object", "NoneType", "bool", "int", "float", "str", "bytes", "tuple", "list"),
    *("dict", "module", "function", "code", "cell", "method", "staticmethod", "classmethod"),
    *("property", "builtin_function_or_method", "method_descriptor", "wrapper_descriptor"),
    *("member_descriptor", "getset_descriptor", "method-wrapper", "lazy_import"),
)


class FakeMemory:
    """One block of memory at BASE; counts how much of it is read."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.reads = 0

    def read_some(self, address: int, size: int) -> bytes:
        self.reads += 1
        start = address - BASE
        if not 0 <= start < len(self.content):
            raise MemoryFault(address)
        return self.content[start : start + size]


class FakeSpace:
    """Says that the block is one mapped file."""

    mapping = Mapping(BASE, BASE + SIZE, "rw-p", 0, (8, 1), 7, "/usr/lib/libpython.so", False)

    def at(self, address: int) -> Mapping | None:
        return self.mapping if BASE <= address < BASE + SIZE else None

    def regular_end(self, address: int, size: int) -> int:
        return min(address + size, BASE + SIZE) if BASE <= address < BASE + SIZE else address

    def readable_regular(self, address: int, size: int) -> bool:
        return self.regular_end(address, size) >= address + size

    def mappings(self) -> list[Mapping]:
        return [self.mapping]


def fill(seed: int, layout: Layout) -> tuple[bytes, dict[str, int]]:
    """Return memory in which half the words are addresses of objects, and where the types are.

    The types are sound, so that decoders get past their first check; all else is left to chance.
    """
    chance = random.Random(seed)
    content = bytearray(SIZE)
    span = 1024
    kinds = {name: BASE + SIZE // 2 + span * number for number, name in enumerate(KINDS)}
    targets = list(kinds.values())
    for place in range(0, SIZE, 8):
        struct.pack_into("<Q", content, place, _word(chance, targets))
    for place in range(0, SIZE // 2, 64):  # objects of all kinds
        kind = chance.choice(targets)
        struct.pack_into("<Q", content, place + layout.object_type, kind)
        struct.pack_into("<q", content, place + layout.var_size, chance.choice((0, 1, 2, 5, 40)))
    bits = dict(SUBCLASS_BITS)
    for number, (name, address) in enumerate(kinds.items()):
        start, text = address - BASE, SIZE - 32 * (number + 1)
        content[text : text + len(name) + 1] = name.encode() + b"\0"
        flags = bits.get(name, 0) | (chance.random() < 0.1) << 9
        for place, value in (
            (layout.object_type, kinds["type"]),
            (layout.type_name, BASE + text),
            (layout.type_flags, flags),
            (layout.type_basicsize, chance.choice((16, 24, 64))),
            (layout.type_dictoffset, chance.choice((0, 0, 16, 24))),
        ):
            struct.pack_into("<Q", content, start + place, value)
    return bytes(content), kinds


def _word(chance: random.Random, targets: list[int]) -> int:
    choice = chance.random()
    if choice < 0.5:
        return BASE + 64 * chance.randrange(SIZE // 128)
    if choice < 0.6:
        return chance.choice(targets)
    if choice < 0.8:
        return chance.choice((0, 1, 2, 3, 8, 16, 24))
    if choice < 0.9:
        return chance.choice((BASE + SIZE - 1, (1 << 64) - 8, 1 << 63, BASE + 3))
    return chance.getrandbits(64)


def decoders(objects: Objects) -> dict[str, Callable[[int], Any]]:
    """Return every way to read an object, by name."""
    classes = Classes(objects, BASE)
    describer = Describer(objects, classes, BASE + 64)
    callables = Callables(objects, classes, describer, BASE + 64)
    questions = Questions(objects, classes, BASE + 64)

    def ask(address: int) -> object:
        del address
        query = Query.parse("sys:flags.value")
        return questions.answer(query, questions.walk(query))

    return {
        "text": objects.text,
        "text_or_none": objects.text_or_none,
        "bytes": lambda address: objects.bytes_start(address, 100),
        "integer": objects.integer,
        "number": objects.number,
        "items": lambda address: objects.items(address, 100),
        "texts": lambda address: objects.texts(address, 100),
        "get": lambda address: dicts.get(objects, address, "name"),
        "pairs": lambda address: list(dicts.pairs(objects, dicts.table_of(objects, address))),
        "instance": lambda a: dicts.instance_table(objects, a, objects.type_of(a)),
        "mro": classes.mro,
        "attribute": lambda address: classes.find(address, "name"),
        "qualname": classes.qualname,
        "full_name": classes.full_name,
        "module": describer.module,
        "class": describer.klass,
        "callable": callables.describe,
        "is_callable": callables.is_callable,
        "value": Values(objects, classes).decode,
        "environ": lambda address: environ.read(objects, address, lambda name: True),
        "question": ask,
        "names": lambda address: questions.module_names(),
        "files": lambda address: questions.module_files(),
    }


def reader_of(content: bytes, layout: Layout, type_type: int) -> tuple[Objects, Metered]:
    meter = Metered(FakeMemory(content), 8 << 20)
    memory = CheckedMemory(meter, FakeSpace())
    objects = Objects(memory, FakeSpace(), layout, type_type)  # type: ignore[arg-type]
    objects.left = 100_000
    return objects, meter


@pytest.mark.parametrize("minor", MINORS, ids=lambda minor: f"3.{minor[1]}")
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_decoders_on_random_objects(minor: tuple[int, int], seed: int) -> None:
    for layout in layouts.candidates(minor):
        content, kinds = fill(seed, layout)
        objects, _ = reader_of(content, layout, kinds["type"])
        for decode in decoders(objects).values():
            for address in range(BASE, BASE + 64 * 16, 64):
                objects.left = 100_000
                try:
                    decode(address)
                except OWN:
                    continue


@given(content=st.binary(min_size=64, max_size=256), address=st.integers(-8, 1 << 64))
@settings(max_examples=50, deadline=None)
def test_decoders_on_any_bytes(content: bytes, address: int) -> None:
    for minor in ((3, 9), (3, 11), (3, 12), (3, 13)):
        layout = next(layouts.candidates(minor))
        objects, _ = reader_of(content * (SIZE // len(content)), layout, BASE)
        for name, decode in decoders(objects).items():
            if name in ("question", "names", "files"):
                continue
            try:
                found = decode(address)
            except OWN:
                continue
            assert (name, found) == ("text_or_none", None)


def test_random_objects_are_decoded_at_all() -> None:
    """The property test would show nothing if no decoder got past its first check."""
    decoded: set[str] = set()
    for minor in MINORS:
        layout = next(layouts.candidates(minor))
        for seed in range(40):
            content, kinds = fill(seed, layout)
            objects, _ = reader_of(content, layout, kinds["type"])
            for name, decode in decoders(objects).items():
                for address in range(BASE, BASE + 64 * 40, 64):
                    objects.left = 100_000
                    try:
                        decode(address)
                    except OWN:
                        continue
                    decoded.add(name)
    assert {"text_or_none", "items", "integer", "number", "value", "is_callable"} <= decoded
    assert {"callable", "instance", "qualname", "module"} <= decoded


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_no_layout_fits_random_memory(seed: int) -> None:
    for minor in MINORS:
        for layout in layouts.candidates(minor):
            content, _ = fill(seed, layout)
            memory = CheckedMemory(Metered(FakeMemory(content), 8 << 20), FakeSpace())
            site = Site(BASE, "libpython.so", None, None)
            with pytest.raises((*OWN, CannotAttach)):
                runtime.verify(memory, FakeSpace(), site, layout)  # type: ignore[arg-type]


def test_the_read_budget_holds() -> None:
    layout = next(layouts.candidates((3, 11)))
    content, kinds = fill(1, layout)
    objects, meter = reader_of(content, layout, kinds["type"])
    meter.left = 4096

    def read_all() -> None:
        for address in range(BASE, BASE + SIZE, 4096):
            objects.word(address)

    with pytest.raises(Unreadable, match="reads"):
        read_all()


def test_the_work_budget_holds() -> None:
    layout = next(layouts.candidates((3, 11)))
    content, kinds = fill(1, layout)
    objects, _ = reader_of(content, layout, kinds["type"])
    table = dicts.Table(BASE, BASE, 500, 24, 8, 0)
    objects.left = 400
    with pytest.raises(Unreadable, match="steps"):
        list(dicts.pairs(objects, table))


def test_strings_of_every_width() -> None:
    """A wanted name is compared in the width that CPython gives it."""
    for text, width in (("", 1), ("a\xff", 1), ("a\u0100", 2), ("\udc80", 2), ("a\U00010000", 4)):
        wanted = dicts.Wanted(text)
        assert (wanted.width, wanted.length) == (width, len(text))
        assert len(wanted.raw) == width * len(text)


def test_layouts_are_immutable() -> None:
    layout = next(layouts.candidates((3, 11)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        layout.dict_keys = 0  # type: ignore[misc]
