"""The true cause of what is wrong at a start is named, and what was not seen is not claimed."""

from __future__ import annotations

import json
import os
import py_compile
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envprobe import inithook
from envprobe.checks.finding import Finding
from envprobe.checks.registry import run_checks
from envprobe.checks.trace.about import Expected, TraceContext
from envprobe.checks.trace.registry import CHECKS
from envprobe.redact import show_sentence
from envprobe.startup.examine import examine
from envprobe.startup.result import Outcome, Reached, Startup
from envprobe.startup.traced import Answer, Traced
from envprobe.startup.types import Asked, Kind, Launch, Question
from tests.programs.envprobe_cli import envprobe
from tests.programs.requirement import missing
from tests.programs.startups import Place, Python, place, pythons, quick

PYTHON = Python(os.path.realpath(sys.executable), sys.version_info[:2])
QUICK = ("--runs", "0", "--no-spawn")
TOKEN = "sekretsekret1"


@pytest.fixture
def here() -> Iterator[Place]:
    with place(PYTHON) as found:
        yield found


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a virtual environment."""
    folder = tmp_path_factory.mktemp("made") / "venv"
    venv.create(folder, symlinks=True)
    return folder


@pytest.fixture
def site(environment: Path) -> Iterator[Path]:
    """Yield its site-packages directory, which is emptied afterwards."""
    (folder,) = environment.glob("lib/python3*/site-packages")
    yield folder
    for file in folder.iterdir():
        if file.is_file():
            file.unlink()


def _findings(startup: Startup, winner: str | None = None) -> dict[str, Finding]:
    answer = Answer((Question(Asked.GIVEN, startup.launch),), startup)
    context = TraceContext(Traced((answer,), "given"), Expected(winner))
    return {one.check: one for one in run_checks(CHECKS, context, {}).findings}


def _in_venv(environment: Path, **more: Any) -> Startup:
    return examine(Launch(f"{environment}/bin/python", {}), quick(**more))


# --- chained hooks


def _chain(here: Place, text: str) -> Startup:
    here.write("next/sitecustomize.py", text)
    inithook.write(inithook.Request(str(here.outside("first"))))
    return here.examine(python_path=f"{here.path}/first:{here.path}/next")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("\nraise ValueError('no')\n", "ValueError: no at {0}:2"),
        # site would say nothing of this one: only the chaining hook knows.
        ("import sitecustomize.x\n", "ModuleNotFoundError"),
    ],
)
def test_a_chained_hook_that_raised_is_a_finding(here: Place, text: str, what: str) -> None:
    startup = _chain(here, text)
    first, second = (f"{here.path}/{name}/sitecustomize.py" for name in ("first", "next"))
    one = _findings(startup)["hook-raised"]
    said = show_sentence(one.message)
    assert f"{second}, which {first} runs, raised" in said
    assert what.format(second) in said
    assert startup.hook("sitecustomize").outcome is Outcome.RAN


def test_a_chained_hook_that_ran_is_none(here: Place) -> None:
    startup = _chain(here, "marker = 1\n")
    assert startup.hook("sitecustomize").chained == (f"{here.path}/next/sitecustomize.py",)
    assert "hook-raised" not in _findings(startup)


def test_a_hook_of_init_hook_that_failed_itself_is_a_finding(here: Place) -> None:
    inithook.write(inithook.Request(str(here.outside("h"))))
    file = here.outside("h/sitecustomize.py")
    file.write_text(file.read_text().replace("PATCHES = ()", "PATCHES = (1,)"))
    one = _findings(here.examine(python_path=f"{here.path}/h"))["hook-raised"]
    assert f"{here.path}/h/sitecustomize.py raised TypeError" in show_sentence(one.message)


def test_what_a_failed_patch_of_init_hook_has_recorded_is_told(here: Place) -> None:
    patch = inithook.parse_patch("json:dumps=no_such_module:dumps")
    inithook.write(inithook.Request(str(here.outside("h")), (patch,)))
    startup = here.examine(python_path=f"{here.path}/h", questions=quick(patches=("json:dumps",)))
    answer = Answer((Question(Asked.GIVEN, startup.launch),), startup)
    context = TraceContext(Traced((answer,), "given"), Expected(patches=("json:dumps",)))
    (one,) = (
        one
        for one in run_checks(CHECKS, context, {}).findings
        if one.check == "patch-not-installed"
    )
    assert "recorded: failed: ModuleNotFoundError" in show_sentence(one.evidence[0])


# --- startup files


@pytest.mark.parametrize("kind", ["text", "json", "html"])
def test_what_a_startup_file_executes_is_not_shown(
    environment: Path, site: Path, kind: str
) -> None:
    (site / "a.pth").write_text(f"import os; os.environ['API_TOKEN']='{TOKEN}'\nimport 'x{TOKEN}\n")
    python = f"{environment}/bin/python"
    ran = envprobe("trace-sitecustomize", *QUICK, "--python", python, "--format", kind)
    assert ran.returncode == 1
    assert "a.pth" in ran.stdout
    assert TOKEN not in ran.stdout + ran.stderr


def test_a_hook_of_its_own_name_that_a_startup_file_imports_is_confirmed(
    environment: Path, site: Path
) -> None:
    wanted = str(site / "site_hook.py")
    (site / "site_hook.py").write_text("marker = 1\n")
    one = _findings(_in_venv(environment, wanted=wanted), wanted)["winner-unexpected"]
    assert "neither a sitecustomize nor imported" in show_sentence(one.evidence[0])
    (site / "site_hook.pth").write_text("import site_hook\n")
    assert "winner-unexpected" not in _findings(_in_venv(environment, wanted=wanted), wanted)
    (site / "site_hook.py").write_text("raise OSError\n")
    found = _findings(_in_venv(environment, wanted=wanted), wanted)
    assert {"winner-unexpected", "startup-file-failed"} <= found.keys()


def test_what_init_hook_advises_for_a_startup_file_holds(environment: Path, site: Path) -> None:
    wrote = json.loads(envprobe("init-hook", str(site), "--pth", "--format", "json").stdout)
    program, command, *arguments = wrote["trace"].split()
    assert (program, command) == ("envprobe", "trace-sitecustomize")
    ran = envprobe(command, *QUICK, *arguments)
    assert ran.returncode == 0, ran.stdout
    assert f"{site}/envprobe_hook.pyruns" in "".join(ran.stdout.split())
    assert wrote["trial"].startswith(f"{environment}/bin/python")


@pytest.mark.parametrize(
    ("line", "outcome", "said"),
    [
        (b"import sys; sys.exit(3)\n", Outcome.ENDED, "by SystemExit: 3"),
        (b"import os; os._exit(4)\n", Outcome.ENDED, "with exit code 4"),
        (b"import time; time.sleep(100)\n", Outcome.STOPPED, "it had not ended after 2 s"),
    ],
)
def test_a_startup_file_that_stops_the_start_is_named(
    environment: Path, site: Path, line: bytes, outcome: Outcome, said: str
) -> None:
    (site / "a.pth").write_text("import json\n")
    (site / "b.pth").write_bytes(line)
    startup = _in_venv(environment, seconds=2.0)
    ended = [hook.path for hook in startup.hooks if hook.outcome is outcome]
    assert ended == [str(site / "b.pth")]
    found = _findings(startup)
    assert set(found) == {"hook-ends-interpreter"}
    assert said in show_sentence(found["hook-ends-interpreter"].message)


def test_a_startup_file_that_ends_python_3_9_is_named_by_the_walk(tmp_path: Path) -> None:
    old = [python for python in pythons() if python.version == (3, 9)]
    if not old:
        missing("python3.9", "no CPython 3.9")
    words = [old[0].path, "-m", "venv", "--without-pip", str(tmp_path / "venv")]
    subprocess.run(words, check=True)
    stops = tmp_path / "venv" / "lib" / "python3.9" / "site-packages" / "stops.pth"
    stops.write_text("import sys; sys.exit(3)\n")
    startup = _in_venv(tmp_path / "venv")
    assert [hook.path for hook in startup.hooks if hook.outcome is Outcome.ENDED] == [str(stops)]
    assert set(_findings(startup)) == {"hook-ends-interpreter"}


# --- what a hook is made of


def test_an_extension_module_that_cannot_be_loaded_is_called_so(here: Place) -> None:
    here.write("h/sitecustomize.so", b"no library")
    startup = here.examine(python_path=f"{here.path}/h")
    hook = startup.hook("sitecustomize")
    assert (hook.outcome, hook.kind) == (Outcome.SILENT, Kind.EXTENSION)
    assert "extension module" in hook.reason
    assert "names what the loader misses" in show_sentence(_findings(startup)["hook-silent"].remedy)


def _cached(here: Place, text: str) -> str:
    """Compile a hook, then give its source other code of the same size and time."""
    path = here.write("h/sitecustomize.py", "marker = 1\n")
    cached = py_compile.compile(path, doraise=True)
    assert cached is not None
    times = os.stat(path)
    here.write("h/sitecustomize.py", text)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    return cached


def test_old_code_is_not_the_winner_that_was_expected(here: Place) -> None:
    wanted, cached = f"{here.path}/h/sitecustomize.py", _cached(here, "marker = 2\n")
    one = _findings(here.examine(python_path=f"{here.path}/h"), wanted)["winner-unexpected"]
    assert f"{cached} is other code" in show_sentence(one.message)
    assert show_sentence(one.remedy).startswith(f"Remove {cached}")
    os.unlink(cached)
    assert _findings(here.examine(python_path=f"{here.path}/h"), wanted) == {}


def test_damaged_bytecode_is_named(here: Place) -> None:
    cached = _cached(here, "marker = 1\n")
    with open(cached, "r+b") as file:
        file.truncate(20)
    found = _findings(here.examine(python_path=f"{here.path}/h"))
    assert show_sentence(found["hook-raised"].remedy).startswith(f"Remove {cached}")
    assert f"{cached} agrees" in show_sentence(found["bytecode-suspect"].message)


def test_a_path_that_is_no_utf8_is_that_of_the_hook(here: Place) -> None:
    here.write(os.fsdecode(b"caf\xe9/sitecustomize.py"), "marker = 1\n")
    folder = f"{here.path}/" + os.fsdecode(b"caf\xe9")
    startup = here.examine(python_path=folder)
    assert startup.hook("sitecustomize").path == f"{folder}/sitecustomize.py"
    assert _findings(startup, f"{folder}/sitecustomize.py") == {}


# --- why an expected hook does not win


def _remedy(here: Place, wanted: str, *flags: str, **how: Any) -> str:
    startup = here.examine(*flags, questions=quick(wanted=wanted), **how)
    one = _findings(startup, wanted)["winner-unexpected"]
    return " ".join(show_sentence(part) for part in (*one.evidence, one.remedy))


def test_the_advice_fits_the_cause(here: Place) -> None:
    hook = here.write("h/sitecustomize.py", "marker = 1\n")
    assert "there is no such file" in _remedy(here, f"{here.path}/h/other.py")
    assert f"--expect-winner {here.path}/h/sitecustomize.py" in _remedy(here, f"{here.path}/h")
    assert f"PYTHONPATH={here.path}/h" in _remedy(here, hook)
    assert "without -I" in _remedy(here, hook, "-I", python_path=f"{here.path}/h")
    assert "without -S" in _remedy(here, hook, "-S", python_path=f"{here.path}/h")
    version = f"python{PYTHON.version[0]}.{PYTHON.version[1]}"
    user = here.write(f".local/lib/{version}/site-packages/usercustomize.py", "marker = 1\n")
    said = _remedy(here, user, environment={"PYTHONNOUSERSITE": "1"}, python=PYTHON.path)
    assert "PYTHONNOUSERSITE: the user site does not count" in said


# --- flags, variables, directories


def test_flags_are_the_reason_and_not_the_hook(here: Place) -> None:
    here.write("h/sitecustomize.py", "marker = 1\n")
    methods = ("spawn", "subprocess")
    startup = here.examine("-E", python_path=f"{here.path}/h", questions=quick(methods=methods))
    spawn, child = startup.children
    assert (spawn.reached, child.reached) == (Reached.FAILED, Reached.ANOTHER_RAN)
    assert spawn.reason.startswith("-E or -I came with the child")
    assert child.reason.startswith("-E or -I is not handed on")


@pytest.mark.parametrize(
    ("name", "value"), [("PYTHONHOME", "/nothing"), ("PYTHONHASHSEED", "no number")]
)
def test_a_variable_that_keeps_python_from_starting_is_named(
    here: Place, name: str, value: str
) -> None:
    startup = here.examine(environment={"PYTHONUTF8": "1", name: value})
    found = _findings(startup)
    assert startup.run.stopped_by == name
    assert set(found) == {"start-not-traced"}
    assert f"this value of {name}" in show_sentence(found["start-not-traced"].message)


def test_a_program_that_is_no_python_is_called_so(here: Place) -> None:
    found = _findings(here.examine(python="/bin/true"))
    assert "/bin/true is no Python 3" in show_sentence(found["start-not-traced"].message)


def test_an_option_with_its_value_in_one_word_or_two(here: Place) -> None:
    for flag in ("-X utf8", "-Xutf8"):
        given = ("--python", PYTHON.path, f"--flag={flag}", "--format", "json")
        found = json.loads(envprobe("trace-sitecustomize", *QUICK, *given).stdout)
        assert found["starts"][0]["launch"]["flags"] == ["-Xutf8"]


def test_a_directory_that_is_gone_is_the_cause(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    words = ("-m", "envprobe", "trace-sitecustomize", *QUICK, "--python", PYTHON.path)
    code = f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r});"
    code += f"os.execv({sys.executable!r}, {(sys.executable, *words)!r})"
    ran = envprobe(command=[sys.executable, "-c", code])
    assert ran.returncode == 2
    assert "the current directory does not exist any more" in ran.stderr


def test_one_odd_entry_is_told_once(here: Place) -> None:
    startup = here.examine(python_path="gone:~/hooks")
    answer = Answer((Question(Asked.GIVEN, startup.launch),), startup)
    context = TraceContext(Traced((answer,), "given"))
    said = [show_sentence(one.message) for one in run_checks(CHECKS, context, {}).findings]
    assert len(said) == 2
    assert "the relative element gone, and names" in said[0]
    assert "~/hooks as it stands" in said[1]


def test_a_configuration_file_ignores_and_accepts(here: Place) -> None:
    here.write("h/sitecustomize.py", "raise ValueError\n")
    config = here.write("c.toml", '[ignore]\nhook-raised = "known"\n')
    given = ("--python", PYTHON.path, "--env", f"PYTHONPATH={here.path}/h")
    ran = envprobe("trace-sitecustomize", *QUICK, *given, "--config", config, "--format", "json")
    found = json.loads(ran.stdout)
    assert (ran.returncode, found["verdict"]["counts"]["ignored"]) == (0, 1)
