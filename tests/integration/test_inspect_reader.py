"""What the reader says of a running Python equals what that process says of itself."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from envprobe.cpython import layouts
from envprobe.cpython.faults import NoPython, NotRunning, UnknownBuild
from envprobe.errors import UsageError
from envprobe.model import EnvironmentStatus, View
from envprobe.payload import calibrate
from envprobe.pythonfacts import AnswerState, Kind, text_of
from envprobe.report.answers import answer_document
from tests.programs import interpreters
from tests.programs.cbuild import build
from tests.programs.pytarget import (
    PyTarget,
    attached,
    clean_environment,
    differences,
    full_sid_tree,
    in_sid,
    sid_tree,
)
from tests.programs.requirement import missing

SID = ("python3.14", "python3.15")
PYENV = Path.home() / ".pyenv" / "versions"
SAMPLED = [
    *("json", "json.decoder", "asyncio", "asyncio.base_events", "collections", "enum", "typing"),
    *("functools", "datetime", "re", "socket", "ssl", "dataclasses", "logging", "threading"),
    *("inspect", "http", "types", "unittest.mock", "builtins", "ctypes"),
]

BACKEND = """
import functools


class Base:
    def inherited(self):
        return "original"


class Backend(Base):
    def forward_extend(self):
        return "original"

    def forward_decode(self):
        return "original"

    def hidden(self):
        return "original"

    def partial_one(self):
        return "original"

    def untouched(self):
        return "original"

    @staticmethod
    def tool():
        return "original"

    @classmethod
    def make(cls):
        return "original"

    @property
    def size(self):
        return 1


class Replaced:
    def method(self):
        return "original"


def helper():
    return "original"
"""

PATCHLIB = """
import functools


def forward_extend(self):
    return "patched"


def wrapping(original):
    @functools.wraps(original)
    def patched_decode(self):
        return "patched"

    return patched_decode


def hiding(original):
    def around(self):
        return original(self)

    return around


def with_option(self, option):
    return "patched"


def tool():
    return "patched"


def make(cls):
    return "patched"


def inherited(self):
    return "patched"


def size(self):
    return 2


class Replacement:
    def method(self):
        return "patched"


def helper():
    return "patched"


class Odd:
    name = "no module at all"


def install():
    import sys
    from victim import backend

    cls = backend.Backend
    cls.forward_extend = forward_extend
    cls.forward_decode = wrapping(cls.forward_decode)
    cls.hidden = hiding(cls.hidden)
    cls.partial_one = functools.partial(with_option, option=1)
    cls.tool = staticmethod(tool)
    cls.make = classmethod(make)
    cls.size = property(size)
    backend.Base.inherited = inherited
    backend.Replaced = Replacement
    backend.helper = helper
    backend.MARKER = {"version": 3, "calls": [0, True, None, 1.5, "caf\\xe9", b"x"]}
    sys.modules["victim.odd"] = Odd()
    sys.modules["victim.blocked"] = None
"""

PATCHED = (
    "victim.backend:Backend.forward_extend",
    "victim.backend:Backend.forward_decode",
    "victim.backend:Backend.hidden",
    "victim.backend:Backend.partial_one",
    "victim.backend:Backend.tool",
    "victim.backend:Backend.make",
    "victim.backend:Backend.size",
    "victim.backend:Backend.inherited",
    "victim.backend:Replaced.method",
    "victim.backend:helper",
)
OTHERS = (
    "sitecustomize",
    "victim.backend",
    "victim.backend:Backend.untouched",
    "victim.backend:Backend",
    "victim.backend:Replaced",
    "victim.backend:MARKER",
    "victim.backend:nothing",
    "victim.backend:Backend.nothing",
    "victim.nothing",
    "json:loads",
)


def write_packages(folder: Path) -> dict[str, str]:
    """Write the victim, the hook and what it installs; return PYTHONPATH for the inside."""
    (folder / "app" / "victim").mkdir(parents=True)
    (folder / "app" / "victim" / "__init__.py").write_text("")
    (folder / "app" / "victim" / "backend.py").write_text(BACKEND)
    (folder / "hook").mkdir()
    (folder / "hook" / "patchlib.py").write_text(PATCHLIB)
    (folder / "hook" / "sitecustomize.py").write_text("import patchlib\npatchlib.install()\n")
    return {"hook": "hook", "app": "app"}


class Place:
    """Where an interpreter runs: its command, and a folder that both sides see."""

    def __init__(self, command: Sequence[str], folder: Path, inside: str) -> None:
        self.command = list(command)
        self.folder = folder
        self.inside = inside


def places() -> list[Any]:
    """Return the interpreters of the machine and those of the sid tree, as parameters."""
    found = [pytest.param((one.path, None), id=str(one)) for one in interpreters.found()]
    return found + [pytest.param((name, "sid"), id=f"sid-{name}") for name in SID]


@pytest.fixture(params=places())
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    path, tree_name = request.param
    if tree_name is None:
        yield Place([path], tmp_path, str(tmp_path))
        return
    tree = sid_tree()
    if tree is None:
        missing("sid", "no tree of Debian sid can be made here (root, debootstrap, a mirror)")
    folder = Path(tempfile.mkdtemp(dir=tree / "tmp"))
    try:
        yield Place(in_sid(path), folder, f"/tmp/{folder.name}")
    finally:
        shutil.rmtree(folder)


def newest() -> str:
    """Return one interpreter of the machine for tests that need no other."""
    return interpreters.found()[-1].path


def wrong_answers(target: PyTarget, queries: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return what differs from the process's own word, and what could not be read."""
    wrong: dict[str, Any] = {}
    unreadable = []
    with attached(target.pid) as reader:
        for query in queries:
            answer = reader.query(query)
            if answer.state is AnswerState.UNREADABLE:
                assert answer.reason
                assert answer.remedy
                unreadable.append(query)
            elif found := differences(answer, target.truth[query]):
                wrong[query] = found
    return wrong, unreadable


def test_hook_and_patches(place: Place) -> None:
    write_packages(place.folder)
    path = f"{place.inside}/hook:{place.inside}/app"
    queries = [*PATCHED, *OTHERS]
    environment = clean_environment(PYTHONPATH=path)
    with PyTarget(place.command, {"queries": queries}, environment) as target:
        assert wrong_answers(target, queries) == ({}, [])
        with attached(target.pid) as reader:
            hook = reader.query("sitecustomize")
            assert hook.found_module is not None
            assert hook.found_module.file == f"{place.inside}/hook/sitecustomize.py"
            for query in PATCHED:
                function = reader.query(query).function
                assert function is not None, query
                files = {function.file, function.innermost().file}
                assert f"{place.inside}/hook/patchlib.py" in files, query
            untouched = reader.query("victim.backend:Backend.untouched").function
            assert untouched is not None
            assert untouched.file == f"{place.inside}/app/victim/backend.py"
            assert not untouched.wraps


def test_a_copied_name_does_not_hide_where_code_is_from(place: Place) -> None:
    write_packages(place.folder)
    path = f"{place.inside}/hook:{place.inside}/app"
    environment = clean_environment(PYTHONPATH=path)
    with (
        PyTarget(place.command, {"queries": []}, environment) as target,
        attached(target.pid) as reader,
    ):
        wrapped = reader.query("victim.backend:Backend.forward_decode").function
        hidden = reader.query("victim.backend:Backend.hidden").function
        inherited = reader.query("victim.backend:Backend.inherited")
        replaced = reader.query("victim.backend:Replaced").type
        odd = reader.query("victim.odd")
        blocked = reader.query("victim.blocked")
    assert wrapped is not None
    assert (wrapped.module, wrapped.name) == ("victim.backend", "forward_decode")
    assert wrapped.file == f"{place.inside}/hook/patchlib.py"
    assert wrapped.globals_module == "patchlib"
    assert [link.via for link in wrapped.wraps] == ["__wrapped__"]
    assert wrapped.innermost().file == f"{place.inside}/app/victim/backend.py"
    assert hidden is not None
    assert [link.via for link in hidden.wraps] == ["closure variable original"]
    assert inherited.owner == "victim.backend.Base"
    assert replaced is not None
    assert (replaced.module, replaced.qualname) == ("patchlib", "Replacement")
    assert replaced.method_files == (f"{place.inside}/hook/patchlib.py",)
    assert odd.found_module is not None
    assert odd.found_module.type_name == "patchlib.Odd"
    assert blocked.state is AnswerState.NOT_IMPORTED
    assert "None" in blocked.reason


def test_sampled_attributes(place: Place) -> None:
    request = {"sample": {"modules": SAMPLED, "count": 150, "seed": 1}}
    with PyTarget(place.command, request, clean_environment()) as target:
        assert len(target.truth) == 150
        wrong, unreadable = wrong_answers(target, list(target.truth))
    assert wrong == {}
    assert len(unreadable) <= len(target.truth) // 100, unreadable


ENVIRON = """
import os
os.environ["LATER"] = "1"
os.environ["BYTES"] = os.fsdecode(b"\\xff=\\n")
del os.environ["GONE"]
"""


def test_os_environ_is_what_python_sees(place: Place) -> None:
    environment = clean_environment(GONE="1", KEPT="caf\u00e9", EMPTY="")
    with (
        PyTarget(place.command, {"run": ENVIRON, "queries": []}, environment) as target,
        attached(target.pid) as reader,
    ):
        found = reader.os_environ(lambda name: name != "KEPT")
    assert found.view is View.PYTHON
    assert found.status is EnvironmentStatus.COMPLETE
    assert "GONE" not in found.entries
    assert found.entries["KEPT"] is None
    values = {name: value.reveal() for name, value in found.entries.items() if value is not None}
    assert values["LATER"] == b"1"
    assert values["BYTES"] == b"\xff=\n"
    assert values["EMPTY"] == b""
    assert set(environment) - {"GONE"} <= set(found.entries)


@pytest.mark.parametrize("interpreter", interpreters.found(), ids=str)
def test_the_interpreter_itself(interpreter: interpreters.Interpreter, tmp_path: Path) -> None:
    run = (
        "import json, sys\n"
        f"json.dump([list(sys.flags), sys.path, sys.executable, sys.prefix, sys.argv, "
        f"sys.version.split()[0]], open({str(tmp_path / 'said')!r}, 'w'))"
    )
    command = [interpreter.path, "-I", "-E", "-B", "-X", "dev", "-O"]
    with PyTarget(command, {"run": run}, clean_environment()) as target:
        with attached(target.pid) as reader:
            fact = reader.interpreter()
        flags, path, executable, prefix, argv, version = json.loads((tmp_path / "said").read_text())
    assert list(fact.flags.values())[: len(flags)] == [int(flag) for flag in flags]
    assert fact.flags["isolated"] == fact.flags["ignore_environment"] == 1
    assert fact.flags["dev_mode"] == fact.flags["optimize"] == 1
    assert list(fact.path) == path
    assert (fact.executable, fact.prefix, list(fact.argv)) == (executable, prefix, argv)
    assert (fact.version, fact.build) == (version, "release")


SUBINTERPRETERS = """
import sys
try:
    import _interpreters as module
except ImportError:
    import _xxsubinterpreters as module
sys.kept = [module.create() for _ in range(3)]
import builtins
builtins.MARK = "main"
"""


def test_the_first_interpreter_is_read(place: Place) -> None:
    request = {"run": SUBINTERPRETERS, "queries": ["builtins:MARK", "sys:kept"]}
    with PyTarget(place.command, request, clean_environment()) as target:
        assert wrong_answers(target, request["queries"]) == ({}, [])  # type: ignore[arg-type]
        with attached(target.pid) as reader:
            assert reader.interpreter().interpreters == 4


MANY_MODULES = """
import sys, types
for number in range(100_000):
    name = "generated.module_%d" % number
    sys.modules[name] = types.ModuleType(name)
sys.modules["generated.module_99999"].MARK = 7
del sys.modules["generated.module_5"]
"""


def test_a_hundred_thousand_modules(place: Place) -> None:
    queries = ["generated.module_99999:MARK", "generated.module_5", "generated.module_6", "json"]
    request = {"run": MANY_MODULES, "imports": ["json"], "queries": queries}
    with PyTarget(place.command, request, clean_environment()) as target:
        started = time.process_time()
        assert wrong_answers(target, queries) == ({}, [])
        assert time.process_time() - started < 20


UNICODE = """
import sys, types
names = "caf\\xe9 \\u0434\\u0432\\u0430 \\U0001d4ea\\U0001d4eb mixed\\u0153\\xe9 \\udc80"
for name in names.split():
    module = types.ModuleType(name)
    setattr(module, "x" + name, {name: name * 3})
    sys.modules[name] = module
"""


def test_names_of_every_kind(place: Place) -> None:
    names = ["caf\xe9", "\u0434\u0432\u0430", "\U0001d4ea\U0001d4eb", "mixed\u0153\xe9", "\udc80"]
    queries = [*names, *(f"{name}:x{name}" for name in names), "caf\u0113", "\u0434\u0432\u0431"]
    with PyTarget(place.command, {"run": UNICODE, "queries": queries}) as target:
        assert wrong_answers(target, queries) == ({}, [])


LONG = """
import sys, types
class Text(str): pass
module = sys.modules["long"] = types.ModuleType("long")
module.text = "x" * 100_000
module.number = -(1 << 5000) + 12345
module.huge = 1 << 200_000
module.minus, module.zero, module.small = -1, 0, 1 << 30
module.deep = deep = []
for _ in range(50):
    deep.append([]); deep = deep[0]
module.around = around = []
around.append(around)
module.many = list(range(5000))
module.pairs = {n: str(n) for n in range(3000)}
module.kept = Text("subclass")
module.__dict__[Text("key")] = 5
"""


def test_values_are_bounded(place: Place) -> None:
    queries = [f"long:{name}" for name in ("number", "minus", "zero", "small", "many", "pairs")]
    queries += ["long:kept", "long:text", "long:around", "long:key"]
    with PyTarget(place.command, {"run": LONG, "queries": queries}) as target:
        wrong, unreadable = wrong_answers(target, queries)
        assert unreadable == []
        assert wrong == {}
        with attached(target.pid) as reader:
            text = reader.query("long:text").value
            huge = reader.query("long:huge")
            many = reader.query("long:many").value
            deep = reader.query("long:deep").value
    assert text is not None
    assert (text.length, text.cut) == (100_000, True)
    assert huge.state is AnswerState.UNREADABLE
    assert many is not None
    assert (many.length, len(many.items), many.cut) == (5000, 1000, True)
    levels = 0
    while deep is not None and deep.items:
        deep, levels = deep.items[0], levels + 1
    assert levels < 10


INSTANCES = """
import sys, types
class Plain:
    shared = 1
    def __init__(self): self.a = 1; self.b = "two"
class Slots:
    __slots__ = ("kept", "empty")
    def __init__(self): self.kept = "slot"
class Both(Slots):
    def __init__(self): self.kept = "slot"; self.more = 3
class Error(Exception): pass
class Computed:
    @property
    def value(self): return 1
    def __getattr__(self, name): return name
module = sys.modules["things"] = types.ModuleType("things")
module.plain = Plain()
module.used = Plain(); vars(module.used)["c"] = 3.5
module.odd = Plain(); del module.odd.a; module.odd.z = 26
module.slots, module.both = Slots(), Both()
module.error = Error("x"); module.error.code = 7
module.computed = Computed()
module.function = lambda: None
module.function.mark = "on the function"
module.many = Plain()
for n in range(100): setattr(module.many, "n%d" % n, n)
"""


def test_attributes_of_instances(place: Place) -> None:
    names = "plain.a plain.b plain.c used.a used.b used.c odd.a odd.b odd.z error.code"
    names += " slots.empty function.mark many.n0 many.n99 many.n100"
    queries = [f"things:{name}" for name in names.split()]
    computed = ["things:computed.value", "things:computed.anything"]
    slots = {"things:slots.kept": "slot", "things:both.kept": "slot"}
    with PyTarget(place.command, {"run": INSTANCES, "queries": queries}) as target:
        target.truth["things:slots.empty"] = {"state": "absent"}  # getattr_static shows the slot
        assert wrong_answers(target, queries) == ({}, [])
        with attached(target.pid) as reader:
            for query in computed:
                assert reader.query(query).state is AnswerState.UNREADABLE
            for query, text in slots.items():
                value = reader.query(query).value
                assert value is not None
                assert value.plain() == text
            more = reader.query("things:both.more").value
            assert more is not None
            assert more.plain() == 3


def spawn(command: Sequence[str], text: str) -> subprocess.Popen[bytes]:
    """Start an interpreter with a program that prints a line when it is ready."""
    process = subprocess.Popen(
        [*command, "-c", text],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=clean_environment(),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


@contextlib.contextmanager
def running(command: Sequence[str], text: str) -> Iterator[int]:
    process = spawn(command, text)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


CREDENTIALS = """
import collections, os, sys
login = collections.namedtuple("Login", "user password")("bob", "hunter2pw")
sys.argv[1:] = ["--api-key", "hunter2pw"]
os.environ["DB_PASSWORD"] = "hunter2pw"
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("python", interpreters.found(), ids=str)
def test_what_names_a_credential_is_read_with_it(python: interpreters.Interpreter) -> None:
    names = {"__main__:login": "password", "sys:argv": "", "os:environ._data": "DB_PASSWORD"}
    with running([python.path], CREDENTIALS) as pid, attached(pid) as reader:
        for query, name in names.items():
            answer = reader.query(query)
            assert answer.value is not None, query
            assert name in [text_of(key) or "" for key in answer.value.keys] or not name
            raw = answer.value.plain()
            assert "hunter2pw" in str(raw)
            shown = json.dumps(answer_document(answer, {}, 0.0, unmask=False))
            assert "hunter2pw" not in shown
            assert "masked" in shown


IMPORTING = """
import importlib, itertools, os, sys, threading, types
sys.path.insert(0, FOLDER)
sys.dont_write_bytecode = True
module = sys.modules["stable"] = types.ModuleType("stable")
module.value = 5
module.counter = 1 << 40
class Patched:
    def method(self): pass
module.Patched = Patched
def busy():
    for number in itertools.count():
        for name in NAMES:
            importlib.import_module(name)
            setattr(module, "name_%d" % number, number)
            setattr(Patched, "name_%d" % number, number)
            module.counter += 1
        for name in NAMES:
            del sys.modules[name]
NAMES = sorted(name[:-3] for name in os.listdir(FOLDER))
threading.Thread(target=busy, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("interpreter", interpreters.found(), ids=str)
def test_a_process_busy_importing(interpreter: interpreters.Interpreter, tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"busy_{number}.py").write_text("class Some:\n    value = 1\n")
    settled = 0
    program = f"FOLDER = {str(tmp_path)!r}\n" + IMPORTING
    with running([interpreter.path], program) as pid, attached(pid) as reader:
        for _ in range(20):
            value = reader.query("stable:value")
            absent = reader.query("stable:nothing")
            method = reader.query("stable:Patched.method")
            counter = reader.query("stable:counter")
            never = reader.query("never")
            for answer in (value, absent, method, counter, never):
                settled += answer.state is not AnswerState.CHANGING
                assert answer.state is not AnswerState.UNREADABLE, answer
            if value.value is not None:
                assert value.value.plain() == 5
            assert absent.state in (AnswerState.ABSENT, AnswerState.CHANGING)
            if method.function is not None:
                assert method.function.code_name in ("Patched.method", "method")
            if counter.value is not None:
                assert counter.value.plain() >= 1 << 40  # type: ignore[operator]
            assert never.state in (AnswerState.NOT_IMPORTED, AnswerState.CHANGING)
    assert settled > 75


CHURNING = """
import itertools, sys, threading, types
module = sys.modules["stable"] = types.ModuleType("stable")
module.value = 5
def churn():
    for number in itertools.count():
        sys.modules["churned.%d" % number] = types.ModuleType("churned")
        setattr(module, "name_%d" % number, number)
        if number > 500:
            del sys.modules["churned.%d" % (number - 500)]
            delattr(module, "name_%d" % (number - 500))
threading.Thread(target=churn, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("interpreter", interpreters.found(), ids=str)
def test_dicts_that_are_resized_all_the_time(interpreter: interpreters.Interpreter) -> None:
    with running([interpreter.path], CHURNING) as pid, attached(pid) as reader:
        for _ in range(4):
            value = reader.query("stable:value")
            assert value.state in (AnswerState.VALUE, AnswerState.CHANGING)
            if value.value is not None:
                assert value.value.plain() == 5
            absent = reader.query("stable:nothing")
            assert absent.state in (AnswerState.ABSENT, AnswerState.CHANGING)


def test_a_module_that_is_being_imported(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import sys\nfirst = 1\nprint('ready', flush=True)\nsys.stdin.read()\nlater = 2\n"
    )
    program = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport slow"
    with running([newest()], program) as pid, attached(pid) as reader:
        module = reader.query("slow").found_module
        first, later = reader.query("slow:first"), reader.query("slow:later")
    assert module is not None
    assert module.initializing
    assert first.value is not None
    assert first.value.plain() == 1
    assert later.state is AnswerState.NOT_IMPORTED
    assert "being imported" in later.reason


ENDING = """
import sys
class Last:
    def __init__(self): self.out, self.wait = sys.stdout, sys.stdin
    def __del__(self):
        self.out.write("ready\\n"); self.out.flush(); self.wait.read()
value = 5
last = Last()
"""


@pytest.mark.parametrize("interpreter", interpreters.found(), ids=str)
def test_a_process_at_exit(interpreter: interpreters.Interpreter) -> None:
    with running([interpreter.path], ENDING) as pid, pytest.raises(NotRunning), attached(pid):
        pass


def test_an_answer_is_no_answer_once_the_interpreter_ends() -> None:
    program = ENDING.replace("last = Last()", "last = Last(); print('ready', flush=True); input()")
    process = spawn([newest()], program)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with attached(process.pid) as reader:
            before = reader.query("__main__:value")
            process.stdin.write(b"\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"ready\n"
            after = reader.query("__main__:value")
            environment = reader.os_environ()
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
    assert before.value is not None
    assert before.value.plain() == 5
    assert after.state is AnswerState.UNREADABLE
    assert "shutting down" in after.reason
    assert environment.status is EnvironmentStatus.NOT_APPLICABLE


def test_os_that_is_not_imported_yet() -> None:
    program = "import sys; sys.modules.pop('os', None); sys.stdout.write('ready\\n'); "
    program += "sys.stdout.flush(); sys.stdin.read()"
    with running([newest(), "-I", "-S"], program) as pid, attached(pid) as reader:
        found = reader.os_environ()
    assert found.status is EnvironmentStatus.NOT_APPLICABLE
    assert "not imported" in found.reason


def test_lazy_modules_are_not_followed() -> None:
    program = (
        "import sys, importlib.util as u\n"
        "spec = u.find_spec('colorsys'); spec.loader = u.LazyLoader(spec.loader)\n"
        "module = u.module_from_spec(spec); sys.modules['colorsys'] = module\n"
        "spec.loader.exec_module(module)\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    with running([newest()], program) as pid, attached(pid) as reader:
        answer = reader.query("colorsys:rgb_to_hls")
    assert answer.state is AnswerState.NOT_IMPORTED


def test_lazy_imports_of_3_15_are_not_followed() -> None:
    if sid_tree() is None:
        missing("sid", "CPython 3.15 comes from a tree of Debian sid")
    program = "lazy import colorsys\nimport sys\nprint('ready', flush=True)\nsys.stdin.read()"
    with running(in_sid("python3.15"), program) as pid, attached(pid) as reader:
        answer = reader.query("__main__:colorsys")
    assert answer.state is AnswerState.NOT_IMPORTED
    assert "lazy import" in answer.reason


def test_a_renamed_executable_that_is_gone(tmp_path: Path) -> None:
    static = Path("/usr/bin/python3")
    if not static.exists():
        missing("debian-python", "no /usr/bin/python3")
    copy = tmp_path / "inference-worker"
    shutil.copy2(static.resolve(), copy)
    with PyTarget([str(copy), "-I"], {"queries": ["json:loads", "os:environ"]}) as target:
        copy.unlink()
        assert wrong_answers(target, ["json:loads", "os:environ"]) == ({}, [])


@contextlib.contextmanager
def cat(**more: str) -> Iterator[int]:
    """Start a program that is no Python; its loader is done when it has answered."""
    process = subprocess.Popen(
        ["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_environment(**more)
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"ready\n")
        process.stdin.flush()
        process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def test_a_program_that_is_no_python() -> None:
    with cat() as pid, pytest.raises(NoPython), attached(pid):
        pass


def test_what_came_before_the_runtime_structure_is_called_old() -> None:
    """CPython before 3.7 has no `_PyRuntime`: a library that exports what it does have."""
    library = build("only_environ", "-shared", "-fPIC", "-Wl,--defsym=Py_Initialize=environ")
    with (
        cat(LD_PRELOAD=str(library)) as pid,
        pytest.raises(UnknownBuild, match="a CPython older than") as caught,
        attached(pid),
    ):
        pass
    assert caught.value.reason.startswith(library.name)
    assert "3.9 to 3.15" in caught.value.remedy


def test_a_version_without_a_layout_is_refused() -> None:
    found = sorted(PYENV.glob("3.[78].*/bin/python3"))
    if not found:
        missing("old-python", "no CPython 3.7 or 3.8 below ~/.pyenv")
    program = "import sys; print('ready', flush=True); sys.stdin.read()"
    with (
        running([str(found[-1])], program) as pid,
        pytest.raises(UnknownBuild) as caught,
        attached(pid),
    ):
        pass
    assert "older than 3.9" in caught.value.reason
    assert "--calibrate" not in caught.value.remedy


def test_the_hint_at_an_attribute() -> None:
    with (
        PyTarget([sys.executable], {"imports": ["json"]}) as target,
        attached(target.pid) as reader,
    ):
        answer = reader.query("json.loads")
        assert answer.state is AnswerState.NOT_IMPORTED
        assert "json:loads" in answer.notes[0]
        for meant in ("json.decoder.JSONDecoder.decode", "json.decoder.JSONDecoder:decode"):
            answer = reader.query(meant)
            assert answer.notes == ("did you mean json.decoder:JSONDecoder.decode?",)
            assert "json.decoder:JSONDecoder.decode" in answer.remedy
        assert reader.query("json.nothing.at.all").notes == ()
        builtin = reader.query("os:getcwd")
        assert builtin.kind is Kind.CALLABLE
        assert builtin.function is not None
        assert builtin.function.library is not None
        names = reader.modules()
        assert {"json", "sys", "builtins"} <= set(names)
        assert reader.module_files()["json"].endswith("json/__init__.py")
        with pytest.raises(UsageError):
            reader.query("json:")


@pytest.mark.parametrize("python", ["python3.13d", "python3.14d", "python3.15d"])
def test_debug_builds(python: str) -> None:
    if not full_sid_tree():
        missing("sid-full", "debug builds come from a tree of `scripts/sid_chroot.sh --full`")
    request = {"sample": {"modules": SAMPLED, "count": 100, "seed": 2}}
    with PyTarget(in_sid(python), request, clean_environment()) as target:
        assert wrong_answers(target, list(target.truth)) == ({}, [])
        with attached(target.pid) as reader:
            assert reader.interpreter().build == "debug"


@pytest.mark.parametrize("interpreter", interpreters.found(), ids=str)
def test_a_calibrated_layout_reads_an_unknown_build(
    interpreter: interpreters.Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Path(calibrate.__file__).read_text()
    done = subprocess.run(
        [interpreter.path, "-I", "-S", "-c", program], capture_output=True, check=True, timeout=60
    )
    layout = layouts.calibrated(json.loads(done.stdout))
    request = {"sample": {"modules": ["json", "functools", "enum"], "count": 100, "seed": 3}}
    monkeypatch.setattr(layouts, "known", lambda minor: False)
    with PyTarget([interpreter.path], request, clean_environment()) as target:
        with pytest.raises(UnknownBuild), attached(target.pid):
            pass
        with attached(target.pid, layout) as reader:
            answers = {query: reader.query(query) for query in target.truth}
    wrong = {q: differences(answer, target.truth[q]) for q, answer in answers.items()}
    assert {query: found for query, found in wrong.items() if found} == {}
