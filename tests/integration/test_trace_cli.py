"""The command line of `trace-sitecustomize`: exit codes, formats, wrong usage, its own safety."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envprobe import tables
from tests.programs.envprobe_cli import environment, envprobe

PYTHON = os.path.realpath(sys.executable)
QUICK = ("--runs", "0", "--no-spawn")


@pytest.fixture
def hook(tmp_path: Path) -> Path:
    path = tmp_path / "hooks" / "sitecustomize.py"
    path.parent.mkdir()
    path.write_text(
        "import json\nold = json.dumps\ndef dumps(*a, **k):\n    return old(*a, **k)\n"
        "json.dumps = dumps\n"
    )
    return path


def _trace(hook: Path, *arguments: str, quick: bool = True) -> Any:
    given = ("--python", PYTHON, "--env", f"PYTHONPATH={hook.parent}")
    return envprobe("trace-sitecustomize", *given, *(QUICK if quick else ()), *arguments)


def test_the_whole_report_is_valid_json_and_holds(hook: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    ran = _trace(
        hook,
        *("--runs", "1", "--patch", "json:dumps", "--expect-winner", str(hook)),
        *("--expect-reach", "spawn", "--format", "json", "-o", f"text={path}"),
        quick=False,
    )
    found = json.loads(ran.stdout)
    jsonschema.Draft202012Validator(tables.load("trace.schema")).validate(found)
    assert ran.returncode == found["verdict"]["exit"] == 0
    (start,) = found["starts"]
    assert start["patches"] == [{"attribute": "json:dumps", "state": "present"}]
    reached = {one["method"]: one["reached"] for one in start["children"]}
    assert reached == {
        "spawn": "ran",
        "fork": "inherited",
        "forkserver": "ran",
        "subprocess": "ran",
        "subprocess-env": "not_run",
    }
    assert [one["where"] for one in start["effects"]["replaced"]] == ["json.dumps"]
    assert start["cost_ms"]["runs"] == 1
    text = path.read_text()
    assert text.startswith("HOLDS:")
    assert f"{hook} wins and runs to its end" in text.replace("\n", " ")
    assert "EXECUTES" in envprobe("trace-sitecustomize", "--help").stdout
    assert "runs" in ran.stderr
    assert "which may do anything" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "check"),
    [
        (("--expect-winner", "/other/sitecustomize.py"), 1, "winner-unexpected"),
        (("--patch", "json:loads"), 1, "patch-not-installed"),
        (("--patch", "nothing_here:x"), 3, "patch-not-installed"),
        (("--env", "PYTHONPATH=/gone", "--fail-on", "warning"), 1, "path-entry-odd"),
        (("--env", "PYTHONPATH=/gone"), 0, "path-entry-odd"),
        (("--flag=-S",), 0, "hook-disabled"),
        (("--expect-winner", "/other/sitecustomize.py", "--exit-zero"), 0, "winner-unexpected"),
        (
            ("--patch", "nothing_here:x", "--allow-unknown", "patch-not-installed"),
            0,
            "patch-not-installed",
        ),
    ],
)
def test_exit_codes_follow_from_findings(
    hook: Path, arguments: tuple[str, ...], code: int, check: str
) -> None:
    ran = _trace(hook, "--format", "json", *arguments)
    found = json.loads(ran.stdout)
    jsonschema.Draft202012Validator(tables.load("trace.schema")).validate(found)
    assert ran.returncode == code, ran.stderr
    if "--flag=-S" in arguments:
        assert {hook["outcome"] for hook in found["starts"][0]["hooks"]} == {"disabled"}
    else:
        assert check in {one["check"] for one in found["findings"]}


def test_a_hook_that_does_not_reach_the_spawned_child(hook: Path) -> None:
    hook.write_text("import os\nos.environ.pop('PYTHONPATH')\n")
    ran = _trace(hook, "--runs", "0", "--expect-reach", "spawn", "--format", "json", quick=False)
    found = json.loads(ran.stdout)
    assert ran.returncode == 1
    (error,) = (one for one in found["findings"] if one["severity"] == "error")
    assert error["check"] == "hook-not-in-children"
    assert error["who"] == PYTHON
    assert "by spawn" in error["message"]
    assert error["evidence"][0].startswith("The trap:")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--python", "/nothing/python3"), "there is no interpreter /nothing/python3"),
        (("--python", "/etc/passwd"), "/etc/passwd cannot be executed"),
        (("--pid", "1", "--python", PYTHON), "--python and --pid exclude each other"),
        (("--pid", "1", "--flag=-I"), "--flag and --pid exclude each other"),
        (("--env", "NAME"), "--env NAME sets nothing"),
        (("--flag", "-c"), "--flag -c: Python has no such option"),
        (("--patch", "json"), "names no attribute"),
        (("--expect-reach", "magic"), "there is no such way to start a child"),
        (("--expect-reach", "spawn", "--no-spawn"), "--no-spawn starts none"),
        (("--allow-unknown", "hook-raised"), "nothing would be accepted"),
        (("--timeout", "0"), "--timeout takes a number"),
        (("--runs", "-1"), "--runs takes a number"),
        (("--cwd", "/nothing"), "--cwd /nothing is no directory"),
        (("--python", PYTHON, "--python", PYTHON), "is given twice"),
    ],
)
def test_wrong_usage_is_one_clear_error(arguments: tuple[str, ...], said: str) -> None:
    ran = envprobe("trace-sitecustomize", *arguments)
    assert (ran.returncode, ran.stdout) == (2, ""), ran.stderr
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_an_interpreter_that_is_none_is_not_known(tmp_path: Path) -> None:
    ran = envprobe("trace-sitecustomize", "--python", "/bin/true", "--format", "json")
    found = json.loads(ran.stdout)
    assert ran.returncode == 3
    assert {one["check"] for one in found["findings"]} == {"start-not-traced"}


def test_a_wrapper_script_leads_to_the_interpreter_and_its_environment(
    hook: Path, tmp_path: Path
) -> None:
    wrapper = tmp_path / "python3"
    wrapper.write_text(f'#!/bin/sh\nexport PYTHONPATH={hook.parent}\nexec {PYTHON} -X dev "$@"\n')
    wrapper.chmod(0o755)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    given = (*QUICK, "--flag=-s", "--format", "json")
    ran = envprobe("trace-sitecustomize", *given, env=environment(**path))
    found = json.loads(ran.stdout)
    assert ran.returncode == 0, ran.stderr
    (start,) = found["starts"]
    assert start["launch"]["python"] == PYTHON
    assert start["launch"]["flags"] == ["-X", "dev", "-s"]
    assert start["hooks"][-2]["path"] == str(hook)
    assert found["chosen"] == f"the first on PATH, by the script {wrapper}"
    assert "hook-starts-processes" not in {one["check"] for one in found["findings"]}


def test_secrets_and_escapes_of_a_hook_do_not_get_out(hook: Path) -> None:
    hook.write_text(
        "import os\nos.environ['API_TOKEN'] = 'hunter2hunter2'\n"
        "raise ValueError('\\x1b[31mred\\n::error::x')\n"
    )
    for kind in ("text", "json"):
        ran = _trace(hook, "--format", kind)
        assert ran.returncode == 1
        assert "hunter2" not in ran.stdout
        assert "\x1b" not in ran.stdout
        assert "\n::error" not in ran.stdout
    assert "hunter2hunter2" in _trace(hook, "--unmask").stdout


def test_the_hook_under_test_does_not_run_in_envprobe_itself(tmp_path: Path) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    hook = hooks / "sitecustomize.py"
    hook.write_text("print('noise')\n")
    env = environment(PYTHONPATH=str(hooks))
    command = [sys.executable, "-I", "-m", "envprobe"]
    given = ("trace-sitecustomize", *QUICK, "--python", PYTHON, "--format", "json")
    ran = envprobe(*given, env=env, command=command)
    found = json.loads(ran.stdout)
    assert found["starts"][0]["hooks"][-2]["path"] == str(hook)
    assert "hook-changes-interpreter" in {one["check"] for one in found["findings"]}
