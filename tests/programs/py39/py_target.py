"""A Python process that says what is in it, then waits until its standard input is closed.

Run as `python py_target.py` with a JSON object on the first line of standard input:

    {"imports": [module, ...], "queries": [text, ...], "sample": {"modules": [...], "count": N,
     "seed": N}, "run": source}

`run` is executed first. The answer is one line of JSON on standard output, {"pid": N, "truth":
{query: answer}}: what this process itself finds with getattr_static, inspect and id(). Valid on
Python 3.9 to 3.15, standard library only.
"""

import functools
import importlib
import inspect
import json
import os
import random
import sys
import types

BUILTINS = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
    types.MethodWrapperType,
)
MISSING = object()


def full_name(kind):
    """Return the name of a class as its __repr__ shows it."""
    module = getattr(kind, "__module__", None)
    name = kind.__qualname__
    return name if module in (None, "builtins") else "%s.%s" % (module, name)


def plain(value, depth=0):
    """Return a JSON form of a simple value, None for what is not simple."""
    if value is None or type(value) is bool:
        return [type(value).__name__, repr(value)]
    for kind in (int, str, bytes, list, tuple, dict):
        if isinstance(value, kind):
            return [kind.__name__, contents(value, kind, depth)]
    if type(value) is float:
        return ["float", repr(value)]
    return ["object", full_name(type(value))]


def contents(value, kind, depth):
    shown = 1024 if depth else 65536
    if kind is int:
        return str(int(value))
    if kind is str:
        return str.__str__(value)[:shown].encode("utf-8", "surrogatepass").hex()
    if kind is bytes:
        return bytes(value)[:shown].hex()
    if depth >= 2:
        return len(value)
    if kind is dict:
        pairs = list(dict.items(value))[:1000]
        return [[plain(key, depth + 1), plain(item, depth + 1)] for key, item in pairs]
    return [plain(item, depth + 1) for item in list(kind.__iter__(value))[:1000]]


def text_or_none(value):
    return str(value) if isinstance(value, str) else None


def function_truth(function):
    code = function.__code__
    return {
        "type_name": "function",
        "module": text_or_none(function.__module__),
        "qualname": function.__qualname__,
        "name": function.__name__,
        "file": code.co_filename,
        "line": code.co_firstlineno,
        "code_name": getattr(code, "co_qualname", code.co_name),
        "globals_module": text_or_none(function.__globals__.get("__name__")),
        "globals_file": text_or_none(function.__globals__.get("__file__")),
        "inner": id(inner_of(function)) if inner_of(function) is not None else None,
    }


def inner_of(thing):
    """Return the next callable below `thing`, None at the end."""
    if isinstance(thing, types.FunctionType):
        return thing.__dict__.get("__wrapped__")
    if isinstance(thing, (staticmethod, classmethod, types.MethodType)):
        return thing.__func__
    if isinstance(thing, property):
        return thing.fget
    if isinstance(thing, functools.partial):
        return thing.func
    return None


def callable_truth(thing):
    inner = inner_of(thing)
    names = full_name(type(thing))
    found = {"type_name": names}
    if isinstance(thing, BUILTINS):
        found["name"] = thing.__name__
        if not isinstance(thing, types.MethodWrapperType):
            found["qualname"] = thing.__qualname__
    elif isinstance(inner, types.FunctionType):
        found["chain"] = function_truth(inner)
    return found


def truth_of(thing):
    """Describe an object as this process knows it."""
    found = {"address": id(thing)}
    if isinstance(thing, types.ModuleType):
        found["kind"] = "module"
        found["module"] = module_truth(thing)
    elif isinstance(thing, type):
        found["kind"] = "class"
        found["class"] = {
            "module": text_or_none(type.__dict__["__module__"].__get__(thing)),
            "qualname": thing.__qualname__,
            "metaclass": full_name(type(thing)),
            "bases": [full_name(base) for base in thing.__mro__ if base is not thing],
        }
    elif isinstance(thing, types.FunctionType):
        found["kind"] = "callable"
        found["callable"] = function_truth(thing)
    elif simple(thing):
        found["kind"] = "value"
        found["value"] = plain(thing)
    elif isinstance(thing, (staticmethod, classmethod, property) + BUILTINS) or callable(thing):
        found["kind"] = "callable"
        found["callable"] = callable_truth(thing)
    else:
        found["kind"] = "object"
        found["value"] = plain(thing)
    return found


def simple(thing):
    kinds = (int, str, bytes, list, tuple, dict)
    return thing is None or type(thing) is float or isinstance(thing, kinds)


def module_truth(module):
    own = module.__dict__
    spec = own.get("__spec__")
    loader = getattr(spec, "loader", None)
    return {
        "file": text_or_none(own.get("__file__")),
        "cached": text_or_none(own.get("__cached__")),
        "origin": text_or_none(getattr(spec, "origin", None)),
        "loader": None
        if loader is None
        else full_name(loader if isinstance(loader, type) else type(loader)),
    }


def resolve(query):
    """Return the object of a query and the class that holds it; MISSING for none."""
    name, colon, rest = query.partition(":")
    here = sys.modules.get(name, MISSING)
    owner = None
    for part in rest.split(".") if colon else ():
        if isinstance(here, (staticmethod, classmethod)):
            here = here.__func__
        owner = None
        if isinstance(here, type):
            for base in here.__mro__:
                if part in base.__dict__:
                    owner = base
                    break
        if isinstance(here, types.ModuleType) and part in vars(here):
            here = vars(here)[part]
        else:
            here = inspect.getattr_static(here, part, MISSING)
        if here is MISSING:
            break
    return here, owner


def answer(query):
    if query.partition(":")[0] not in sys.modules:
        return {"state": "not_imported"}
    thing, owner = resolve(query)
    if thing is MISSING:
        return {"state": "absent"}
    found = truth_of(thing)
    found["state"] = "value"
    found["owner"] = full_name(owner) if owner is not None else None
    return found


def sampled(request):
    """Return queries about attributes of modules and of their classes, chosen at random."""
    queries = []
    for name in request["modules"]:
        module = importlib.import_module(name)
        for attribute, value in list(vars(module).items()):
            if "." in attribute or attribute in ("__annotations__", "__builtins__"):
                continue
            queries.append("%s:%s" % (name, attribute))
            if isinstance(value, type):
                inherited = [key for base in value.__mro__ for key in vars(base)]
                queries += ["%s:%s.%s" % (name, attribute, key) for key in inherited]
    queries = sorted(set(query for query in queries if not skipped(query)))
    return random.Random(request["seed"]).sample(queries, min(request["count"], len(queries)))


def skipped(query):
    """Leave out what Python itself computes or changes while it is asked for."""
    last = query.rpartition(".")[2].rpartition(":")[2]
    return last in ("__dict__", "__weakref__", "__doc__", "__static_attributes__", "_abc_impl")


def main():
    request = json.loads(sys.stdin.readline())
    if request.get("run"):
        exec(compile(request["run"], "<run>", "exec"), {"__name__": "run"})
    for name in request.get("imports", ()):
        importlib.import_module(name)
    queries = list(request.get("queries", ()))
    if "sample" in request:
        queries += sampled(request["sample"])
    truth = {query: answer(query) for query in queries}
    line = json.dumps({"pid": os.getpid(), "truth": truth})
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
