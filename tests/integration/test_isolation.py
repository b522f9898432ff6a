"""The tool is not the patient: hooks that run in its first interpreter change no verdict."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import envprobe as envprobe_package
from envprobe import demo, isolation, tables
from tests.programs.envprobe_cli import environment, envprobe, parsed

# Times of reading, and what is reckoned from the clock; `identity.start_ticks` stays.
VOLATILE = {"at", "started", "ended", "start_time"}

HOOKS = {
    "sets variables": """
        os.environ.update(NCCL_PROTO="LL", NO_COLOR="", COLUMNS="3", PYTHONPATH="/nowhere")
        os.environ.pop("LANG", None)
    """,
    "prints": "print('hello ' * 50)",
    "prints unflushed bytes": "sys.stdout.buffer.write(b'\\x1b[31m' * 20)",
    "writes to stderr": "print('a warning', file=sys.stderr)",
    "sleeps": "import time; time.sleep(0.2)",
    "raises": "raise RuntimeError('a broken hook')",
    "patches": """
        import json, re, builtins
        json.dumps = json.loads = lambda *a, **k: None
        re.compile = None
        builtins.sorted = lambda *a, **k: []
        sys.modules["envprobe.cli"] = sys.modules["envprobe.model"] = sys
    """,
    "extends the path": "sys.path.insert(0, os.path.dirname(__file__) + '/shadow')",
    "starts a thread": """
        import threading
        threading.Thread(target=threading.Event().wait, daemon=False).start()
    """,
}


@pytest.fixture(scope="module")
def tree() -> Iterator[demo.Tree]:
    with demo.tree() as running:
        yield running


def report(tree: demo.Tree, env: dict[str, str], *arguments: str) -> Any:
    expect = [f"--expect={name}" for name in ("NCCL_PROTO=Simple", "NCCL_ALGO=Ring")]
    run = envprobe(
        "workers", "--pid", str(tree.pid), "--format", "json", *expect, *arguments, env=env
    )
    found = parsed(run)
    jsonschema.validate(found, tables.load("report.schema"))
    assert run.returncode == found["verdict"]["exit"]
    return found


def lasting(found: Any) -> Any:
    """Return a report without the times at which it was made."""
    if isinstance(found, dict):
        return {key: lasting(one) for key, one in found.items() if key not in VOLATILE}
    return [lasting(one) for one in found] if isinstance(found, list) else found


@pytest.fixture(scope="module")
def clean(tree: demo.Tree) -> Any:
    found = report(tree, environment())
    missing = [one for one in found["scans"][0]["findings"] if one["check"] == "env-missing"]
    assert [(one["variable"], one["pids"]) for one in missing] == [
        ("NCCL_PROTO", [tree.workers["TP1"]])
    ]
    return lasting(found)


@pytest.fixture
def hooked(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[dict[str, str], Path]:
    """Return an environment with a hook in PYTHONPATH, and the file it leaves a line in."""
    trace = tmp_path / "ran"
    shadow = tmp_path / "shadow"
    shadow.mkdir()
    for name in ("json", "typer", "msgspec", "psutil", "typing"):
        (shadow / f"{name}.py").write_text("raise SystemExit('shadowed')\n")
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        f"with open({str(trace)!r}, 'a') as file:\n"
        "    file.write('ran\\n')\n" + textwrap.dedent(request.param)
    )
    return environment(PYTHONPATH=str(tmp_path)), trace


@pytest.mark.parametrize("hooked", HOOKS.values(), ids=HOOKS, indirect=True)
def test_no_hook_changes_the_report(
    tree: demo.Tree, clean: Any, hooked: tuple[dict[str, str], Path]
) -> None:
    env, trace = hooked
    assert lasting(report(tree, env)) == clean
    # Once: in the interpreter that the console script starts with, and not in the second one.
    assert trace.read_text() == "ran\n"


@pytest.mark.parametrize(
    "hooked", ["print('hello', flush=True); raise SystemExit(7)"], indirect=True
)
def test_python_isolated_survives_a_hook_that_ends_the_process(
    hooked: tuple[dict[str, str], Path],
) -> None:
    env, trace = hooked
    killed = envprobe("--version", env=env)
    assert (killed.returncode, killed.stdout) == (1, "hello\n")
    survived = envprobe("--version", env=env, command=[sys.executable, "-I", "-m", "envprobe"])
    assert survived.returncode == 0
    assert survived.stdout.startswith("envprobe ")
    assert trace.read_text() == "ran\n"


@pytest.mark.parametrize("hooked", ["os._exit(0)"], indirect=True)
def test_a_hook_that_ends_the_process_with_0_looks_like_a_pass_only_to_the_exit_code(
    tree: demo.Tree, hooked: tuple[dict[str, str], Path]
) -> None:
    """What docs/limits.md tells a gate to do: require HOLDS, or start the interpreter isolated."""
    env, _ = hooked
    arguments = ("workers", "--pid", str(tree.pid))
    fooled = envprobe(*arguments, env=env)
    assert (fooled.returncode, fooled.stdout) == (0, "")
    judged = envprobe(*arguments, env=env, command=[sys.executable, "-I", "-m", "envprobe"])
    assert judged.returncode == 1
    assert judged.stdout.startswith("FAILS: ")


@pytest.mark.parametrize("hooked", ["print('hello', flush=True)"], indirect=True)
def test_a_report_file_has_nothing_in_it_but_the_report(
    tree: demo.Tree, hooked: tuple[dict[str, str], Path], tmp_path: Path
) -> None:
    env, _ = hooked
    path = tmp_path / "report.json"
    run = envprobe("workers", "--pid", str(tree.pid), "-o", f"json={path}", env=env)
    assert run.stdout.startswith("hello\n")
    assert json.loads(path.read_text())["verdict"]["exit"] == run.returncode


@pytest.mark.parametrize("hooked", ["os.environ['NCCL_ALGO'] = 'Tree'"], indirect=True)
def test_the_callers_environment_is_what_the_caller_gave(
    hooked: tuple[dict[str, str], Path],
) -> None:
    env, _ = hooked
    code = (
        "import os, json; from envprobe import isolation;"
        "own = isolation.caller_environment();"
        "print(json.dumps([os.environ.get('NCCL_ALGO'), os.fsdecode(own.get(b'NCCL_ALGO', b''))]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**env, "NCCL_ALGO": "Ring"},
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert json.loads(ran.stdout) == ["Tree", "Ring"]


def test_modules_of_the_current_directory_are_not_imported(tmp_path: Path) -> None:
    for name in ("json", "typer", "envprobe", "typing", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('from the current directory')\n")
    run = envprobe("checks", cwd=tmp_path, env=environment(PYTHONPATH=""))
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("EP001  no-workers")


def test_a_broken_installation_is_an_internal_error_and_no_finding() -> None:
    main = Path(envprobe_package.__file__).with_name("__main__.py")
    bare = [sys.executable, "-I", "-S", "-X", f"{isolation.PATH_OPTION}=/nowhere", str(main)]
    run = envprobe("checks", command=bare)
    assert (run.returncode, run.stdout) == (70, "")
    assert run.stderr.startswith("envprobe: internal error: the module 'typer' cannot be imported")


def test_arguments_that_are_no_utf8_and_odd_ones_reach_the_second_interpreter() -> None:
    run = envprobe("explain", "EP\udcff\n --help;$(x)")
    assert run.returncode == 2
    assert run.stderr.splitlines()[0] == "envprobe: there is no check 'EP\\udcff\\n --help;$(x)'"
