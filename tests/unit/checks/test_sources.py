"""Where the code of a callable, class, module or value comes from."""

from __future__ import annotations

import dataclasses

import pytest

from envprobe.checks.sources import Source, sources_of
from envprobe.pythonfacts import CallableFact, ClassFact, Datum, ModuleFact, Wrapped
from envprobe.values import Value
from tests.unit.checks.insides import (
    BACKEND,
    ORIGINAL,
    ORIGINAL_FILE,
    PATCH,
    PATCH_FILE,
    QUERY,
    function,
    holder,
    holds,
    wrapping,
)

LIAR = dataclasses.replace(PATCH, module=BACKEND, qualname="Backend.extend", name="extend")
"""What functools.wraps makes of a patch."""


def verdict(
    what: object, prefix: str = "my_kernels", query: str = QUERY, of: ClassFact | None = None
) -> bool | None:
    """Return what is said of what is called: of the outermost code, or what it passes on to."""
    sources = sources_of(holds(what, query, of))  # type: ignore[arg-type]
    said = [one.is_from(prefix, None) for one in sources.own]
    return True if True in said else None if None in said else False


@pytest.mark.parametrize("prefix", ["my_kernels", "/opt/kernels", "my_kernels.attn", PATCH_FILE])
@pytest.mark.parametrize(
    "what",
    [
        PATCH,
        LIAR,
        wrapping(LIAR, ORIGINAL),
        wrapping(PATCH, ORIGINAL, "closure variable original"),
        holder("staticmethod", PATCH),
        holder("classmethod", LIAR),
        holder("method", PATCH, bound_to="srv.backend.Backend"),
        holder("property", PATCH, "fget"),
        holder("functools.partial", PATCH, "partial.func"),
        holder("functools.partialmethod", PATCH, "func"),
        holder("staticmethod", holder("functools.partial", wrapping(LIAR, ORIGINAL))),
        wrapping(function("torch.utils._contextlib", "/venv/torch/utils/_contextlib.py"), PATCH),
        holder("triton.runtime.jit.JITFunction", PATCH, "fn", module="my_kernels.attn"),
    ],
    ids=lambda one: one if isinstance(one, str) else one.type_name,
)
def test_a_patch_is_found_however_it_is_held(what: CallableFact, prefix: str) -> None:
    assert verdict(what, prefix) is True
    assert verdict(what, "srv.other") is False
    assert verdict(what, "/opt/kernels2") is False


@pytest.mark.parametrize("prefix", ["my_kernels", "/opt/kernels"])
@pytest.mark.parametrize(
    "what",
    [
        ORIGINAL,
        # It says that it is the patch: a name that can be copied.
        dataclasses.replace(ORIGINAL, module="my_kernels.attn", qualname="extend"),
        holder("functools.partial", ORIGINAL, "partial.func"),
        wrapping(function("tracer", "/venv/tracer.py"), ORIGINAL),
        wrapping(function("torch.utils._contextlib", "/venv/torch/_contextlib.py"), ORIGINAL),
        Datum("none"),
        Datum("int", Value(b"3")),
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_what_is_no_patch_is_told_for_certain(what: CallableFact | Datum, prefix: str) -> None:
    assert verdict(what, prefix) is False


def test_what_is_wrapped_by_a_stranger_is_kept_apart() -> None:
    sources = sources_of(holds(wrapping(function("tracer", "/venv/tracer.py"), PATCH)))
    assert [one.modules for one in sources.own] == [("tracer",)]
    assert [one.is_from("my_kernels", None) for one in sources.inner] == [True]


def test_a_decorator_leads_to_the_first_thing_that_it_wraps() -> None:
    decorator = function("torch._dynamo.eval_frame", "/venv/torch/_dynamo/eval_frame.py")
    both = wrapping(wrapping(decorator, ORIGINAL), PATCH, "closure variable fn")
    sources = sources_of(holds(both))
    assert [one.modules[0] for one in sources.own] == ["torch._dynamo.eval_frame", BACKEND]
    assert [one.modules[0] for one in sources.inner] == ["my_kernels.attn"]


RUN_TIME = function(BACKEND, "<string>", globals_file=ORIGINAL_FILE)
ELSEWHERE = function(BACKEND, PATCH_FILE, globals_file=ORIGINAL_FILE)


def test_code_made_at_run_time_is_not_called_the_original() -> None:
    assert verdict(RUN_TIME, "my_kernels") is None
    assert verdict(RUN_TIME, "/opt/kernels") is None
    assert verdict(RUN_TIME, BACKEND) is None


def test_code_of_one_file_in_the_namespace_of_another() -> None:
    """types.FunctionType puts any code into any namespace: only the file of the code is sure."""
    assert verdict(ELSEWHERE, "/opt/kernels") is True
    assert verdict(ELSEWHERE, "/venv/srv") is None
    assert [verdict(ELSEWHERE, name) for name in ("my_kernels", BACKEND)] == [None, None]
    original = function("my_kernels.attn", ORIGINAL_FILE, globals_file=PATCH_FILE)
    assert [verdict(original, name) for name in ("my_kernels", "/opt/kernels")] == [None, None]
    made_up = function("my_kernels", ORIGINAL_FILE, globals_file=None)
    assert verdict(made_up, "my_kernels") is None


def test_byte_code_without_its_source_may_name_another_file() -> None:
    built = function(BACKEND, "/build/backend.py", globals_file="/venv/srv/backend.pyc")
    assert verdict(built, "my_kernels") is False
    assert verdict(built, BACKEND) is True
    moved = function("my_kernels", "/build/backend.py", globals_file="/opt/my_kernels.pyc")
    assert verdict(moved, "my_kernels") is None


def test_what_runs_as_main_may_be_the_module_under_its_other_name() -> None:
    as_main = function("__main__", "/opt/my_kernels.py", globals_file="/opt/my_kernels.py")
    assert verdict(as_main, "my_kernels") is None
    assert verdict(as_main, "/opt") is True
    assert verdict(as_main, "other") is False
    package = function("__main__", PATCH_FILE)
    assert [verdict(package, name) for name in ("my_kernels", "my_kernels.attn")] == [None, None]
    assert verdict(package, "my_kern") is False


def test_of_a_property_the_getter_counts() -> None:
    setter = Wrapped("fset", PATCH)
    read_only = CallableFact("property", wraps=(Wrapped("fget", ORIGINAL), setter))
    assert verdict(read_only) is False
    assert verdict(CallableFact("property", wraps=(Wrapped("fget", PATCH),))) is True
    assert verdict(CallableFact("property", wraps=(setter,))) is None


def test_other_functions_may_be_registered_for_other_types() -> None:
    kind = "functools.singledispatchmethod"
    assert verdict(holder(kind, PATCH, "func")) is True
    assert verdict(holder(kind, ORIGINAL, "func")) is None


@pytest.mark.parametrize(
    ("what", "module", "path"),
    [
        # An extension's own function.
        (
            CallableFact(
                "builtin_function_or_method", "my_kernels._C", "f", library="/opt/kernels/_C.so"
            ),
            True,
            True,
        ),
        (
            CallableFact("builtin_function_or_method", "other._C", "f", library="/opt/o/_C.so"),
            False,
            False,
        ),
        (CallableFact("builtin_function_or_method", None, "f", library="/opt/o/_C.so"), None, None),
        # Cython, nanobind: one library makes the type, others use it.
        (
            CallableFact("_cython.cython_function", "my_kernels", "f", library="/opt/kernels/c.so"),
            None,
            True,
        ),
        (CallableFact("nb.nb_func", library="/opt/other/nb.so"), None, None),
        # An object with __call__: the name of its class proves nothing, the code of it does.
        (CallableFact("my_kernels.attn.Extend"), None, None),
        (holder("my_kernels.attn.Extend", ORIGINAL, "__wrapped__"), None, None),
        (holder("my_kernels.attn.Extend", PATCH, "type.__call__"), True, True),
        (holder("my_kernels.attn.Extend", ORIGINAL, "type.__call__"), None, None),
        (holder("srv.Lazy", PATCH, "type.__get__"), True, True),
        # It may call what it keeps.
        (CallableFact("tracer.Probe"), None, None),
        (holder("srv.Called", ORIGINAL, "type.__call__"), None, None),
        # What it calls is kept where it cannot be read.
        (CallableFact("wrapt.wrappers.FunctionWrapper"), None, None),
        (CallableFact("functools.partial"), None, None),
    ],
    ids=str,
)
def test_native_code_and_objects(
    what: CallableFact, module: bool | None, path: bool | None
) -> None:
    assert verdict(what, "my_kernels") is module
    assert verdict(what, "/opt/kernels") is path


def test_a_class_is_told_by_its_module_and_its_methods() -> None:
    replaced = ClassFact("my_kernels.attn", "Backend", "type", PATCH_FILE, (PATCH_FILE,))
    original = ClassFact(BACKEND, "Backend", "type", ORIGINAL_FILE, (ORIGINAL_FILE, PATCH_FILE))
    liar = ClassFact(BACKEND, "Backend", "type", ORIGINAL_FILE, (PATCH_FILE,))
    query = f"{BACKEND}:Backend"
    assert [verdict(one, "my_kernels", query) for one in (replaced, original, liar)] == [
        True,
        False,
        None,
    ]
    assert [verdict(one, "/opt/kernels", query) for one in (replaced, original, liar)] == [
        True,
        False,
        True,
    ]
    assert [verdict(one, BACKEND, query) for one in (replaced, original, liar)] == [
        False,
        True,
        None,
    ]
    assert verdict(ClassFact(None, "int", "type"), "my_kernels", query) is None
    native = ClassFact("my_kernels._C", "T", "type", library="/opt/kernels/_C.so")
    assert [verdict(native, prefix, query) for prefix in ("my_kernels", "/opt/kernels")] == [
        True,
        True,
    ]


@pytest.mark.parametrize("prefix", ["my_kernels", "/opt/kernels"])
@pytest.mark.parametrize("methods", [(ORIGINAL_FILE,), (), ("<string>",)])
def test_a_class_that_only_names_a_module_is_not_of_it(
    methods: tuple[str, ...], prefix: str
) -> None:
    named = ClassFact("my_kernels.attn", "Backend", "type", PATCH_FILE, methods)
    assert verdict(named, prefix, f"{BACKEND}:Backend") is None
    made = Datum("object", type_name="my_kernels.attn.Backend")
    assert verdict(made, prefix, of=named) is None


def test_a_module_is_told_by_its_specification_not_by_its_key() -> None:
    replaced = ModuleFact(BACKEND, "module", PATCH_FILE, spec_name="my_kernels.attn")
    original = ModuleFact(BACKEND, "module", ORIGINAL_FILE, spec_name=BACKEND)
    bare = ModuleFact(BACKEND, "module")
    assert [verdict(one, "my_kernels", BACKEND) for one in (replaced, original, bare)] == [
        True,
        False,
        None,
    ]
    assert verdict(original, BACKEND, BACKEND) is True
    assert verdict(bare, BACKEND, BACKEND) is None
    assert verdict(replaced, "/opt/kernels", BACKEND) is True
    namespace = ModuleFact("srv", "module", spec_name="srv", search=("/opt/kernels/srv",))
    assert verdict(namespace, "/opt/kernels", "srv") is True


def test_an_object_is_told_by_its_class() -> None:
    made = Datum("object", type_name="my_kernels.attn.Registry")
    of = ClassFact("my_kernels.attn", "Registry", "type", PATCH_FILE, (PATCH_FILE,))
    assert verdict(made, of=of) is True
    assert verdict(made, "/opt/kernels", of=of) is True
    other = ClassFact(BACKEND, "Registry", "type", ORIGINAL_FILE, (ORIGINAL_FILE,))
    assert verdict(Datum("object", type_name="srv.backend.Registry"), of=other) is False
    # Facts that were saved without the class.
    assert verdict(made) is None
    # A descriptor is used through its code.
    runs = holder("my_kernels.attn.Registry", ORIGINAL, "type.__get__")
    (own,) = sources_of(dataclasses.replace(holds(made, of=of), function=runs)).own
    assert (own.modules, own.is_from("my_kernels", None)) == ((BACKEND,), None)


def test_a_relative_file_needs_the_working_directory() -> None:
    source = Source("f", "kernels/attn.py:1", ("__main__",), ("kernels/attn.py",))
    assert source.is_from("/opt/kernels", "/opt") is True
    assert source.is_from("/srv", "/opt") is False
    assert source.is_from("/opt/kernels", None) is None


def test_a_long_chain_is_followed_to_its_end() -> None:
    what = PATCH
    for _ in range(30):
        what = CallableFact("functools.partial", wraps=(Wrapped("partial.func", what),))
    assert verdict(what) is True
