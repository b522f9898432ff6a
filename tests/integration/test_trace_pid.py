"""`trace-sitecustomize --pid`: what a process ran, and what its next spawned child will run."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envprobe import tables
from tests.programs.envprobe_cli import envprobe
from tests.programs.requirement import missing
from tests.programs.startups import place, pythons

NOBODY = 65534
ONE = {"LC_ALL": "C.UTF-8"}
"""What keeps Python from setting LC_CTYPE itself, which would make two environments of one."""

READY = "import os, sys; {0}; print(os.getpid(), flush=True); sys.stdin.read()"


@contextlib.contextmanager
def _running(
    code: str, env: dict[str, str], *, command: tuple[str, ...] = (sys.executable,), **more: Any
) -> Iterator[int]:
    process = subprocess.Popen(
        [*command, "-c", READY.format(code)],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        **more,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process.pid
    finally:
        process.communicate()


def _trace(pid: int, *arguments: str) -> tuple[int, Any]:
    more = ("--runs", "0", "--no-spawn", "--format", "json")
    ran = envprobe("trace-sitecustomize", "--pid", str(pid), *more, *arguments)
    assert ran.stdout.startswith("{"), ran.stderr
    found = json.loads(ran.stdout)
    jsonschema.Draft202012Validator(tables.load("trace.schema")).validate(found)
    return ran.returncode, found


def _winners(found: Any) -> dict[str, str]:
    """Return what wins for each question that was asked."""
    return {
        question["asked"]: hook["path"]
        for start in found["starts"]
        for question in start["questions"]
        for hook in start["hooks"]
        if hook["name"] == "sitecustomize"
    }


def _checks(found: Any) -> dict[str, str]:
    return {one["check"]: one["message"] for one in found["findings"]}


def _hook(folder: Path) -> Path:
    folder.mkdir(parents=True)
    hook = folder / "sitecustomize.py"
    hook.write_text("marker = 1\n")
    return hook


def test_one_environment_is_traced_once_and_answers_both(tmp_path: Path) -> None:
    hook = _hook(tmp_path / "hooks")
    with _running("pass", {"PYTHONPATH": str(hook.parent), "LC_ALL": "C.UTF-8"}) as pid:
        code, found = _trace(pid, "--expect-winner", str(hook))
    assert (code, found["findings"]) == (0, [])
    assert len(found["starts"]) == 1
    assert _winners(found) == {"ran": str(hook), "next": str(hook)}
    assert found["process"]["pid"] == pid
    assert found["process"]["loaded"] == {"sitecustomize": str(hook)}
    assert found["process"]["interpreters"] == 1


def test_a_changed_environment_is_another_answer_for_the_next_child(tmp_path: Path) -> None:
    first, second = _hook(tmp_path / "a"), _hook(tmp_path / "b")
    change = f"os.environ['PYTHONPATH'] = {str(second.parent)!r}"
    with _running(change, {"PYTHONPATH": str(first.parent)}) as pid:
        code, found = _trace(pid, "--expect-winner", str(first))
    assert _winners(found) == {"ran": str(first), "next": str(second)}
    assert code == 1
    child = "what its next spawned child will run"
    assert [(one["check"], one["who"]) for one in found["findings"]] == [
        ("winner-unexpected", child),
        ("next-child-differs", child),
    ]
    assert f"{second} runs, where the process itself ran {first}" in found["findings"][1]["message"]


def test_the_flags_and_the_directory_of_the_process_count(tmp_path: Path) -> None:
    hook = _hook(tmp_path / "hooks")
    env = {"PYTHONPATH": "hooks"}
    with _running("pass", env, cwd=tmp_path) as pid:
        code, found = _trace(pid)
    assert (code, _winners(found)["ran"]) == (0, str(hook))
    assert set(_checks(found)) == {"path-entry-odd"}
    with _running("pass", env, cwd=tmp_path, command=(sys.executable, "-I")) as pid:
        code, found = _trace(pid)
    assert (
        found["starts"][0]["launch"]["flags"]
        == ["-I", "-E", "-s", "-P"][: 4 if sys.version_info >= (3, 11) else 3]
    )
    assert (code, _winners(found)["ran"]) == (0, "")
    assert set(_checks(found)) == {"hook-disabled"}


def test_a_wiped_block_makes_the_first_answer_inferred(tmp_path: Path) -> None:
    hook = _hook(tmp_path / "hooks")
    more = {f"LONG_{number}": "x" * 100 for number in range(20)}
    wipe = "import setproctitle; setproctitle.setproctitle('sglang::scheduler')"
    with _running(wipe, {"PYTHONPATH": str(hook.parent), **more}) as pid:
        code, found = _trace(pid)
    assert (code, _winners(found)["next"]) == (0, str(hook))
    (ran,) = (q for start in found["starts"] for q in start["questions"] if q["asked"] == "ran")
    assert ran["confidence"] == "inferred"
    assert "start-inferred" in _checks(found)


def test_a_file_that_is_newer_than_the_process_is_not_what_it_loaded(tmp_path: Path) -> None:
    hook = _hook(tmp_path / "hooks")
    with _running("pass", {"PYTHONPATH": str(hook.parent)}) as pid:
        time.sleep(0.1)  # ctime must be later than the start by more than a tick
        hook.write_text("marker = 2\n")
        code, found = _trace(pid)
    assert code == 0
    assert str(hook) in _checks(found)["hook-newer-than-process"]


def test_memory_is_told_apart_from_what_a_start_would_run_now(tmp_path: Path) -> None:
    hook = _hook(tmp_path / "hooks")
    with _running("pass", {"PYTHONPATH": str(hook.parent)}) as pid:
        hook.unlink()
        _, found = _trace(pid)
    assert f"the process has {hook} in its memory" in _checks(found)["memory-disagrees"].lower()


def test_the_memory_decides_where_the_directory_of_the_start_is_gone(tmp_path: Path) -> None:
    hook = _hook(tmp_path / "hooks")
    with _running("os.chdir('/')", {"PYTHONPATH": "hooks", **ONE}, cwd=tmp_path) as pid:
        code, found = _trace(pid, "--expect-winner", str(hook))
    (start,) = found["starts"]
    assert [one["asked"] for one in start["questions"]] == ["again", "next"]
    unexpected = [one for one in found["findings"] if one["check"] == "winner-unexpected"]
    # The process has it, and its next spawned child, which starts in /, will not.
    assert [one["who"] for one in unexpected] == ["what its next spawned child will run"]
    assert code == 1


def test_the_memory_decides_what_a_moved_environment_had_loaded(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", symlinks=True)
    (site,) = (tmp_path / "venv").glob("lib/python3*/site-packages")
    (site / "usercustomize.py").write_text("marker = 1\n")
    (tmp_path / "venv" / "pyvenv.cfg").write_text(
        f"home = {os.path.dirname(os.path.realpath(sys.executable))}\n"
        "include-system-site-packages = true\n"
    )
    python = tmp_path / "venv" / "bin" / "python"
    given = {"PYTHONPATH": str(site), **ONE}
    with _running("pass", given, command=(str(python),)) as pid:
        (tmp_path / "venv").rename(tmp_path / "moved")
        _, found = _trace(pid)
    (start,) = found["starts"]
    ran, child = start["questions"]
    assert (ran["asked"], child["asked"]) == ("again", "next")
    assert {ran["confidence"], child["confidence"]} == {"inferred"}
    assert f"{python}, by which it was started" in child["reason"]
    assert str(site / "usercustomize.py") in _checks(found)["memory-disagrees"]


def test_what_only_the_capabilities_of_the_process_let_it_read_is_not_known(
    tmp_path: Path,
) -> None:
    if os.geteuid() != 0:
        missing("root", "only root has capabilities to lose")
    hook = _hook(tmp_path / "hooks")
    os.chown(hook.parent, NOBODY, NOBODY)
    os.chmod(hook.parent, 0o700)
    with _running("pass", {"PYTHONPATH": str(hook.parent), **ONE}) as pid:
        code, found = _trace(pid)
    assert code == 3
    assert f"{hook.parent} cannot be read without" in _checks(found)["start-not-traced"]
    assert f"the process has {hook} in its memory" in _checks(found)["memory-disagrees"].lower()
    assert "hook-unreadable" not in _checks(found)


def test_the_interpreter_of_a_virtual_environment_is_its_own(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    with _running("pass", {}, command=(str(python),)) as pid:
        _, found = _trace(pid)
    assert found["starts"][0]["launch"]["python"] == str(python)
    assert found["starts"][0]["interpreter"]["prefix"] == str(tmp_path / "venv")


def test_another_user_is_traced_with_that_users_rights(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        missing("root", "only root can start a process as another user")
    with place(pythons()[0]) as here:
        os.chmod(here.outside(""), 0o777)
        here.write(
            "h/sitecustomize.py",
            f"import os\nopen({here.path + '/who'!r}, 'a').write("
            "f'{os.getuid()} {os.getgid()}\\n')\n",
        )
        os.chmod(here.outside("h"), 0o755)
        with _running(
            "pass",
            {"PYTHONPATH": f"{here.path}/h"},
            command=("/usr/bin/python3",),
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
        ) as pid:
            code, found = _trace(pid)
        assert (code, found["starts"][0]["launch"]["rights"]) == (0, f"uid {NOBODY}, gid {NOBODY}")
        ran_as = set(here.outside("who").read_text().splitlines())
        assert ran_as == {f"{NOBODY} {NOBODY}"}


def test_a_process_in_a_root_directory_of_its_own(tmp_path: Path) -> None:
    found_pythons = [one for one in pythons() if one.tree is not None]
    if not found_pythons:
        missing("sid", "no tree of Debian sid")
    python = found_pythons[-1]
    with place(python) as here:
        hook = here.write("h/sitecustomize.py", "marker = 1\n")
        command = ("/usr/sbin/chroot", str(python.tree), python.path)
        with _running("pass", {"PYTHONPATH": f"{here.path}/h"}, command=command) as pid:
            code, found = _trace(pid, "--expect-winner", hook)
    assert code == 0
    assert found["starts"][0]["launch"]["other_root"]
    assert _winners(found)["ran"] == hook


@pytest.mark.parametrize(
    ("make", "code", "said"),
    [
        (lambda: subprocess.Popen(["sleep", "60"]), 3, "holds no Python"),
        (None, 4, "process 4194000"),
    ],
)
def test_what_is_no_python_or_gone(make: Any, code: int, said: str) -> None:
    process = make() if make is not None else None
    pid = process.pid if process is not None else 4_194_000
    try:
        ran = envprobe("trace-sitecustomize", "--pid", str(pid))
    finally:
        if process is not None:
            process.kill()
            process.wait()
    assert (ran.returncode, ran.stdout) == (code, "")
    assert said in ran.stderr
