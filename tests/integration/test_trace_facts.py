"""Every rule of Python's start-up as a test on each interpreter, the verdict stated in advance."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator

import pytest

from envprobe.startup.result import Outcome
from envprobe.startup.types import Bytecode, EntryState, Kind
from tests.programs.interpreters import NEWEST, OLDEST
from tests.programs.requirement import missing
from tests.programs.startups import Place, Python, place, pythons, quick

HOOK = "import os\nos.environ['HOOK_RAN'] = __file__\n"
NAME = "sitecustomize.py"


@pytest.fixture(params=pythons(), ids=str)
def here(request: pytest.FixtureRequest) -> Iterator[Place]:
    with place(request.param) as found:
        yield found


def test_every_version_is_here() -> None:
    have = {one.version for one in pythons()}
    wanted = {(3, minor) for minor in range(OLDEST[1], NEWEST[1] + 1)}
    if not wanted <= have:
        missing("all-pythons", f"no CPython {sorted(wanted - have)} on this machine")


def _compile(here: Place, source: str, code: str, mode: str = "") -> None:
    """Have the interpreter itself compile a file."""
    import subprocess

    more = f", invalidation_mode=py_compile.PycInvalidationMode.{mode}" if mode else ""
    text = f"import py_compile; py_compile.compile({source!r}, {code!r}, doraise=True{more})"
    root = ["chroot", str(here.python.tree)] if here.python.tree is not None else []
    subprocess.run([*root, here.python.path, "-I", "-S", "-c", text], check=True, timeout=60)


# --- order and search ----------------------------------------------------------------------------


def test_the_first_of_pythonpath_wins_and_was_executed(here: Place) -> None:
    first, second = here.write(f"a/{NAME}", HOOK), here.write(f"b/{NAME}", HOOK)
    found = here.examine(python_path=f"{here.path}/a:{here.path}/b")
    hook, walk, effects = found.hook("sitecustomize"), found.walk, found.effects
    assert (hook.outcome, hook.path, hook.kind) == (Outcome.RAN, first, Kind.SOURCE)
    assert hook.confirmed
    assert walk is not None
    assert effects is not None
    assert [one.file.path for one in walk.of("sitecustomize")][:2] == [first, second]
    assert "entry 2 of sys.path (PYTHONPATH), after entry 1" in walk.candidates[1].reason
    changed = {one.name: one.after for one in effects.changes}
    assert changed["HOOK_RAN"] is not None
    assert changed["HOOK_RAN"].reveal() == os.fsencode(first)
    assert set(changed) == {"HOOK_RAN"}


def test_the_hook_may_be_a_package_or_an_archive(here: Place) -> None:
    package = here.write("p/sitecustomize/__init__.py", HOOK)
    loser = here.write(f"p/{NAME}", HOOK)
    with zipfile.ZipFile(here.outside("z.zip"), "w") as archive:
        archive.writestr(NAME, HOOK)
    found = here.examine(python_path=f"{here.path}/p")
    hook = found.hook("sitecustomize")
    assert (hook.outcome, hook.path, hook.kind) == (Outcome.RAN, package, Kind.PACKAGE)
    assert found.walk is not None
    reasons = {one.file.path: one.reason for one in found.walk.candidates}
    assert reasons[loser] == "in one directory a package is taken before a source file"
    zipped = here.sitecustomize(python_path=f"{here.path}/z.zip")
    assert (zipped.outcome, zipped.kind) == (Outcome.RAN, Kind.ZIP)
    assert zipped.path == f"{here.path}/z.zip/{NAME}"


def test_bytecode_never_outranks_an_earlier_directory(here: Place) -> None:
    source = here.write(f"late/{NAME}", "marker = 'late'\n")
    here.outside("early").mkdir()
    first = here.write(f"early/{NAME}", "marker = 'early'\n")
    tag = f"cpython-{here.python.version[0]}{here.python.version[1]}"
    _compile(here, source, f"{here.path}/late/__pycache__/sitecustomize.{tag}.pyc")
    hook = here.sitecustomize(python_path=f"{here.path}/early:{here.path}/late")
    assert (hook.outcome, hook.path) == (Outcome.RAN, first)


def test_cached_bytecode_runs_for_its_source_until_that_changes(here: Place) -> None:
    source = here.write(f"c/{NAME}", "marker = 1\n")
    tag = f"cpython-{here.python.version[0]}{here.python.version[1]}"
    code = f"{here.path}/c/__pycache__/sitecustomize.{tag}.pyc"
    _compile(here, source, code)
    cached = here.examine(python_path=f"{here.path}/c")
    hook, walk = cached.hook("sitecustomize"), cached.walk
    assert (hook.outcome, hook.path, hook.code) == (Outcome.RAN, source, code)
    assert walk is not None
    assert walk.candidates[0].bytecode is Bytecode.FRESH
    here.write(f"c/{NAME}", "marker = 1\nmarker = 2\n")
    stale = here.examine(python_path=f"{here.path}/c")
    assert stale.hook("sitecustomize").code == source
    assert stale.walk is not None
    assert stale.walk.candidates[0].bytecode is Bytecode.STALE


def test_unchecked_bytecode_runs_although_its_source_has_changed(here: Place) -> None:
    source = here.write(f"c/{NAME}", "marker = 1\n")
    tag = f"cpython-{here.python.version[0]}{here.python.version[1]}"
    _compile(here, source, f"{here.path}/c/__pycache__/sitecustomize.{tag}.pyc", "UNCHECKED_HASH")
    here.write(f"c/{NAME}", "marker = 1\nother = 2\n")
    found = here.examine(python_path=f"{here.path}/c")
    assert found.hook("sitecustomize").outcome is Outcome.RAN
    assert found.effects is not None
    assert found.effects.names["sitecustomize"] == ("marker",)
    assert found.walk is not None
    assert found.walk.candidates[0].bytecode is Bytecode.UNCHECKED_STALE


def test_bytecode_that_agrees_by_chance_is_found_out(here: Place) -> None:
    source = here.write(f"c/{NAME}", "marker = 1\n")
    os.utime(here.outside(f"c/{NAME}"), (1_700_000_000, 1_700_000_000))
    tag = f"cpython-{here.python.version[0]}{here.python.version[1]}"
    _compile(here, source, f"{here.path}/c/__pycache__/sitecustomize.{tag}.pyc")
    here.write(f"c/{NAME}", "marker = 2\n")
    os.utime(here.outside(f"c/{NAME}"), (1_700_000_000, 1_700_000_000))
    found = here.examine(python_path=f"{here.path}/c")
    assert found.walk is not None
    assert found.walk.candidates[0].bytecode is Bytecode.AGREES_BUT_DIFFERS


def test_bytecode_without_a_source_runs_if_it_is_of_this_version(here: Place) -> None:
    source = here.write("source.py", HOOK)
    here.outside("s").mkdir()
    _compile(here, source, f"{here.path}/s/sitecustomize.pyc")
    hook = here.sitecustomize(python_path=f"{here.path}/s")
    assert (hook.outcome, hook.kind) == (Outcome.RAN, Kind.SOURCELESS)
    code = here.outside("s/sitecustomize.pyc").read_bytes()
    here.write("o/sitecustomize.pyc", b"\x00\x00\r\n" + code[4:])
    other = here.sitecustomize(python_path=f"{here.path}/o")
    assert (other.outcome, other.confirmed) == (Outcome.SILENT, False)
    assert "another version" in other.reason


def test_a_directory_of_that_name_executes_nothing(here: Place) -> None:
    here.write("n/sitecustomize/data.txt")
    found = here.examine(python_path=f"{here.path}/n")
    hook = found.hook("sitecustomize")
    assert found.walk is not None
    if len(found.walk.of("sitecustomize")) > 1:  # the distribution's own is found later
        assert hook.outcome is Outcome.RAN
        assert hook.path != f"{here.path}/n/sitecustomize"
        return
    assert (hook.outcome, hook.confirmed) == (Outcome.NAMESPACE, True)
    assert hook.path == f"{here.path}/n/sitecustomize"


def test_the_current_directory_counts_through_pythonpath_only(here: Place) -> None:
    mine = here.write(f"d/{NAME}", HOOK)
    cwd = f"{here.path}/d"
    assert here.sitecustomize(cwd=cwd).path != mine
    for value in (".", f"{here.path}/none:", f"{here.path}/none::{here.path}/none"):
        hook = here.sitecustomize(cwd=cwd, python_path=value)
        assert (hook.outcome, hook.path) == (Outcome.RAN, mine), value


def test_entries_that_are_no_directory_are_known_as_such(here: Place) -> None:
    here.write("file", "text")
    found = here.examine(python_path=f"{here.path}/file:{here.path}/gone")
    assert found.walk is not None
    states = {entry.path: entry.state for entry in found.walk.entries}
    assert states[f"{here.path}/file"] is EntryState.FILE
    assert states[f"{here.path}/gone"] is EntryState.MISSING


def test_pythonstartup_is_of_no_use(here: Place) -> None:
    startup = here.write("startup.py", HOOK)
    found = here.examine(environment={"PYTHONSTARTUP": startup})
    assert found.effects is not None
    assert "HOOK_RAN" not in {one.name for one in found.effects.changes}


# --- flags ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flag", "sitecustomize", "usercustomize"),
    [
        ("-S", Outcome.DISABLED, Outcome.DISABLED),
        ("-s", Outcome.RAN, Outcome.DISABLED),
    ],
)
def test_flags_decide_which_hooks_run(
    here: Place, flag: str, sitecustomize: Outcome, usercustomize: Outcome
) -> None:
    here.write(f"h/{NAME}", HOOK)
    here.write("h/usercustomize.py", "marker = 1\n")
    found = here.examine(flag, python_path=f"{here.path}/h")
    assert found.hook("sitecustomize").outcome is sitecustomize
    assert found.hook("usercustomize").outcome is usercustomize
    if usercustomize is Outcome.DISABLED:
        assert f"{flag}:" in found.hook("usercustomize").reason


@pytest.mark.parametrize("flag", ["-E", "-I"])
def test_isolated_interpreters_do_not_read_pythonpath(here: Place, flag: str) -> None:
    mine = here.write(f"h/{NAME}", HOOK)
    found = here.examine(flag, python_path=f"{here.path}/h")
    assert found.hook("sitecustomize").path != mine
    assert found.walk is not None
    assert mine not in {one.file.path for one in found.walk.candidates}


def test_no_user_site_by_variable(here: Place) -> None:
    here.write("h/usercustomize.py", "marker = 1\n")
    found = here.examine(python_path=f"{here.path}/h", environment={"PYTHONNOUSERSITE": "1"}).hook(
        "usercustomize"
    )
    assert found.outcome is Outcome.DISABLED
    assert "PYTHONNOUSERSITE" in found.reason


# --- did it run to its end? ----------------------------------------------------------------------


def test_an_exception_leaves_the_exit_code_and_the_side_effects(here: Place) -> None:
    mine = here.write(f"h/{NAME}", HOOK + "raise ValueError('no')\n")
    found = here.examine(python_path=f"{here.path}/h")
    hook = found.hook("sitecustomize")
    assert (hook.outcome, hook.path, hook.confirmed) == (Outcome.RAISED, mine, False)
    assert hook.raised is not None
    assert (hook.raised.type, hook.raised.file, hook.raised.line) == ("ValueError", mine, 3)
    assert found.run.code == 0
    assert found.effects is not None
    assert "HOOK_RAN" in {one.name for one in found.effects.changes}


@pytest.mark.parametrize(
    ("text", "outcome", "type_"),
    [
        ("def broken(:\n", Outcome.RAISED, "SyntaxError"),
        ("import nothing_of_that_name\n", Outcome.RAISED, "ModuleNotFoundError"),
        ("raise ModuleNotFoundError('x', name='sitecustomize')\n", Outcome.SILENT, None),
        ("raise SystemExit(3)\n", Outcome.ENDED, "SystemExit"),
        ("try:\n    raise ValueError\nexcept ValueError:\n    pass\n", Outcome.RAN, None),
    ],
)
def test_each_way_to_fail(here: Place, text: str, outcome: Outcome, type_: str | None) -> None:
    mine = here.write(f"h/{NAME}", text)
    hook = here.sitecustomize(python_path=f"{here.path}/h")
    assert (hook.outcome, hook.path) == (outcome, mine)
    assert (hook.raised.type if hook.raised is not None else None) == type_
    assert hook.confirmed == (outcome is Outcome.RAN)


# --- .pth and .start -----------------------------------------------------------------------------


def _user_site(here: Place) -> str:
    """Return the user site directory, relative to the place: its HOME is the place."""
    major, minor = here.python.version
    return f".local/lib/python{major}.{minor}/site-packages"


def test_startup_files_run_in_order_before_the_modules(here: Place) -> None:
    site = _user_site(here)
    second = here.write(f"{site}/b.pth", "import os; os.environ['ORDER'] += 'b'\n")
    first = here.write(f"{site}/a.pth", "# no\nimport os; os.environ['ORDER'] = 'a'\n")
    here.write(f"h/{NAME}", "import os\nos.environ['ORDER'] += 's'\n")
    here.write(f"{site}/usercustomize.py", "import os\nos.environ['ORDER'] += 'u'\n")
    found = here.examine(python_path=f"{here.path}/h")
    names = [(hook.name, hook.line) for hook in found.hooks if here.path in hook.path]
    assert names == [(first, 2), (second, 1), ("sitecustomize", 0), ("usercustomize", 0)]
    assert {hook.outcome for hook in found.hooks if here.path in hook.path} == {Outcome.RAN}
    assert found.effects is not None
    (order,) = (one.after for one in found.effects.changes if one.name == "ORDER")
    assert order is not None
    assert order.reveal() == b"absu"


def test_a_line_that_raises_ends_its_file_up_to_3_14(here: Place) -> None:
    path = here.write(
        f"{_user_site(here)}/a.pth",
        "import os; os.environ['ONE'] = '1'\n"
        "import os; raise_nothing\n"
        "import os; os.environ['THREE'] = '1'\n",
    )
    found = here.examine()
    lines = {hook.line: hook for hook in found.hooks if hook.path == path}
    assert lines[1].outcome is Outcome.RAN
    assert lines[2].outcome is Outcome.RAISED
    assert lines[2].raised is not None
    assert lines[2].raised.type == "NameError"
    newer = here.python.version >= (3, 15)
    assert lines[3].outcome is (Outcome.RAN if newer else Outcome.SUPPRESSED)
    assert found.effects is not None
    assert ("THREE" in {one.name for one in found.effects.changes}) == newer


def test_start_files_are_read_from_3_15_on(here: Place) -> None:
    site = _user_site(here)
    here.write(f"{site}/mod.py", "import os\ndef main():\n    os.environ['START'] = '1'\n")
    start = here.write(f"{site}/a.start", "mod:main\nmod:gone\n")
    old = here.write(f"{site}/a.pth", "import os; os.environ['OLD'] = '1'\n")
    found = here.examine()
    assert found.effects is not None
    changed = {one.name for one in found.effects.changes}
    if here.python.version < (3, 15):
        assert changed == {"OLD"}
        assert start not in {hook.path for hook in found.hooks}
        return
    assert changed == {"START"}
    by_text = {hook.text: hook.outcome for hook in found.hooks if hook.path in (start, old)}
    assert by_text == {
        "mod:main": Outcome.RAN,
        "mod:gone": Outcome.RAISED,
        "import os; ...": Outcome.SUPPRESSED,
    }


# --- spawn, fork, forkserver ---------------------------------------------------------------------


def test_reach_and_its_trap(here: Place) -> None:
    mine = here.write(f"h/{NAME}", "import os\nos.environ.pop('PYTHONPATH')\n")
    found = here.examine(
        python_path=f"{here.path}/h",
        questions=quick(methods=("spawn", "fork", "forkserver", "subprocess")),
    )
    children = {child.method: child for child in found.children}
    assert found.problems == ()
    assert children["fork"].reached.value == "inherited"
    assert children["fork"].origin == mine
    for method in ("spawn", "forkserver", "subprocess"):
        child = children[method]
        assert child.reached.value in ("not_run", "another_ran"), method
        assert "removed PYTHONPATH" in child.reason
        assert child.importable == (method != "subprocess")


def test_a_hook_that_stays_on_pythonpath_reaches_all(here: Place) -> None:
    mine = here.write(f"h/{NAME}", HOOK)
    found = here.examine(
        python_path=f"{here.path}/h",
        questions=quick(methods=("spawn", "subprocess", "subprocess-env")),
    )
    reached = {child.method: (child.reached.value, child.origin) for child in found.children}
    assert reached.pop("subprocess-env")[0] in ("not_run", "another_ran")
    assert set(reached.values()) == {("ran", mine)}


def test_the_version_is_that_of_the_interpreter(here: Place) -> None:
    found = here.examine()
    assert found.walk is not None
    assert found.walk.version[:2] == here.python.version


def test_python_has_a_name() -> None:
    assert str(Python("/usr/bin/python3.11", (3, 11))) == "3.11:/usr/bin/python3.11"
