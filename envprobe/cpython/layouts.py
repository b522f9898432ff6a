"""Where each build of CPython keeps what is read: data with provenance, and how one is chosen.

The files `data/layouts/X.Y.json` are written by `scripts/gen_layouts.py`. From 3.13 on the target
itself carries a table (`_Py_DebugOffsets`, Include/internal/pycore_debug_offsets.h), which comes
first for what it covers; it is the target's word, so each number is checked for its range, and
nothing read with a layout is believed before `runtime` has verified it.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from envprobe import tables

FIRST: Final = (3, 9)
LAST: Final = (3, 15)
FIRST_WITH_TABLE: Final = (3, 13)
COOKIE: Final = b"xdebugpy"
COOKIE_HEAD: Final = struct.Struct("<8sQQ")

_MAX_STATE: Final = 1 << 22
_MAX_OBJECT: Final = 4096
_LARGE: Final = ("runtime_", "interpreter_", "static_")


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """The offsets, in bytes, of one build; a name that a version lacks is 0.

    `keys`: "plain" (entries of hash, key, value; up to 3.10) or "kinds". `integer`: "size" (signed
    number of digits; up to 3.11) or "tag". `instance`, where an object's own dict is: "pointer" (up
    to 3.10), "values" (3.11), "tagged" (3.12), "inline" (from 3.13).
    """

    minor: tuple[int, int]
    build: str
    source: str
    keys: str
    integer: str
    instance: str
    builtin_method: int
    builtin_module: int
    builtin_self: int
    bytes_data: int
    cell_value: int
    classmethod_callable: int
    code_filename: int
    code_firstlineno: int
    code_name: int
    descriptor_getset: int
    descriptor_member: int
    descriptor_method: int
    descriptor_name: int
    descriptor_owner: int
    dict_keys: int
    dict_used: int
    dict_values: int
    float_value: int
    function_closure: int
    function_code: int
    function_dict: int
    function_globals: int
    function_module: int
    function_name: int
    function_qualname: int
    heaptype_cached_keys: int
    heaptype_qualname: int
    interpreter_id: int
    interpreter_modules: int
    interpreter_next: int
    interpreter_sysdict: int
    keys_indices: int
    keys_size: int
    keys_used: int
    list_items: int
    long_digits: int
    long_tag: int
    method_function: int
    method_self: int
    methodwrapper_descriptor: int
    methodwrapper_self: int
    module_dict: int
    object_size: int
    object_type: int
    partial_function: int
    property_get: int
    property_set: int
    runtime_finalizing: int
    runtime_interpreters_head: int
    staticmethod_callable: int
    str_ascii_bit: int
    str_ascii_size: int
    str_compact_bit: int
    str_compact_size: int
    str_kind_shift: int
    str_length: int
    str_state: int
    tuple_items: int
    type_basicsize: int
    type_call: int
    type_dict: int
    type_dictoffset: int
    type_flags: int
    type_members: int
    type_mro: int
    type_name: int
    values_start: int
    var_size: int
    wrapper_function: int
    code_freevars: int = 0
    code_localsplusnames: int = 0
    code_qualname: int = 0
    keys_index_bytes: int = 0
    keys_kind: int = 0
    managed_dict: int = 0
    managed_values: int = 0
    static_extension_types: int = 0
    static_type_dict: int = 0
    static_type_size: int = 0
    static_types: int = 0
    type_static_index: int = 0


def plausible(layout: Layout) -> bool:
    """Return whether the parts that a target's table may set stand in a possible order."""
    head = layout.object_type + 8
    after_head = (layout.str_length, layout.dict_keys, layout.long_tag, layout.type_flags)
    return (
        head <= layout.object_size
        and min(after_head) >= head
        and layout.str_length < layout.str_state < layout.str_ascii_size
        and layout.str_ascii_size < layout.str_compact_size
        and layout.long_tag < layout.long_digits
        and max(layout.keys_used + 8, layout.keys_kind + 1) <= layout.keys_indices
        and min(layout.str_kind_shift, layout.str_ascii_bit, layout.str_compact_bit) >= 0
    )


class DebugTable(NamedTuple):
    """The head of a target's `_Py_DebugOffsets`: `hexversion` is PY_VERSION_HEX."""

    hexversion: int
    free_threaded: bool

    @property
    def minor(self) -> tuple[int, int]:
        """The version's first two numbers."""
        return minor_of(self.hexversion)

    @classmethod
    def parse(cls, raw: bytes) -> DebugTable | None:
        """Return the head of the table at the start of `_PyRuntime`, None if there is none."""
        if len(raw) < COOKIE_HEAD.size:
            return None
        cookie, version, free_threaded = COOKIE_HEAD.unpack_from(raw)
        if cookie != COOKIE or version >> 32 or free_threaded > 1:
            return None
        return cls(version, bool(free_threaded))


def minor_of(hexversion: int) -> tuple[int, int]:
    """Return (3, 11) for PY_VERSION_HEX 0x030b07f0."""
    return hexversion >> 24 & 255, hexversion >> 16 & 255


def known(minor: tuple[int, int]) -> bool:
    """Return whether there is a file for this version."""
    return FIRST <= minor <= LAST


def table_size(minor: tuple[int, int]) -> int:
    """Return how many bytes of `_Py_DebugOffsets` this version has, 0 for none."""
    size: int = _file(minor)["table"].get("size", 0)
    return size


def _file(minor: tuple[int, int]) -> dict[str, Any]:
    loaded: dict[str, Any] = tables.load(f"layouts/{minor[0]}.{minor[1]}")
    return loaded


def candidates(
    minor: tuple[int, int], *, table: bytes = b"", free_threaded: bool = False
) -> Iterator[Layout]:
    """Yield the layouts to try for a version, the likeliest first.

    `table` is the target's own `_Py_DebugOffsets`, b"" for none.
    """
    contents = _file(minor)
    builds: dict[str, dict[str, int]] = contents["builds"]
    for build, changes in builds.items():
        if build.startswith("free-threaded") != free_threaded:
            continue
        offsets = {**builds["release"], **changes}
        said = _said_by(table, contents["table"], offsets)
        if said:
            yield _layout(contents, build, {**offsets, **said}, "its own table")
        yield _layout(contents, build, offsets, "known offsets")


def _layout(
    contents: Mapping[str, Any], build: str, offsets: Mapping[str, int], source: str
) -> Layout:
    major, _, minor = contents["version"].partition(".")
    forms: dict[str, str] = contents["forms"]
    fields: dict[str, Any] = {**forms, **offsets}
    return Layout(minor=(int(major), int(minor)), build=build, source=source, **fields)


def calibrated(report: Mapping[str, Any]) -> Layout:
    """Return the layout that `payload/calibrate.py` printed for an interpreter.

    The report comes from a process that ran the target's own program: ValueError when it is not
    complete or holds what cannot be an offset. A verified target is still needed to believe it.
    """
    try:
        major, minor, _ = report["version"]
        build, forms, offsets = report["build"], report["forms"], report["offsets"]
        numbers = {name: int(value) for name, value in offsets.items()}
        if report["missing"] or any(abs(value) >= _MAX_STATE for value in numbers.values()):
            raise ValueError("the calibration is not complete")
        fields: dict[str, Any] = {**{name: str(form) for name, form in forms.items()}, **numbers}
        return Layout(minor=(major, minor), build=str(build), source="calibration", **fields)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"no calibration: {error}") from error


def _said_by(table: bytes, places: Mapping[str, int], known: Mapping[str, int]) -> dict[str, int]:
    """Return what the target's table says; {} if any number of it cannot be an offset."""
    said: dict[str, int] = {}
    for name in places.keys() & known.keys():
        place = places[name]
        if place + 8 > len(table):
            return {}
        value = int.from_bytes(table[place : place + 8], "little")
        if value >= (_MAX_STATE if name.startswith(_LARGE) else _MAX_OBJECT):
            return {}
        said[name] = value
    return said
