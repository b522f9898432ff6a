"""A written hook keeps its promises, on every interpreter of this machine."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.programs import interpreters, startups
from tests.programs.envprobe_cli import envprobe, parsed
from tests.programs.hooked import ENGINE, FORWARD, KERNELS, prepare, run
from tests.programs.requirement import missing
from tests.programs.sglang_server import SglangError, find_environment
from tests.programs.startups import Place
from tests.programs.trees import TitledTree

DEBIAN = Path("/usr/bin/python3")
QUERY = "sitecustomize:ENVPROBE_HOOK"


@pytest.fixture(params=startups.pythons(), ids=str)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Return a directory for each interpreter."""
    with startups.place(request.param) as made:
        yield made


# --- patches -------------------------------------------------------------------------------------

REACH = """
    import json, multiprocessing, os, subprocess, sys
    import children

    found = {"before": "kernels" in sys.modules}
    if __name__ == "__main__":
        for method in ("spawn", "fork", "forkserver"):
            context = multiprocessing.get_context(method)
            receiving, sending = context.Pipe(duplex=False)
            child = context.Process(target=children.send, args=(sending,))
            child.start()
            found[method] = receiving.recv()
            child.join()
        command = [sys.executable, "-c", "import children; children.show()"]
        found["subprocess"] = json.loads(subprocess.check_output(command))
        found["parent"] = children.state()
        print(json.dumps(found))
"""
CHILDREN = """
    import json, os, sys


    def state():
        import serving.engine
        import sitecustomize

        hook = sitecustomize.ENVPROBE_HOOK
        return [
            serving.engine.Backend().forward(),
            sys.replaced,
            sys.kernels,
            hook["patches"],
            hook["pid"] == os.getpid(),
        ]


    def send(connection):
        connection.send(state())


    def show():
        print(json.dumps(state()))
"""


def test_a_patch_reaches_every_kind_of_child_once(place: Place) -> None:
    path = prepare(place, FORWARD)
    place.write("app/children.py", CHILDREN)
    patched: list[Any] = ["patched", 1, 1, {"serving.engine:Backend.forward": "applied"}]
    found = run(place, REACH, path).said
    assert found.pop("before") is False
    assert found == {
        "parent": [*patched, True],
        "spawn": [*patched, True],
        "subprocess": [*patched, True],
        # Their start is that of another process, whose hook they have.
        "fork": [*patched, False],
        "forkserver": [*patched, False],
    }


KINDS = """
    import importlib, inspect, json, sys
    import serving.engine as engine
    backend = engine.Backend()
    found = {
        "results": [
            backend.forward(), backend.inherited(), engine.Base().inherited(), engine.function(),
            engine.during, backend.static("a"), engine.Backend.static("b"), backend.klass("c"),
        ],
        "loader": [type(engine.__loader__).__name__, type(engine.__spec__.loader).__name__],
        "source": "class Counting" in inspect.getsource(engine),
        "replaced": sys.replaced,
        "kernels": sys.kernels,
    }
    importlib.reload(engine)
    found["reloaded"] = [engine.Backend().forward(), sys.replaced]
    found["older"] = backend.forward()
    del sys.modules["serving.engine"]
    import serving.engine as again
    found["again"] = [again is not engine, again.Backend().forward(), sys.replaced, sys.kernels]
    found["hooks"] = sum(type(one).__name__ == "EnvprobeFinder" for one in sys.meta_path)
    print(json.dumps(found))
"""
ALL_KINDS = (
    FORWARD,
    "serving.engine:Backend.inherited=kernels:inherited",
    "serving.engine:Backend.static=kernels:static",
    "serving.engine:Backend.klass=kernels:klass",
    "serving.engine:function=kernels:function",
)


def test_every_kind_of_attribute_through_reloads(place: Place) -> None:
    found = run(place, KINDS, prepare(place, *ALL_KINDS)).said
    assert found == {
        "results": [
            *("patched", "patched", "original", "patched", "original"),
            *("patched a", "patched b", "patched Backendc"),
        ],
        "loader": ["SourceFileLoader"] * 2,
        "source": True,
        "replaced": 4,
        "kernels": 1,
        "reloaded": ["patched", 8],
        "older": "patched",
        "again": [True, "patched", 12, 1],
        "hooks": 1,
    }


SHOW = """
    import json, sys
    import sitecustomize
    try:
        import serving.engine
        result = serving.engine.Backend().forward()
    except Exception as error:
        result = type(error).__name__
    print(json.dumps([result, sitecustomize.ENVPROBE_HOOK["patches"]]))
"""


def test_a_module_of_a_zip_file_and_one_of_native_code(place: Place) -> None:
    path = prepare(place, FORWARD, "_csv:reader=kernels:function")
    shutil.rmtree(place.outside("app/serving"))
    with zipfile.ZipFile(place.outside("app/engine.zip"), "w") as archive:
        archive.writestr("serving/__init__.py", "")
        archive.writestr("serving/helper.py", "")
        archive.writestr("serving/engine.py", ENGINE.replace("\n    ", "\n"))
    program = "    import csv; assert csv.reader() == 'patched' and csv.writer\n" + SHOW
    assert run(place, program, f"{path}:{place.path}/app/engine.zip").said == [
        "patched",
        {"serving.engine:Backend.forward": "applied", "_csv:reader": "applied"},
    ]


def test_a_module_that_is_there_already_is_patched_at_once(place: Place) -> None:
    path = prepare(place, "posixpath:basename=kernels:function")
    place.write("other/sitecustomize.py", "import posixpath, sys\nsys.seen = posixpath.basename()")
    program = "    import sys; print('[\"%s\"]' % sys.seen)\n"
    assert run(place, program, f"{path}:{place.path}/other").said == ["patched"]


FAILURES = {
    "serving.engine:Backend.forward=nowhere:forward": (
        "failed: ModuleNotFoundError: No module named 'nowhere'"
    ),
    "serving.engine:Backend.klass=kernels:nothing": (
        "failed: AttributeError: there is no 'nothing' in kernels:nothing"
    ),
    "serving.engine:Backend.forwrad=kernels:forward": (
        "failed: AttributeError: there is no 'forwrad' in serving.engine:Backend.forwrad"
    ),
    "serving.engine:Missing.forward=kernels:forward": (
        "failed: AttributeError: there is no 'Missing' in serving.engine:Missing.forward"
    ),
    "serving.engine:Backend.static=leaves:forward": "failed: SystemExit: 3",
    "serving.engine:Backend.inherited=breaks:forward": "failed: ValueError: in the end",
    "serving.engine:function=odd:function": "failed: Odd",
    "builtins:int.real=kernels:forward": "failed: TypeError: ",
    "serving.nowhere:function=kernels:function": "waiting",
    "serving.engine:Base.inherited=kernels:inherited": "applied",
}


def test_a_failure_is_recorded_and_not_raised(place: Place) -> None:
    path = prepare(place, *FAILURES)
    place.write("app/leaves.py", "raise SystemExit(3)\n")
    place.write("app/odd.py", "class Odd(Exception):\n    def __str__(self): 1 / 0\nraise Odd\n")
    place.write(
        "app/breaks.py",
        "def forward(self): pass\nimport colorsys\nraise ValueError('in the end')\n",
    )
    program = SHOW + "    assert serving.engine.Backend().inherited() == 'patched'\n"
    result, states = run(place, program, path).said
    assert result == "original"
    for patch, state in FAILURES.items():
        assert states.pop(patch.partition("=")[0]).startswith(state), patch
    assert not states


def test_a_target_that_fails_fails_as_ever_and_is_patched_when_it_works(place: Place) -> None:
    path = prepare(place, FORWARD)
    place.write("app/serving/engine.py", "import sys\nif not hasattr(sys, 'ok'): 1 / 0\n" + ENGINE)
    engine = place.outside("app/serving/engine.py")
    head, _, rest = engine.read_text().partition("    import sys")
    engine.write_text(head + "import sys" + rest.replace("\n    ", "\n"))
    result, states = run(place, SHOW, path).said
    assert (result, list(states.values())) == ("ZeroDivisionError", ["waiting"])
    first = SHOW.replace("print(", "0 and print(")
    assert run(place, first + "    sys.ok = 1\n" + SHOW, path).said[0] == "patched"


def test_the_replacements_module_may_import_the_target_first(place: Place) -> None:
    path = prepare(place, FORWARD)
    place.write("app/kernels.py", "    import serving.engine\n" + KERNELS)
    result, states = run(place, "    import kernels\n" + SHOW, path).said
    assert (result, list(states.values())) == ("patched", ["applied"])


IN_FRONT = """
    import sys
    from importlib.machinery import PathFinder


    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name.startswith("serving"):
                return PathFinder.find_spec(name, path, target)


    sys.meta_path.insert(0, Finder)
"""


def test_a_module_that_another_finder_brought_is_patched_at_the_next_import(place: Place) -> None:
    path = prepare(place, FORWARD)
    place.write("app/later.py")
    program = IN_FRONT + "    import serving.engine, later\n" + SHOW
    result, states = run(place, program, path).said
    assert (result, list(states.values())) == ("patched", ["applied"])


THREADS = """
    import json, sys, threading
    barrier = threading.Barrier(8)
    results = []


    def work():
        barrier.wait()
        import serving.engine
        results.append(serving.engine.Backend().forward())


    threads = [threading.Thread(target=work) for _ in range(8)]
    for one in threads: one.start()
    for one in threads: one.join()
    print(json.dumps([results, sys.replaced]))
"""


def test_threads_that_import_at_once_find_one_patch(place: Place) -> None:
    path = prepare(place, FORWARD)
    assert run(place, THREADS, path).said == [["patched"] * 8, 1]


SGLANG = """
    import json, sys
    before = sorted({"torch", "sglang", "kernels"} & set(sys.modules))
    from sglang.srt.layers.attention.triton_backend import TritonAttnBackend
    import sitecustomize
    print(json.dumps([before, TritonAttnBackend.forward_extend.__module__, sys.kernels,
                      sitecustomize.ENVPROBE_HOOK["patches"]]))
"""


@pytest.mark.sglang
def test_the_real_backend_is_patched_when_sglang_imports_it() -> None:
    try:
        python = str(find_environment() / "venv" / "bin" / "python")
    except SglangError as error:
        missing("sglang", str(error))
    target = "sglang.srt.layers.attention.triton_backend:TritonAttnBackend.forward_extend"
    with startups.place(startups.Python(python, (3, 11))) as place:
        path = prepare(place, f"{target}=kernels:forward")
        ran = run(place, SGLANG, path, HOME=place.path, TRITON_INTERPRET="1")
    assert ran.code == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]) == [[], "kernels", 1, {target: "applied"}]


# --- the hook that it hides ----------------------------------------------------------------------

HIDDEN = """
    import sys

    own = sys.modules[__name__].__dict__ is globals()
    sys.hidden = getattr(sys, "hidden", []) + [
        [__name__, __file__, __spec__.name, __spec__.origin, type(__loader__).__name__, own]
    ]
    NAME = "of the hidden hook"
"""
ASK_HIDDEN = """
    import json, sys
    import sitecustomize
    print(json.dumps([getattr(sys, "hidden", None), sitecustomize.NAME]))
"""
ASK_STATE = """
    import json
    import sitecustomize
    print(json.dumps(sitecustomize.ENVPROBE_HOOK["chained"]))
"""


def hidden_as(place: Place, kind: str) -> str:
    """Write a hook of some kind and return its entry of sys.path."""
    place.write("source/sitecustomize.py", HIDDEN)
    if kind == "sourceless":
        program = (
            "import py_compile; py_compile.compile('{0}/source/sitecustomize.py',"
            " '{0}/sourceless/sitecustomize.pyc')"
        )
        assert run(place, program.format(place.path), None).code == 0
    elif kind == "package":
        place.write("package/sitecustomize/__init__.py", HIDDEN + "    from . import inner\n")
        place.write("package/sitecustomize/inner.py")
        place.write("package/sitecustomize/late.py")
    elif kind == "zip":
        with zipfile.ZipFile(place.outside("zip"), "w") as archive:
            archive.write(place.outside("source/sitecustomize.py"), "sitecustomize.py")
    return f"{place.path}/{kind}"


@pytest.mark.parametrize("kind", ["source", "sourceless", "package", "zip"])
def test_the_hidden_hook_runs_once_and_as_itself(place: Place, kind: str) -> None:
    path = prepare(place, FORWARD)
    entry = hidden_as(place, kind)
    # An empty directory of that name is no hook, and does not end the search.
    place.outside("empty/sitecustomize").mkdir(parents=True)
    program = ASK_HIDDEN
    if kind == "package":
        program += "    import sitecustomize.late\n    sitecustomize.inner.__file__\n"
    alone = run(place, program, entry)
    chained = run(place, program + ASK_STATE, f"{path}:{place.path}/empty:{entry}")
    assert (chained.code, chained.stderr) == (0, "")
    shown, states = chained.stdout.splitlines(keepends=True)
    assert (shown, len(alone.said[0])) == (alone.stdout, 1)
    assert json.loads(states) == {alone.said[0][0][1]: "ran"}


def test_the_hook_itself_may_be_in_a_zip_file(place: Place) -> None:
    path = prepare(place, FORWARD)
    entry = hidden_as(place, "source")
    with zipfile.ZipFile(place.outside("hook.zip"), "w") as archive:
        archive.write(place.outside("hooks/sitecustomize.py"), "sitecustomize.py")
    path = f"{place.path}/hook.zip:{place.path}/app"
    assert run(place, SHOW, path).said[0] == "patched"
    assert run(place, ASK_HIDDEN, f"{path}:{entry}") == run(place, ASK_HIDDEN, entry)


ENDS = {
    "raises": "raise ValueError('with a reason')",
    "named-so": "raise ModuleNotFoundError('gone', name='sitecustomize')",
    "leaves": "raise SystemExit(7)",
    "deletes-itself": "import sys; del sys.modules['sitecustomize']",
}


@pytest.mark.parametrize("end", ENDS)
def test_an_error_of_the_hidden_hook_is_told_as_ever(place: Place, end: str) -> None:
    path = prepare(place, FORWARD)
    file = place.write("other/sitecustomize.py", ENDS[end] + "\n")
    entry = f"{place.path}/other"
    program = "    import serving.engine; print(serving.engine.Backend().forward())\n"
    alone = run(place, program, f"{entry}:{place.path}/app")
    chained = run(place, program + ASK_STATE, f"{path}:{entry}")
    if end == "leaves":
        last = [ran.stderr.splitlines()[-1] for ran in (alone, chained)]
        assert (chained.code, chained.stdout, last) == (alone.code, "", ["SystemExit: 7"] * 2)
        return
    assert (chained.code, chained.stderr) == (alone.code, alone.stderr) == (0, alone.stderr)
    assert bool(alone.stderr) is (end != "named-so")
    shown, states = chained.stdout.splitlines()
    assert (shown, alone.stdout) == ("patched", "original\n")
    assert json.loads(states)[file].startswith("failed: ")


def test_a_hidden_hook_may_look_for_the_next_one_itself(place: Place) -> None:
    path = prepare(place, FORWARD)
    place.write("last/sitecustomize.py", HIDDEN)
    # Two ways that agents have: with their own directory taken from sys.path, and without.
    again = "\ndel sys.modules['sitecustomize']\nimport sitecustomize\n"
    own = f"{place.path}/agent"
    entries = [own, f"{place.path}/last"]
    polite = f"import sys\nsys.path.remove({own!r}){again}sys.path.insert(0, {own!r})\n"
    for text in (polite, "import sys" + again):
        place.write("agent/sitecustomize.py", "import sys\nsys.agent = 1\n" + text)
        ran = run(place, ASK_HIDDEN + ASK_STATE, ":".join([path, *entries]))
        (hidden, _), chained = map(json.loads, ran.stdout.splitlines())
        assert (ran.code, ran.stderr) == (0, "")
        assert [one[1] for one in hidden] == [f"{entries[1]}/sitecustomize.py"]
        assert chained == {f"{entry}/sitecustomize.py": "ran" for entry in entries}


COUNT = """
    finders = [one for one in sys.meta_path if type(one).__name__ == "EnvprobeFinder"]
    print(json.dumps([serving.engine.function(), sys.hidden, len(finders)]))
"""


def test_one_hook_by_two_names_and_two_hooks(place: Place) -> None:
    path = prepare(place, FORWARD)
    place.outside("link").symlink_to("hooks")
    prepare(place, "serving.engine:function=kernels:function", directory="more")
    entry = hidden_as(place, "source")
    others = ":".join(f"{place.path}/{name}" for name in ("link", "more", "hooks"))
    program = SHOW + COUNT
    ran = run(place, program, f"{path}:{others}:{entry}")
    (result, _), (function, hidden, finders) = map(json.loads, ran.stdout.splitlines())
    assert (result, function, len(hidden), ran.stderr) == ("patched", "patched", 1, "")
    assert finders == 2


IN_FRONT_OF_IT = """
    import sys
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    sys.front = getattr(sys, "front", 0) + 1
    spec = PathFinder.find_spec("sitecustomize", ["{}"])
    sys.modules["sitecustomize"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["sitecustomize"])
"""


def test_a_hook_that_runs_this_one_is_not_run_by_it(place: Place) -> None:
    path = prepare(place, FORWARD)
    place.write("front/sitecustomize.py", IN_FRONT_OF_IT.format(f"{place.path}/hooks"))
    entry = hidden_as(place, "source")
    program = "    import json, sys; print(json.dumps([sys.front, len(sys.hidden)]))\n"
    assert run(place, program, f"{place.path}/front:{path}:{entry}").said == [1, 1]


def test_debians_own_hook_is_run() -> None:
    if not list(Path("/usr/lib").glob("python3.*/sitecustomize.py")) or not DEBIAN.exists():
        missing("debian-python", "no /usr/lib/python3.*/sitecustomize.py")
    real = DEBIAN.resolve()
    with startups.place(startups.Python(str(real), (3, int(real.name.split(".")[1])))) as place:
        found = run(place, ASK_STATE, prepare(place, FORWARD)).said
    assert found == {f"/usr/lib/{real.name}/sitecustomize.py": "ran"}


# --- as a .pth file ------------------------------------------------------------------------------


def test_in_a_virtual_environment_it_runs_beside_every_sitecustomize(place: Place) -> None:
    version = ".".join(map(str, place.python.version))
    packages = f"venv/lib/python{version}/site-packages"
    place.write("venv/pyvenv.cfg", f"home = {os.path.dirname(place.python.path)}\n")
    place.outside("venv/bin").mkdir()
    python = f"{place.path}/venv/bin/python"
    place.outside("venv/bin/python").symlink_to(place.python.path)
    prepare(place, FORWARD, directory=packages, name="my_hook")
    place.write(f"{packages}/app.pth", f"{place.path}/app\n")
    program = SHOW.replace("import sitecustomize", "import my_hook as sitecustomize")
    # It takes the place of no module, so that it has none to run.
    place.write("app/my_hook.py", "1 / 0\n")
    for flags in (("-I",), ("-E", "-s"), ("-B",)):
        result, states = run(place, program, None, *flags, python=python).said
        assert (result, list(states.values())) == ("patched", ["applied"])
    entry = hidden_as(place, "source")
    assert run(place, program, entry, python=python).said[0] == "patched"
    assert run(place, ASK_HIDDEN, entry, python=python) == run(place, ASK_HIDDEN, entry)


# --- what it costs and leaves --------------------------------------------------------------------

MODULES = "    import json, sys; print(json.dumps(sorted(sys.modules)))\n"


def test_it_imports_nothing_that_is_not_there_already(place: Place) -> None:
    path = prepare(place, FORWARD)
    place.write("plain/sitecustomize.py")
    assert run(place, MODULES, path).said == run(place, MODULES, f"{place.path}/plain").said


def test_flags_and_the_safe_path_do_not_matter(place: Place) -> None:
    path = prepare(place, FORWARD)
    result, states = run(place, SHOW, path, "-B", "-s", "-O", PYTHONSAFEPATH="1").said
    assert (result, list(states.values())) == ("patched", ["applied"])
    assert not place.outside("hooks/__pycache__").exists()


# --- read back -----------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Return a value of the JSON report as a Python object."""
    if value["kind"] == "dict":
        return {one["key"]["text"]: plain(one["value"]) for one in value["items"]}
    return int(value["text"]) if value["kind"] == "int" else value["text"]


@pytest.mark.parametrize("python", interpreters.found()[:: len(interpreters.found()) - 1], ids=str)
def test_a_retitled_worker_is_asked_from_outside(
    python: interpreters.Interpreter, tmp_path: Path
) -> None:
    with startups.place(startups.Python(*python)) as place:
        # titled.py imports json; nothing imports the engine.
        path = prepare(place, FORWARD, "json:dumps=json:dumps_", "socket:socket=kernels:Nothing")
        with TitledTree(
            python.path, workers=1, env={"PYTHONPATH": path}, titler="own", detokenizer=False
        ) as tree:
            worker = tree.worker(0)
            ran = envprobe("inspect", "--pid", str(worker), "--format", "json", QUERY)
        file = f"{place.path}/hooks/sitecustomize.py"
    report = parsed(ran)
    assert (ran.returncode, report["process"]["command"].strip()) == (0, "sglang::scheduler_TP0")
    (answer,) = report["answers"]
    state = plain(answer["value"])
    assert (state["file"], state["pid"]) == (file, worker)
    assert state["microseconds"] > 0
    assert state["patches"]["serving.engine:Backend.forward"] == "waiting"
    assert state["patches"]["json:dumps"].startswith("failed: AttributeError: ")
    assert state["patches"]["socket:socket"].startswith("failed: AttributeError: ")
