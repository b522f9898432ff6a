"""Reads the syntax tree of a program's first file: what would run again in a spawned child.

Run as `python -I -S -c TEXT DESCRIPTOR MODE TARGET CWD [FOLDER...]`: MODE is `script` or `module`,
the folders are searched for a module after CWD. Nothing of the program is executed or imported. The
answer, one JSON object, is written to the descriptor. Standard library only, Python 3.9 to 3.15.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import tokenize
from collections.abc import Iterator

MAX_BYTES = 4 << 20
MAX_FOUND = 50
MAX_DEPTH = 20

# Calls that start processes by multiprocessing, in whichever module of the family they stand.
FAMILY = ("multiprocessing.", "torch.multiprocessing.", "concurrent.futures.", "billiard.")
STARTERS = ("Process", "Pool", "ProcessPoolExecutor", "Manager", "spawn", "start_processes")
OTHER_PROCESSES = (
    "subprocess.",
    "os.fork",
    "os.system",
    "os.popen",
    "os.spawn",
    "os.posix_spawn",
    "os.exec",
    "pty.spawn",
)
RUNPY = ("runpy.run_module", "runpy.run_path")
FRAMEWORKS = ("sglang", "vllm", "ray", "uvicorn", "tensorrt_llm", "lmdeploy")
SERVERS = (
    "launch_server",
    "launch_engine",
    "run_server",
    "serve",
    "Engine",
    "LLM",
    "AsyncLLMEngine",
    "AsyncLLM",
    "LLMEngine",
    "main",
    "init",
    "run",
)


def main(descriptor: str, mode: str, target: str, cwd: str, *folders: str) -> None:
    """Answer with what was found, or with why nothing could be."""
    try:
        path = target if mode == "script" else find_module(target, [cwd, *folders])
        answer = {"path": path}
        if path is None:
            answer["reason"] = "the module is not found where it is looked for"
        elif sys.version_info < (3, 8):
            answer["reason"] = "its interpreter is older than CPython 3.8, whose grammar is needed"
        else:
            answer.update(analyse_file(path))
    except OSError as error:
        answer = {"path": target, "reason": f"it cannot be read ({error.strerror})"}
    answer["version"] = list(sys.version_info[:2])
    data = json.dumps(answer).encode("ascii")
    while data:
        data = data[os.write(int(descriptor), data) :]


def find_module(name: str, folders: list) -> str | None:
    """Return the file of a module, of a package its __main__, without importing anything."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(sys.executable)))
    places = [one for one in folders if one]
    places += [os.path.dirname(os.__file__)]
    for base in dict.fromkeys((prefix, sys.prefix, sys.base_prefix)):
        places.append(os.path.join(base, "lib", version, "site-packages"))
        places.append(os.path.join(base, "local", "lib", version, "dist-packages"))
        places.append(os.path.join(base, "lib", "python3", "dist-packages"))
    parts = name.split(".")
    for place in places:
        base = os.path.join(place, *parts)
        if os.path.isfile(base + ".py"):
            return base + ".py"
        if os.path.isfile(os.path.join(base, "__main__.py")):
            return os.path.join(base, "__main__.py")
    return None


def analyse_file(path: str) -> dict:
    """Return what `analyse` says of a file; its encoding is that which the file declares."""
    if os.path.getsize(path) > MAX_BYTES:
        return {"reason": f"it is longer than {MAX_BYTES} bytes"}
    try:
        with tokenize.open(path) as file:
            source = file.read()
    except (SyntaxError, UnicodeDecodeError) as error:
        return {"reason": f"its encoding cannot be told ({type(error).__name__})"}
    return analyse(source)


def analyse(source: str) -> dict:
    """Return the line of the main guard, and the statements that start something outside of it."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        where = f"line {error.lineno}" if error.lineno else f"its text ({error.msg})"
        return {"reason": f"{where} is no valid syntax for this interpreter"}
    except (ValueError, RecursionError, MemoryError) as error:
        return {"reason": f"it cannot be parsed ({type(error).__name__})"}
    try:
        return Module(tree).found()
    except RecursionError:
        return {"reason": "its expressions are nested too deeply"}


class Module:
    """One module: its names, its functions, and what runs when it is imported."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.names = {}
        self.functions = {}
        self.guard = None
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for one in node.names:
                    head = one.name.split(".")[0]
                    self.names[one.asname or head] = one.name if one.asname else head
            elif isinstance(node, ast.ImportFrom):
                for one in node.names:
                    self.names[one.asname or one.name] = f"{node.module or '.'}.{one.name}"
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                made = self.dotted(node.value.func)
                if made.endswith("get_context") and isinstance(node.targets[0], ast.Name):
                    self.names[node.targets[0].id] = made
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.functions[node.name] = node

    def found(self) -> dict:
        """Return the guard and the starts as plain data."""
        starts = []
        for call in self.at_import(self.tree.body):
            one = self.start(call)
            if one is not None and len(starts) < MAX_FOUND:
                starts.append(one)
        return {"guard": self.guard, "starts": starts}

    def at_import(self, body: list) -> Iterator:
        """Yield the calls that an import of the module makes: not those in the main guard."""
        for node in body:
            if isinstance(node, ast.If) and is_guard(node.test):
                self.guard = self.guard or node.lineno
                yield from self.at_import(node.orelse)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for one in (*node.decorator_list, *node.args.defaults):
                    yield from calls_in(one)
            elif isinstance(node, ast.ClassDef):
                yield from self.at_import(node.body)
            elif has_body(node):
                yield from self.compound(node)
            else:
                yield from calls_in(node)

    def compound(self, node: ast.AST) -> Iterator:
        """Yield the calls of a statement with blocks, such as if, for, try, with, match."""
        for name, value in ast.iter_fields(node):
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, ast.ExceptHandler):
                    yield from self.at_import(one.body)
                elif isinstance(one, ast.stmt):
                    yield from self.at_import([one])
                elif type(one).__name__ == "match_case":
                    yield from self.at_import(one.body)
                elif isinstance(one, ast.AST) and name != "type_params":
                    yield from calls_in(one)

    def start(self, call: ast.Call) -> dict | None:
        """Return what a call starts; of a function of this module what is in it."""
        kind, name = self.kind(call)
        if kind:
            return {"line": call.lineno, "kind": kind, "call": name, "inside": None}
        inner = self.inside(name, set())
        if inner is None:
            return None
        return {"line": call.lineno, "kind": inner[0], "call": inner[1], "inside": inner[2]}

    def inside(self, name: str, seen: set) -> tuple | None:
        """Return kind, call and line of what a function of this module starts."""
        function = self.functions.get(name)
        if function is None or name in seen or len(seen) > MAX_DEPTH:
            return None
        seen.add(name)
        for node in ast.walk(function):
            if not isinstance(node, ast.Call):
                continue
            kind, called = self.kind(node)
            if kind:
                return kind, called, node.lineno
            inner = self.inside(called, seen)
            if inner is not None:
                return inner
        return None

    def kind(self, call: ast.Call) -> tuple:
        """Return what kind of start a call is, "" for none, and the name that is called."""
        name = self.dotted(call.func)
        last = name.rpartition(".")[2]
        if name.startswith(FAMILY) and last in STARTERS:
            return "process", name
        if last in ("Process", "Pool") and "get_context" in name:
            return "process", name
        if name in RUNPY:
            return "runpy", name
        if name.startswith(OTHER_PROCESSES) and last not in ("list2cmdline",):
            return "command", name
        if name.split(".")[0] in FRAMEWORKS and last in SERVERS:
            return "server", name
        return "", name

    def dotted(self, node: ast.AST) -> str:
        """Return the name of what is called, with import aliases resolved."""
        parts = []
        while True:
            if isinstance(node, ast.Attribute):
                parts.append(node.attr)
                node = node.value
            elif isinstance(node, ast.Call):
                node = node.func
            elif isinstance(node, ast.Name):
                parts.append(self.names.get(node.id, node.id))
                return ".".join(reversed(parts))
            else:
                return ".".join(reversed(parts))


def has_body(node: ast.AST) -> bool:
    """Return whether a statement holds others."""
    return isinstance(getattr(node, "body", None), list) or hasattr(node, "cases")


def is_guard(test: ast.AST) -> bool:
    """Return whether a test is `__name__ == "__main__"`, or one that includes it by `and`."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(is_guard(one) for one in test.values)
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1):
        return False
    sides = [test.left, test.comparators[0]]
    named = any(isinstance(one, ast.Name) and one.id == "__name__" for one in sides)
    texts = [one.value for one in sides if isinstance(one, ast.Constant)]
    return named and isinstance(test.ops[0], ast.Eq) and texts == ["__main__"]


def calls_in(node: ast.AST) -> Iterator:
    """Yield the calls that evaluating a node makes: those in lambdas are made later."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.Lambda):
            continue
        if isinstance(one, ast.Call):
            yield one
        waiting.extend(ast.iter_child_nodes(one))


if __name__ == "__main__":
    main(*sys.argv[1:])
