"""The independent witness for `gen_layouts.py`: what a C compiler and a debugger say of offsets.

`headers` compiles `offsetof` against an interpreter's own headers (Include/internal too) with gcc;
`debug_information` asks gdb about the structures that are declared in CPython's .c files only.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

TIMEOUT_S: Final = 120.0
FIRST: Final = (3, 9)
LAST: Final = (3, 99)

INCLUDES: Final = (
    ("internal/pycore_runtime.h", FIRST),
    ("internal/pycore_interp.h", FIRST),
    ("internal/pycore_pystate.h", FIRST),
    ("internal/pycore_moduleobject.h", (3, 11)),
    ("internal/pycore_dict.h", (3, 11)),
    ("internal/pycore_typeobject.h", (3, 12)),
    ("internal/pycore_descrobject.h", (3, 12)),
)


class Row(NamedTuple):
    """One number of a layout as a C expression, for the minor versions `since` to `until`."""

    name: str
    expression: str
    since: tuple[int, int] = FIRST
    until: tuple[int, int] = LAST


def _offsets(kind: str, members: Mapping[str, str]) -> list[Row]:
    return [Row(name, f"offsetof({kind}, {member})") for name, member in members.items()]


HEADER_ROWS: Final = (
    Row("object_size", "sizeof(PyObject)"),
    Row("object_type", "offsetof(PyObject, ob_type)"),
    Row("var_size", "offsetof(PyVarObject, ob_size)"),
    Row("long_tag", "offsetof(PyLongObject, ob_base.ob_size)", until=(3, 11)),
    Row("long_tag", "offsetof(PyLongObject, long_value.lv_tag)", (3, 12)),
    Row("long_digits", "offsetof(PyLongObject, ob_digit)", until=(3, 11)),
    Row("long_digits", "offsetof(PyLongObject, long_value.ob_digit)", (3, 12)),
    Row("float_value", "offsetof(PyFloatObject, ob_fval)"),
    Row("str_length", "offsetof(PyASCIIObject, length)"),
    Row("str_ascii_size", "sizeof(PyASCIIObject)"),
    Row("str_compact_size", "sizeof(PyCompactUnicodeObject)"),
    Row("str_state", "offsetof(PyASCIIObject, state)"),
    Row("str_kind_shift", "first_bit(kind)"),
    Row("str_ascii_bit", "first_bit(ascii)"),
    Row("str_compact_bit", "first_bit(compact)"),
    Row("bytes_data", "offsetof(PyBytesObject, ob_sval)"),
    Row("tuple_items", "offsetof(PyTupleObject, ob_item)"),
    Row("list_items", "offsetof(PyListObject, ob_item)"),
    *_offsets(
        "PyTypeObject",
        {
            "type_name": "tp_name",
            "type_basicsize": "tp_basicsize",
            "type_flags": "tp_flags",
            "type_dictoffset": "tp_dictoffset",
            "type_dict": "tp_dict",
            "type_mro": "tp_mro",
            "type_members": "tp_members",
            "type_call": "tp_call",
        },
    ),
    Row("type_static_index", "offsetof(PyTypeObject, tp_subclasses)", (3, 12)),
    Row("heaptype_qualname", "offsetof(PyHeapTypeObject, ht_qualname)"),
    Row("heaptype_cached_keys", "offsetof(PyHeapTypeObject, ht_cached_keys)"),
    *_offsets(
        "PyDictObject",
        {"dict_used": "ma_used", "dict_keys": "ma_keys", "dict_values": "ma_values"},
    ),
    Row("keys_used", "offsetof(PyDictKeysObject, dk_nentries)", (3, 11)),
    Row("keys_size", "offsetof(PyDictKeysObject, dk_log2_size)", (3, 11)),
    Row("keys_index_bytes", "offsetof(PyDictKeysObject, dk_log2_index_bytes)", (3, 11)),
    Row("keys_kind", "offsetof(PyDictKeysObject, dk_kind)", (3, 11)),
    Row("keys_indices", "offsetof(PyDictKeysObject, dk_indices)", (3, 11)),
    Row("values_start", "0", until=(3, 10)),
    Row("values_start", "offsetof(struct _dictvalues, values)", (3, 11)),
    Row("managed_dict", "-3 * (int)sizeof(PyObject *)", (3, 11), (3, 12)),
    Row("managed_dict", "MANAGED_DICT_OFFSET", (3, 13)),
    Row("managed_values", "-4 * (int)sizeof(PyObject *)", (3, 11), (3, 11)),
    *_offsets(
        "PyFunctionObject",
        {
            "function_code": "func_code",
            "function_globals": "func_globals",
            "function_name": "func_name",
            "function_qualname": "func_qualname",
            "function_closure": "func_closure",
            "function_dict": "func_dict",
            "function_module": "func_module",
        },
    ),
    Row("cell_value", "offsetof(PyCellObject, ob_ref)"),
    *_offsets(
        "PyCodeObject",
        {
            "code_filename": "co_filename",
            "code_name": "co_name",
            "code_firstlineno": "co_firstlineno",
        },
    ),
    Row("code_qualname", "offsetof(PyCodeObject, co_qualname)", (3, 11)),
    Row("code_freevars", "offsetof(PyCodeObject, co_freevars)", until=(3, 10)),
    Row("code_localsplusnames", "offsetof(PyCodeObject, co_localsplusnames)", (3, 11)),
    Row("method_function", "offsetof(PyMethodObject, im_func)"),
    Row("method_self", "offsetof(PyMethodObject, im_self)"),
    Row("property_get", "offsetof(propertyobject, prop_get)", (3, 12)),
    Row("property_set", "offsetof(propertyobject, prop_set)", (3, 12)),
    Row("module_dict", "offsetof(PyModuleObject, md_dict)", (3, 11)),
    *_offsets(
        "PyCFunctionObject",
        {"builtin_method": "m_ml", "builtin_self": "m_self", "builtin_module": "m_module"},
    ),
    Row("descriptor_owner", "offsetof(PyDescrObject, d_type)"),
    Row("descriptor_name", "offsetof(PyDescrObject, d_name)"),
    Row("descriptor_method", "offsetof(PyMethodDescrObject, d_method)"),
    Row("wrapper_function", "offsetof(PyWrapperDescrObject, d_wrapped)"),
    Row("descriptor_member", "offsetof(PyMemberDescrObject, d_member)"),
    Row("descriptor_getset", "offsetof(PyGetSetDescrObject, d_getset)"),
    Row("interpreter_modules", "offsetof(PyInterpreterState, modules)", until=(3, 11)),
    Row("interpreter_modules", "offsetof(PyInterpreterState, imports.modules)", (3, 12)),
    Row("interpreter_sysdict", "offsetof(PyInterpreterState, sysdict)"),
    Row("interpreter_next", "offsetof(PyInterpreterState, next)"),
    Row("interpreter_id", "offsetof(PyInterpreterState, id)"),
    Row("runtime_interpreters_head", "offsetof(_PyRuntimeState, interpreters.head)"),
    Row("runtime_finalizing", "offsetof(_PyRuntimeState, _finalizing)"),
    Row("static_types", "offsetof(PyInterpreterState, types.builtins)", (3, 12), (3, 12)),
    Row("static_types", "offsetof(PyInterpreterState, types.builtins.initialized)", (3, 13)),
    Row(
        "static_extension_types",
        "offsetof(PyInterpreterState, types.for_extensions.initialized)",
        (3, 13),
    ),
    Row("static_type_size", "sizeof(static_builtin_state)", (3, 12), (3, 12)),
    Row("static_type_size", "sizeof(managed_static_type_state)", (3, 13)),
    Row("static_type_dict", "offsetof(static_builtin_state, tp_dict)", (3, 12), (3, 12)),
    Row("static_type_dict", "offsetof(managed_static_type_state, tp_dict)", (3, 13)),
)

DEBUGGER_ROWS: Final = (
    Row("keys_used", "struct _dictkeysobject.dk_nentries", until=(3, 10)),
    Row("keys_size", "struct _dictkeysobject.dk_size", until=(3, 10)),
    Row("keys_indices", "struct _dictkeysobject.dk_indices", until=(3, 10)),
    Row("module_dict", "PyModuleObject.md_dict", until=(3, 10)),
    Row("property_get", "propertyobject.prop_get", until=(3, 11)),
    Row("property_set", "propertyobject.prop_set", until=(3, 11)),
    Row("staticmethod_callable", "staticmethod.sm_callable"),
    Row("classmethod_callable", "classmethod.cm_callable"),
    Row("partial_function", "partialobject.fn"),
    Row("methodwrapper_descriptor", "wrapperobject.descr"),
    Row("methodwrapper_self", "wrapperobject.self"),
)

_PROGRAM: Final = r"""
#define Py_BUILD_CORE 1
#include "Python.h"
#include <stddef.h>
#include <stdio.h>
#include <string.h>
%(includes)s

/* The position of a bit field: the first bit that differs once it holds 1. */
#define first_bit(field) ({ \
    PyASCIIObject object; unsigned int state; int bit = 0; \
    memset(&object, 0, sizeof object); object.state.field = 1; \
    memcpy(&state, &object.state, sizeof state); \
    while (bit < 32 && !(state >> bit & 1)) bit++; bit; })

int main(void) {
%(prints)s
    return 0;
}
"""


class OracleError(Exception):
    """The compiler or the debugger did not answer."""


def applies(row: Row, version: tuple[int, int]) -> bool:
    """Return whether the row speaks of this minor version."""
    return row.since <= version <= row.until


def headers(
    version: tuple[int, int], flags: Sequence[str], defines: Sequence[str] = ()
) -> dict[str, int]:
    """Return the offsets that gcc computes from headers found with `flags`; OracleError."""
    includes = "\n".join(f'#include "{name}"' for name, since in INCLUDES if since <= version)
    prints = "\n".join(
        f'    printf("{row.name} %ld\\n", (long)({row.expression}));'
        for row in HEADER_ROWS
        if applies(row, version)
    )
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "oracle.c"), Path(folder, "oracle")
        source.write_text(_PROGRAM % {"includes": includes, "prints": prints})
        _run(["gcc", "-w", *defines, *flags, "-o", str(program), str(source)])
        lines = _run([str(program)]).splitlines()
    return {name: int(number) for name, number in (line.split() for line in lines)}


def debug_offsets(version: tuple[int, int], flags: Sequence[str]) -> dict[str, int]:
    """Return the place and the size of each part of `_Py_DebugOffsets` in use; OracleError."""
    prints = "\n".join(
        f'    printf("{name} %ld\\n", (long)offsetof(_Py_DebugOffsets, {member}));'
        for name, member in TABLE_MEMBERS.items()
        if TABLE_SINCE.get(name, FIRST) <= version
    )
    prints += '\n    printf("size %ld\\n", (long)sizeof(_Py_DebugOffsets));'
    includes = '#include "internal/pycore_runtime.h"'
    if version >= (3, 14):
        includes += '\n#include "internal/pycore_debug_offsets.h"'
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "table.c"), Path(folder, "table")
        source.write_text(_PROGRAM % {"includes": includes, "prints": prints})
        _run(["gcc", "-w", *flags, "-o", str(program), str(source)])
        lines = _run([str(program)]).splitlines()
    return {name: int(number) for name, number in (line.split() for line in lines)}


TABLE_MEMBERS: Final = {
    "version": "version",
    "free_threaded": "free_threaded",
    "runtime_finalizing": "runtime_state.finalizing",
    "runtime_interpreters_head": "runtime_state.interpreters_head",
    "interpreter_id": "interpreter_state.id",
    "interpreter_next": "interpreter_state.next",
    "interpreter_modules": "interpreter_state.imports_modules",
    "interpreter_sysdict": "interpreter_state.sysdict",
    "code_filename": "code_object.filename",
    "code_name": "code_object.name",
    "code_qualname": "code_object.qualname",
    "code_firstlineno": "code_object.firstlineno",
    "code_localsplusnames": "code_object.localsplusnames",
    "object_size": "pyobject.size",
    "object_type": "pyobject.ob_type",
    "type_name": "type_object.tp_name",
    "type_flags": "type_object.tp_flags",
    "type_basicsize": "type_object.tp_basicsize",
    "type_dictoffset": "type_object.tp_dictoffset",
    "heaptype_cached_keys": "heap_type_object.ht_cached_keys",
    "tuple_items": "tuple_object.ob_item",
    "list_items": "list_object.ob_item",
    "dict_keys": "dict_object.ma_keys",
    "dict_values": "dict_object.ma_values",
    "float_value": "float_object.ob_fval",
    "long_tag": "long_object.lv_tag",
    "long_digits": "long_object.ob_digit",
    "bytes_data": "bytes_object.ob_sval",
    "str_state": "unicode_object.state",
    "str_length": "unicode_object.length",
    "str_ascii_size": "unicode_object.asciiobject_size",
    "str_compact_size": "unicode_object.compactunicodeobject_size",
}
"""Our names and the members of `_Py_DebugOffsets` that say the same."""

TABLE_SINCE: Final = {
    "type_basicsize": (3, 15),
    "type_dictoffset": (3, 15),
    "heaptype_cached_keys": (3, 15),
    "str_compact_size": (3, 15),
}


def debug_information(
    version: tuple[int, int], program: Path, folder: Path | None = None
) -> dict[str, int]:
    """Return what gdb reads from the debug information of `program`, {} without any.

    `folder` is where separate debug files lie. Raises OracleError if gdb cannot be run.
    """
    rows = [row for row in DEBUGGER_ROWS if applies(row, version)]
    command = ["gdb", "-batch", "-nx"]
    if folder is not None:
        command += ["-iex", f"set debug-file-directory {folder}"]
    for row in rows:
        kind, _, member = row.expression.rpartition(".")
        command += ["-ex", f'printf "{row.name} %d\\n", (int)&(({kind} *)0)->{member}']
    try:
        lines = _run([*command, str(program)]).splitlines()
    except OracleError as error:
        if "No symbol table" in str(error):
            return {}
        raise
    found = [line.split() for line in lines]
    names = {row.name for row in rows}
    return {words[0]: int(words[1]) for words in found if len(words) == 2 and words[0] in names}


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise OracleError(f"{command[0]}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def read_json(text: str) -> dict[str, Any]:
    """Return the object on the last line of `text`."""
    loaded: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
    return loaded
