"""`--patch` and expected hooks on real retitled workers: code, finding and process."""

from __future__ import annotations

import json
import os
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_scenarios_wait import waiting
from tests.programs import cli, interpreters
from tests.programs.actions import Action, load, py_set, py_unset
from tests.programs.cli import Run
from tests.programs.patchhooks import AT_ONCE, QUERIES, Hooks, lazy, written
from tests.programs.requirement import missing
from tests.programs.trees import TitledTree

LAZY = lazy("engine")
LOAD = load("engine")
PLAIN = "engine:Backend.plain"


def without_hook(hooks: Hooks, **fields: Any) -> Action:
    """Start a worker without PYTHONPATH: it gets sys.path from its parent, and so no hook."""
    return Action(
        parent_before=[py_unset("PYTHONPATH")],
        parent_after=[py_set("PYTHONPATH", hooks.path)],
        **fields,
    )


def patches(source: object, queries: Sequence[str] = QUERIES) -> list[str]:
    return [f"--patch={query}={source}" for query in queries]


def statuses(run: Run, query: str) -> dict[int, str]:
    """Return what the report says of one expected patch, by process."""
    (stated,) = (one for one in run.scan["patches"] if one["query"] == query)
    return {one["pid"]: one["status"] for one in stated["processes"]}


def of_patch(run: Run, check: str, query: str) -> set[int]:
    """Return the processes of a check's findings that speak of a question."""
    return {
        pid for one in run.findings(check) if f"{query} " in one["message"] for pid in one["pids"]
    }


@pytest.mark.parametrize("hook", [AT_ONCE, LAZY], ids=["at-once", "lazy"])
@pytest.mark.parametrize("python", interpreters.found(), ids=str)
def test_every_way_to_patch_is_told_from_the_original(
    python: interpreters.Interpreter, hook: str, tmp_path: Path
) -> None:
    hooks = written(tmp_path, hook)
    actions: dict[int | str, Action] = {
        0: Action(after_title=[LOAD]),
        1: without_hook(hooks, after_title=[LOAD]),
    }
    with TitledTree(
        python.path, workers=2, env={"PYTHONPATH": hooks.path}, actions=actions
    ) as tree:
        run = cli.judge("--pid", str(tree.root), *patches("my_kernels"))
        patched, unpatched = tree.workers()
        assert run.code == 1
        assert run.pids("patch-missing") == {unpatched}
        for query in QUERIES:
            assert statuses(run, query) == {patched: "holds", unpatched: "broken"}, query
            assert of_patch(run, "patch-missing", query) == {unpatched}
        assert run.findings("patch-unknown") == run.findings("patch-not-imported") == []
        (hook_finding,) = run.findings("hook-differs")
        assert (hook_finding["severity"], hook_finding["pids"]) == ("warning", [unpatched])


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Hooks:
    return written(tmp_path_factory.mktemp("patched"), AT_ONCE)


@pytest.fixture(scope="module")
def tree(hooks: Hooks) -> Iterator[TitledTree]:
    """Three workers, of which the second runs without the hook."""
    actions: dict[int | str, Action] = {1: without_hook(hooks, after_title=[LOAD])}
    with TitledTree(workers=3, env={"PYTHONPATH": hooks.path}, actions=actions) as made:
        yield made


def test_a_file_is_as_good_as_a_module(tree: TitledTree, hooks: Hooks) -> None:
    for source in (hooks.hook.parent, hooks.kernels):
        run = cli.judge("--pid", str(tree.root), *patches(source))
        assert (run.code, run.pids("patch-missing")) == (1, {tree.worker(1)})
        assert run.findings("patch-unknown") == []
    beside = f"{hooks.hook.parent}2"
    run = cli.judge("--pid", str(tree.root), *patches(beside, [PLAIN]))
    assert (run.code, run.pids("patch-missing")) == (1, set(tree.workers()))


def test_who_is_unpatched_what_it_holds_and_from_where(tree: TitledTree, hooks: Hooks) -> None:
    run = cli.judge("--pid", str(tree.root), *patches("my_kernels", ["engine:Backend.wrapped"]))
    (finding,) = run.findings("patch-missing")
    assert (run.code, finding["pids"]) == (1, [tree.worker(1)])
    assert f"the original, engine.{code_name('Backend.wrapped')}" in finding["message"]
    assert f"({hooks.engine}:" in finding["message"]
    assert "No sitecustomize is loaded there" in str(finding["evidence"])
    held = {one["pid"]: one["found"] for one in run.scan["patches"][0]["processes"]}
    for pid in (tree.worker(0), tree.worker(2)):
        assert f"({hooks.kernels}:" in held[pid]


def code_name(qualified: str) -> str:
    """Return the name in a code object of this interpreter: qualified from 3.11 on."""
    return qualified if hasattr(code_name.__code__, "co_qualname") else qualified.split(".")[-1]


def test_the_original_satisfies_who_expects_it(tree: TitledTree) -> None:
    run = cli.judge("--pid", str(tree.root), *patches("engine", [PLAIN]))
    assert (run.code, run.pids("patch-missing")) == (1, {tree.worker(0), tree.worker(2)})


def test_the_text_shows_hook_and_patch_by_worker(tree: TitledTree, hooks: Hooks) -> None:
    run = cli.judge("--pid", str(tree.root), "--format=text", *patches("my_kernels", [PLAIN]))
    lines = [line.split() for line in run.stdout.splitlines()]
    head = next(line for line in lines if line[:1] == ["inside"])
    assert head[-4:] == ["launcher", "TP0,", "TP2", "TP1"]
    table = lines[lines.index(head) + 1 :][:2]
    marks = {line[0]: line[-3:] for line in table}
    assert marks["sitecustomize"] == ["=", "=", "-"]
    assert marks["Backend.plain"] == [".", "=", "a"]
    words = " ".join(run.stdout.split())
    line = hooks.engine.read_text().splitlines().index("    def plain(self):") + 1
    place = f"engine.{code_name('Backend.plain')} ({hooks.engine}:{line})"
    assert f"a: Backend.plain is {place}, not from my_kernels" in words


def test_a_misspelled_attribute_is_named(tree: TitledTree) -> None:
    run = cli.judge("--pid", str(tree.root), "--patch=engine:Backend.plian=my_kernels")
    (finding,) = run.findings("patch-missing")
    assert (run.code, set(finding["pids"])) == (1, set(tree.workers()))
    assert "engine has no Backend.plian" in finding["message"]


def test_a_config_states_patches_and_hooks(tree: TitledTree, hooks: Hooks, tmp_path: Path) -> None:
    config = tmp_path / "envprobe.toml"
    config.write_text(
        f'[expect.patch]\n"{PLAIN}" = "my_kernels"\n'
        f'"engine:function" = {{ from = "{hooks.hook.parent}", role = "detokenizer" }}\n'
        f'[expect.sitecustomize]\nfile = "{hooks.hook}"\n'
    )
    run = cli.judge("--pid", str(tree.root), "--config", str(config))
    assert (run.code, run.pids("patch-missing")) == (1, {tree.worker(1)})
    assert statuses(run, "engine:function") == {tree.pid("root.d"): "holds"}
    (finding,) = run.findings("hook-differs")
    assert (finding["severity"], finding["pids"]) == ("error", [tree.worker(1)])
    assert f"is not loaded; expected: {hooks.hook}." in finding["message"]


def test_saved_facts_give_the_same_verdict(tree: TitledTree, tmp_path: Path) -> None:
    facts = str(tmp_path / "facts")
    asked = patches("my_kernels", [PLAIN])
    live = cli.judge("--pid", str(tree.root), "--save-facts", facts, *asked)
    saved = cli.judge("--from-facts", facts, *asked)
    assert (live.code, saved.code) == (1, 1)
    assert saved.findings("patch-missing") == live.findings("patch-missing")
    other = cli.judge("--from-facts", facts, "--patch=engine:Backend.static=my_kernels")
    (finding,) = other.findings("patch-unknown")
    assert (other.code, finding["undetermined"]) == (3, True)
    assert set(finding["pids"]) == set(tree.workers())
    assert "not asked" in finding["message"]


@pytest.mark.root
def test_who_may_not_look_cannot_tell(tree: TitledTree) -> None:
    if os.geteuid() != 0:
        missing("root", "it takes the rights of another user")
    run = cli.judge_as(65534, "--pid", str(tree.root), *patches("my_kernels", [PLAIN]))
    (finding,) = run.findings("patch-unknown")
    assert (run.code, finding["undetermined"]) == (3, True)
    assert set(finding["pids"]) == set(tree.workers())
    assert run.findings("patch-missing") == run.findings("hook-differs") == []


# --- what changes while the workers live ----------------------------------------------------------


def test_a_lazy_patch_is_unknown_until_its_module_is_imported(tmp_path: Path) -> None:
    hooks = written(tmp_path, LAZY)
    with TitledTree(workers=2, env={"PYTHONPATH": hooks.path}) as tree:
        asked = ("--pid", str(tree.root), *patches("my_kernels", [PLAIN]))
        tree.tell(tree.worker(0), LOAD)
        run = cli.judge(*asked)
        (finding,) = run.findings("patch-not-imported")
        assert (run.code, finding["undetermined"]) == (3, True)
        assert finding["pids"] == [tree.worker(1)]
        with waiting(*asked, "--wait=2", "--timeout=60") as envprobe:
            envprobe.until("waiting: 2 of 2 workers, not decided yet: 1")
            assert envprobe.process.poll() is None
            tree.tell(tree.worker(1), LOAD)
            run = envprobe.end()
        assert (run.code, run.loud(tree.reports)) == (0, [])
        assert statuses(run, PLAIN) == dict.fromkeys(tree.workers(), "holds")


def test_a_hook_that_another_one_shadows(tmp_path: Path) -> None:
    hooks = written(tmp_path, AT_ONCE)
    first = tmp_path / "first"
    first.mkdir()
    shadow = first / "sitecustomize.py"
    shadow.write_text("import os\n")
    action = Action(
        parent_before=[py_set("PYTHONPATH", f"{first}:{hooks.path}")],
        parent_after=[py_set("PYTHONPATH", hooks.path)],
    )
    config = tmp_path / "envprobe.toml"
    config.write_text(f'[expect.sitecustomize]\nfrom = "{hooks.hook.parent}"\n')
    with TitledTree(workers=2, env={"PYTHONPATH": hooks.path}, actions={1: action}) as tree:
        run = cli.judge("--pid", str(tree.root), "--config", str(config))
        (finding,) = run.findings("hook-differs")
        assert (run.code, finding["severity"]) == (1, "error")
        assert finding["pids"] == [tree.worker(1)]
        assert f"is {shadow}; expected: from {hooks.hook.parent}." in finding["message"]
        assert f"{hooks.hook.parent} is entry " in json.dumps(finding["evidence"])


def replaced(path: Path, text: str) -> None:
    """Put another file in the place of one, with its mtime, as `rsync -a` does."""
    before = path.stat()
    new = path.with_name("new")
    new.write_text(text)
    os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    new.replace(path)
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_files_that_change_after_the_start(tmp_path: Path) -> None:
    hooks = written(tmp_path, AT_ONCE)
    with TitledTree(workers=2, env={"PYTHONPATH": hooks.path}) as tree:
        asked = ("--pid", str(tree.root), *patches("my_kernels", [PLAIN]))
        assert cli.judge(*asked).loud(tree.reports) == []
        replaced(hooks.kernels, "raise SystemExit\n")
        shutil.rmtree(hooks.engine.parent)
        run = cli.judge(*asked)
        found = {one["message"].split(" ")[0]: one for one in run.loud(tree.reports)}
        assert run.code == 0
        assert set(found) == {str(hooks.kernels), str(hooks.engine)}
        for one in found.values():
            assert (one["check"], one["severity"]) == ("code-changed-since-start", "warning")
            assert set(one["pids"]) == set(tree.workers())
        assert "is no longer there" in found[str(hooks.engine)]["message"]
        replaced(hooks.hook, "import os\n")
        run = cli.judge(*asked, "--fail-on=warning")
        (hook,) = (one for one in run.loud(tree.reports) if str(hooks.hook) in one["message"])
        assert (run.code, hook["check"]) == (1, "code-changed-since-start")
        assert (hook["confidence"], set(hook["pids"])) == ("proved", set(tree.workers()))
        shown = cli.judge(*asked, "--format=text").stdout
        assert "! its file was changed after the start" in " ".join(shown.split())


def test_a_second_copy_of_the_kernels_in_one_worker(tmp_path: Path) -> None:
    hooks = written(tmp_path / "new", AT_ONCE)
    old = written(tmp_path / "old", AT_ONCE)
    action = Action(
        parent_before=[py_set("PYTHONPATH", f"{old.hook.parent}:{hooks.path}")],
        parent_after=[py_set("PYTHONPATH", hooks.path)],
    )
    with TitledTree(workers=3, env={"PYTHONPATH": hooks.path}, actions={2: action}) as tree:
        run = cli.judge("--pid", str(tree.root), *patches("my_kernels", [PLAIN]))
        (finding,) = run.findings("module-twice")
        assert (run.code, finding["pids"]) == (0, [tree.worker(2)])
        assert str(hooks.kernels) in finding["message"]
        assert str(old.kernels) in finding["message"]


def test_a_decorated_patch_and_one_that_a_stranger_wraps(tmp_path: Path) -> None:
    hooks = written(tmp_path, AT_ONCE)
    with hooks.hook.open("a") as file:
        file.write(
            textwrap.dedent("""
                import functools, tracer
                engine.Backend.plain = functools.lru_cache(engine.Backend.plain)
                engine.function = tracer.trace(engine.function)
            """)
        )
    (hooks.hook.parent / "tracer.py").write_text(
        "import functools\n"
        "def trace(function):\n"
        "    @functools.wraps(function)\n"
        "    def traced(*given):\n"
        "        return function(*given)\n"
        "    return traced\n"
    )
    with TitledTree(workers=1, env={"PYTHONPATH": hooks.path}) as tree:
        run = cli.judge("--pid", str(tree.root), *patches("my_kernels", [PLAIN, "engine:function"]))
        assert statuses(run, PLAIN) == {tree.worker(0): "holds"}
        (finding,) = run.findings("patch-unknown")
        assert (run.code, finding["pids"]) == (3, [tree.worker(0)])
        assert "which holds my_kernels.attn.static" in finding["message"]
        assert run.findings("patch-missing") == []


LIES = """
import functools, types
import engine, my_kernels.attn as kernels

def said(thing):
    thing.__module__ = "my_kernels.attn"
    return thing

class Called:
    def __init__(self, inner):
        self.inner = inner
    def __call__(self):
        return self.inner()

class Descriptor(Called):
    __call__ = None
    def __get__(self, instance, owner=None):
        return self.inner

engine.Names = said(type("Names", (), {"run": engine.function}))
engine.instance = engine.Names()
engine.code = types.FunctionType(engine.function.__code__, vars(kernels))
engine.space = types.FunctionType(engine.function.__code__, {"__name__": "my_kernels.attn"})
engine.nothing = said(type("Nothing", (engine.Backend,), {}))
engine.Backend.called = Called(kernels.static)
engine.Backend.descriptor = Descriptor(kernels.static)
engine.Backend.setter = property(None, kernels.plain)
engine.Backend.read = property(vars(engine.Base)["inherited"], kernels.plain)
engine.Backend.method = functools.partialmethod(kernels.part, 1)
engine.Backend.kept = functools.cached_property(kernels.plain)
engine.Backend.dispatched = functools.singledispatchmethod(kernels.plain)
engine.Backend.original = functools.partialmethod(engine.function, 1)
engine.Backend.registered = functools.singledispatchmethod(engine.function)
"""
TRUTH = {
    "unknown": (
        *("Names", "instance", "code", "space", "nothing", "Backend.called"),
        *("Backend.descriptor", "Backend.setter", "Backend.registered"),
    ),
    "holds": ("Backend.method", "Backend.kept", "Backend.dispatched"),
    "broken": ("Backend.original", "Backend.read"),
}


def test_names_that_lie_and_objects_that_hide_are_never_sure(tmp_path: Path) -> None:
    hooks = written(tmp_path, LIES)
    with TitledTree(workers=1, env={"PYTHONPATH": hooks.path}) as tree:
        pid, names = tree.worker(0), [name for found in TRUTH.values() for name in found]
        queries = [f"engine:{name}" for name in names]
        for source in ("my_kernels", str(hooks.kernels.parent)):
            run = cli.judge("--pid", str(tree.root), *patches(source, queries))
            told = {query: statuses(run, query) for query in queries}
            expected = {
                f"engine:{name}": {pid: status} for status, found in TRUTH.items() for name in found
            }
            assert told == expected, source
            assert (run.code, run.pids("patch-missing")) == (1, {pid})


@pytest.mark.parametrize("given", ["", PLAIN, f"{PLAIN}=", f"{PLAIN}=a b", f"{PLAIN}=a/b", ".=x"])
def test_a_bad_patch_is_wrong_usage(tree: TitledTree, given: str) -> None:
    run = cli.judge("--pid", str(tree.root), f"--patch={given}")
    assert run.code == 2
    assert run.stderr.startswith("--patch")
    assert len(run.stderr.splitlines()) == 2
