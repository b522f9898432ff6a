"""`os.environ` of a running process: the view `python`.

On POSIX `os.environ` is an `os._Environ` around a dict of bytes (Lib/os.py, `_createenviron`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from envprobe.cpython import dicts
from envprobe.cpython.faults import Unreadable
from envprobe.cpython.objects import Objects
from envprobe.model import Environment, EnvironmentStatus, View
from envprobe.values import Value

MAX_NAME: Final = 1 << 12
MAX_WHOLE: Final = 16 << 20
SOURCE: Final = "os.environ"


def read(objects: Objects, os_module: int, wanted: Callable[[str], bool]) -> Environment:
    """Return the variables that `os.environ` holds; values only of names that are `wanted`.

    Raises MemoryFault, Torn, Unreadable.
    """
    info = objects.type_of(os_module)
    environ = dicts.find(objects, dicts.instance_table(objects, os_module, info), "environ")
    if not environ:
        raise Unreadable("the module os has no environ")
    table = dicts.table_of(objects, data_of(objects, environ))
    entries: dict[str, Value | None] = {}
    left = MAX_WHOLE
    for _, key, value in dicts.pairs(objects, table):
        name = os.fsdecode(_raw(objects, key, MAX_NAME))
        left -= len(name)
        found = _raw(objects, value, max(left, 0)) if wanted(name) else b""
        left -= len(found)
        if left < 0:
            raise Unreadable(f"os.environ holds more than {MAX_WHOLE >> 20} MiB")
        entries[name] = Value(found) if wanted(name) else None
    return Environment(View.PYTHON, EnvironmentStatus.COMPLETE, entries, source=SOURCE)


def data_of(objects: Objects, environ: int) -> int:
    """Return the address of the dict behind `os.environ`, which may be a dict itself."""
    info = objects.type_of(environ)
    if info.base == "dict":
        return environ
    data = dicts.find(objects, dicts.instance_table(objects, environ, info), "_data")
    if not data or objects.type_of(data).base != "dict":
        raise Unreadable(f"os.environ was replaced by an object of type {info.name}")
    return data


def _raw(objects: Objects, address: int, limit: int) -> bytes:
    info = objects.type_of(address)
    if info.base == "bytes":
        raw, length = objects.bytes_start(address, limit)
        if length > limit:
            raise Unreadable(f"os.environ holds {length} bytes in one place")
        return raw
    if info.base == "str":
        return os.fsencode(objects.text(address, limit))
    raise Unreadable(f"os.environ holds an object of type {info.name}")
