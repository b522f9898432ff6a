"""From `_PyRuntime` to the main interpreter, and the proof that a layout fits it.

A layout is believed only after what it leads to has been read with it: names, files and numbers
that every CPython holds.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

from envprobe.cpython import dicts, layouts
from envprobe.cpython.faults import (
    CALIBRATE,
    NoPython,
    NotRunning,
    Torn,
    UnknownBuild,
    Unreadable,
)
from envprobe.cpython.layouts import DebugTable, Layout
from envprobe.cpython.objects import Objects
from envprobe.cpython.sites import Site, sites, too_old
from envprobe.cpython.types import Classes
from envprobe.process.checked import CheckedMemory
from envprobe.process.elf import NotElf
from envprobe.process.handle import MemoryFault, ProcessHandle
from envprobe.process.maps import AddressSpace
from envprobe.process.scope import Scope

SHUTTING_DOWN: Final = "the interpreter is shutting down"
MAX_INTERPRETERS: Final = 1024
_BOOTSTRAP: Final = ("_frozen_importlib", "importlib._bootstrap")
_BOOTSTRAP_FILES: Final = ("<frozen importlib._bootstrap>",)
_FIRST_LINE: Final = 150
_CLASS_LINES: Final = 1000
"""`ModuleSpec.__init__` begins at line 351 (3.9) to 599 (3.13); what lies beside it is smaller."""

_SUPPORTED: Final = "Run the server with a release of CPython 3.9 to 3.15."
_MISFIT: Final = (MemoryFault, Torn, Unreadable)
_WITHOUT_VERSION: Final = ((3, 10), (3, 9))
_EXPORTED: Final = {
    b"PyType_Type": "type",
    b"PyDict_Type": "dict",
    b"PyUnicode_Type": "str",
    b"PyModule_Type": "module",
    b"PyFunction_Type": "function",
}


class Located(NamedTuple):
    """A verified main interpreter: addresses of its state, of its modules and of `sys.__dict__`."""

    site: Site
    layout: Layout
    objects: Objects
    classes: Classes
    interpreter: int
    modules: int
    sysdict: int
    interpreters: int
    finalizing: int


def locate(
    handle: ProcessHandle,
    scope: Scope,
    space: AddressSpace,
    memory: CheckedMemory,
    calibrated: Layout | None = None,
) -> Located:
    """Return the process's main interpreter, read through `memory` with a layout that fits.

    A `calibrated` layout is tried after the known ones.

    Raises NoPython, NotRunning, UnknownBuild, AccessRefused.
    """
    reasons: list[str] = []
    waiting: NotRunning | None = None
    for site in sites(handle, scope, space):
        try:
            located = _try_site(memory, space, site, reasons, calibrated)
        except NotRunning as outcome:
            waiting = outcome
            continue
        if located is not None:
            return located
    if waiting is not None:
        raise waiting
    if old := too_old(scope):
        raise UnknownBuild(f"{old} holds a CPython older than 3.9, which is not read", _SUPPORTED)
    if reasons:
        raise UnknownBuild(
            f"unknown build of CPython ({'; '.join(dict.fromkeys(reasons))})",
            CALIBRATE,
        )
    raise NoPython(
        "no CPython found: no symbol _PyRuntime and no cookie of _Py_DebugOffsets in memory",
        "If this is a Python process, its interpreter is statically linked without symbols.",
    )


def _try_site(
    memory: CheckedMemory,
    space: AddressSpace,
    site: Site,
    reasons: list[str],
    calibrated: Layout | None,
) -> Located | None:
    """Return the interpreter at `site`, None if no layout fits; NotRunning."""
    try:
        head = memory.read(site.address, layouts.COOKIE_HEAD.size)
    except MemoryFault:
        return None
    table = DebugTable.parse(head)
    if table is not None:
        site = site._replace(hexversion=table.hexversion)
    elif head.startswith(layouts.COOKIE):  # a copy of the word, such as a debugger's own
        return None
    minors = _WITHOUT_VERSION if site.hexversion is None else (layouts.minor_of(site.hexversion),)
    waiting: NotRunning | None = None
    known = (layout for minor in minors for layout in _layouts_of(memory, site, minor, table))
    for layout in itertools.chain(known, [calibrated] if calibrated else []):
        try:
            return verify(memory, space, site, layout)
        except NotRunning as outcome:
            waiting = waiting or outcome
        except _MISFIT:
            continue
    if waiting is not None:
        raise waiting
    reasons.append(f"{site.name}: {_version_text(site.hexversion)}, {_build_text(table)}")
    return None


def _layouts_of(
    memory: CheckedMemory, site: Site, minor: tuple[int, int], table: DebugTable | None
) -> Iterator[Layout]:
    if not layouts.known(minor) or (minor >= layouts.FIRST_WITH_TABLE) != (table is not None):
        return
    raw = b""
    if table is not None:
        try:
            raw = memory.read(site.address, layouts.table_size(minor))
        except MemoryFault:
            raw = b""
    free_threaded = table is not None and table.free_threaded
    yield from layouts.candidates(minor, table=raw, free_threaded=free_threaded)


def _version_text(hexversion: int | None) -> str:
    if hexversion is None:
        return "older than 3.11"
    return ".".join(str(hexversion >> shift & 255) for shift in (24, 16, 8))


def _build_text(table: DebugTable | None) -> str:
    return "free-threaded" if table is not None and table.free_threaded else "with the GIL"


def verify(memory: CheckedMemory, space: AddressSpace, site: Site, layout: Layout) -> Located:
    """Return the interpreter read with `layout` if all that must hold does.

    Raises NotRunning, and MemoryFault, Torn or Unreadable when the layout does not fit.
    """
    _must(layouts.plausible(layout), "a table of offsets")
    finalizing = site.address + layout.runtime_finalizing
    interpreter, count = _main_interpreter(memory, site, layout)
    modules = memory.word(interpreter + layout.interpreter_modules)
    sysdict = memory.word(interpreter + layout.interpreter_sysdict)
    if not sysdict or not modules:
        _must(_ends(memory, space, finalizing), "an interpreter without modules")
        raise NotRunning(SHUTTING_DOWN)
    type_of_dict = memory.word(sysdict + layout.object_type)
    type_type = memory.word(type_of_dict + layout.object_type)
    _must(memory.word(type_type + layout.object_type) == type_type, "type of type")
    objects = Objects(memory, space, layout, type_type)
    located = Located(
        site,
        layout,
        objects,
        Classes(objects, interpreter),
        interpreter,
        modules,
        sysdict,
        count,
        finalizing,
    )
    _verify_sys(located)
    _verify_code(located)
    _verify_builtins(located)
    _verify_symbols(located)
    if memory.word(finalizing):
        _must(_ends(memory, space, finalizing), "a thread that ends the interpreter")
        raise NotRunning(SHUTTING_DOWN)
    return located


def _ends(memory: CheckedMemory, space: AddressSpace, finalizing: int) -> bool:
    """Return whether a thread is ending the interpreter: the word then points to its state."""
    thread = memory.word(finalizing)
    return bool(thread) and thread % 8 == 0 and space.readable_regular(thread, 8)


def _main_interpreter(memory: CheckedMemory, site: Site, layout: Layout) -> tuple[int, int]:
    """Follow the list, which starts with the newest, to the interpreter with number 0."""
    here = memory.word(site.address + layout.runtime_interpreters_head)
    if not here:
        raise NotRunning("the interpreter has not been started or has ended")
    main, count = 0, 0
    while here and count < MAX_INTERPRETERS:
        count += 1
        if memory.word(here + layout.interpreter_id) == 0:
            main = here
        here = memory.word(here + layout.interpreter_next)
    _must(bool(main) and not here, "a list of interpreters")
    return main, count


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise Torn(what)


def _verify_sys(located: Located) -> None:
    """`sys` must be the module that it says it is, of the version that the layout is for."""
    objects, layout, sysdict = located.objects, located.layout, located.sysdict
    _must(objects.type_at(objects.type_type).exact == "type", "type")
    _must(objects.type_of(sysdict).exact == "dict", "dict")
    table = dicts.table_of(objects, sysdict)
    _must(objects.text(dicts.find(objects, table, "__name__")) == "sys", "sys.__name__")
    hexversion = objects.integer(dicts.find(objects, table, "hexversion"))
    _must(layouts.minor_of(hexversion) == layout.minor, "sys.hexversion")
    _must(located.site.hexversion in (None, hexversion), "sys.hexversion")
    text = objects.text(dicts.find(objects, table, "version"))
    _must(text.startswith("{}.{}.".format(*layout.minor)), "sys.version")
    limits = dicts.find(objects, table, "float_info")
    highest = [objects.number(item) for item in objects.items(limits, 1)]
    _must(highest == [sys.float_info.max], "sys.float_info.max")
    _must(_modules_are_sys_modules(located, table), "sys.modules")


def _modules_are_sys_modules(located: Located, table: dicts.Table) -> bool:
    """Return whether the interpreter's modules are those that `sys` knows.

    A program that imports without pause keeps `sys.modules` itself unreadable, so the pointer to
    it is compared first; a program may have bound another dict to that name.
    """
    objects, layout = located.objects, located.layout
    if dicts.find(objects, table, "modules") == located.modules:
        return objects.type_of(located.modules).base == "dict"
    sys_module = dicts.get(objects, located.modules, "sys")
    return (
        bool(sys_module)
        and objects.word(sys_module + layout.module_dict) == located.sysdict
        and objects.type_of(sys_module).base == "module"
    )


def _verify_code(located: Located) -> None:
    """Read the class of `sys.__spec__`: instances, class dicts, functions and their code."""
    objects, layout, classes = located.objects, located.layout, located.classes
    spec = dicts.get(objects, located.sysdict, "__spec__")
    info = objects.type_of(spec)
    attributes = dicts.instance_table(objects, spec, info)
    _must(objects.text(dicts.find(objects, attributes, "name")) == "sys", "sys.__spec__.name")
    _must(classes.qualname(info.address) == "ModuleSpec", "ModuleSpec")
    order = classes.mro(info.address)
    _must(len(order) == 2 and order[0] == info.address, "ModuleSpec.__mro__")
    own = classes.table(info.address)
    first = _verify_function(located, dicts.find(objects, own, "__init__"), "ModuleSpec.__init__")
    parent = dicts.find(objects, own, "parent")
    objects.require(parent, "property")
    getter = objects.word(parent + layout.property_get)
    second = _verify_function(located, getter, "ModuleSpec.parent")
    _must(_FIRST_LINE < first < second < first + _CLASS_LINES, "lines of ModuleSpec")
    importer = dicts.find(objects, attributes, "loader")
    _must(objects.is_class(importer), "BuiltinImporter")
    finder = dicts.find(objects, classes.table(importer), "find_spec")
    objects.require(finder, "classmethod")
    inner = objects.word(finder + layout.classmethod_callable)
    _verify_function(located, inner, "BuiltinImporter.find_spec")


def _verify_function(located: Located, function: int, qualname: str) -> int:
    """Read a function of Lib/importlib/_bootstrap.py; return its first line."""
    objects, layout = located.objects, located.layout
    objects.require(function, "function")
    name = qualname.rpartition(".")[2]
    code = objects.word(function + layout.function_code)
    objects.require(code, "code")
    space = objects.word(function + layout.function_globals)
    expected = [
        (function + layout.function_qualname, (qualname,)),
        (function + layout.function_name, (name,)),
        (function + layout.function_module, _BOOTSTRAP),
        (code + layout.code_filename, _BOOTSTRAP_FILES),
        (code + layout.code_name, (name,)),
    ]
    if layout.code_qualname:
        expected.append((code + layout.code_qualname, (qualname,)))
    for place, allowed in expected:
        _must(objects.text(objects.word(place)) in allowed, qualname)
    module = objects.text(dicts.get(objects, space, "__name__"))
    _must(module in _BOOTSTRAP, qualname)
    return int.from_bytes(objects.memory.read(code + layout.code_firstlineno, 4), "little")


def _verify_builtins(located: Located) -> None:
    """Read a built-in function, and a method of a static type whose dict may be kept apart."""
    objects, layout = located.objects, located.layout
    count_of = dicts.get(objects, located.sysdict, "getrefcount")
    objects.require(count_of, "builtin_function_or_method")
    definition = objects.word(count_of + layout.builtin_method)
    name = objects.memory.cstring(objects.word(definition), 64)
    _must(name == b"getrefcount", "sys.getrefcount")
    bound = objects.word(count_of + layout.builtin_self)
    _must(objects.word(bound + layout.module_dict) == located.sysdict, "sys.getrefcount")
    module = objects.word(count_of + layout.builtin_module)
    _must(objects.text(module) == "sys", "sys.getrefcount")
    dict_type = objects.type_of(located.sysdict).address
    caller = objects.word(objects.type_of(count_of).address + layout.type_call)
    _must(objects.same_file(caller), "tp_call")
    _must(not objects.word(dict_type + layout.type_call), "tp_call")
    method = dicts.find(objects, located.classes.table(dict_type), "get")
    objects.require(method, "method_descriptor")
    _must(objects.word(method + layout.descriptor_owner) == dict_type, "dict.get")
    _must(objects.text(objects.word(method + layout.descriptor_name)) == "get", "dict.get")


def _verify_symbols(located: Located) -> None:
    """Types found by their names must be those that the same image exports."""
    image = located.site.image
    if image is None:
        return
    for symbol, name in _EXPORTED.items():
        try:
            exported = image.lookup(symbol)
        except NotElf as error:
            raise Torn("symbols") from error
        if exported is not None:
            _must(located.objects.type_at(exported.address).exact == name, name)
