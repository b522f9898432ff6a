"""`trace-sitecustomize --unit` and `-- COMMAND`: what a definition starts, traced as it says."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest

from envprobe import tables
from tests.programs.envprobe_cli import environment, envprobe
from tests.programs.requirement import missing
from tests.programs.usermanager import user_manager

PYTHON = os.path.realpath(sys.executable)
QUICK = ("--runs", "0", "--no-spawn")
PATCHING = "import json\ndef dumps(*a, **k):\n    return 'patched'\njson.dumps = dumps\n"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's."""
    folder = Path(tempfile.mkdtemp(prefix="envprobe-unit-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def _hook(folder: Path, text: str = PATCHING) -> Path:
    path = folder / "hooks" / "sitecustomize.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def _unit(folder: Path, *lines: str, start: str = f"{PYTHON} -c pass") -> str:
    path = folder / "sgl.service"
    path.write_text("\n".join(["[Service]", *lines, f"ExecStart={start}", ""]))
    return str(path)


def _traced(*arguments: str, quick: bool = True, **more: str) -> Any:
    command = ("trace-sitecustomize", "--format", "json", *(QUICK if quick else ()), *arguments)
    ran = envprobe(*command, env=environment(**more))
    assert ran.stdout, ran.stderr
    found = json.loads(ran.stdout)
    jsonschema.Draft202012Validator(tables.load("trace.schema")).validate(found)
    assert ran.returncode == found["verdict"]["exit"]
    return found


def _checks(found: Any, **wanted: Any) -> set[str]:
    return {
        one["check"]
        for one in found["findings"]
        if all(one[name] == value for name, value in wanted.items())
    }


def _winner(start: Any) -> tuple[str, str]:
    (hook,) = [one for one in start["hooks"] if one["name"] == "sitecustomize"]
    return hook["path"], hook["outcome"]


# --- units ---------------------------------------------------------------------------------------


def test_a_unit_file_is_traced_under_what_it_declares(tmp_path: Path) -> None:
    hook = _hook(tmp_path)
    unit = _unit(
        tmp_path,
        f"Environment=PYTHONPATH=/nowhere NCCL_ALGO=Ring\nWorkingDirectory={tmp_path}",
        start=f"{PYTHON} -X dev -c pass",
    )
    extra = tmp_path / "50-path.conf"
    extra.write_text(f"[Service]\nEnvironment=PYTHONPATH={hook.parent}\n")
    config = tmp_path / "envprobe.toml"
    config.write_text('[ignore]\nhook-shadowed = "Debian\'s own is known"\n')
    found = _traced(
        *("--unit", unit, "--unit", str(extra), "--config", str(config)),
        *("--expect-winner", "hooks/sitecustomize.py", "--patch", "json:dumps"),
        *("--expect-reach", "spawn", "--runs", "0"),
        quick=False,
        PYTHONPATH="/of/the/caller",
    )
    assert (found["verdict"]["exit"], _checks(found)) == (0, {"start-inferred"})
    (start,) = found["starts"]
    assert _winner(start) == (str(hook), "ran")
    assert start["launch"]["cwd"] == str(tmp_path)
    assert start["launch"]["flags"] == ["-X", "dev"]
    paths = {one["name"]: one["value"] for one in start["launch"]["variables"]}
    assert paths["PYTHONPATH"] == {"text": str(hook.parent)}
    assert start["questions"] == [
        {
            "asked": "declared",
            "confidence": "inferred",
            "reason": "what the manager itself hands over is not known from files",
        }
    ]
    assert found["definition"]["files"] == [unit, str(extra)]
    assert {one["who"] for one in found["findings"]} == {f"{unit}:4"}
    text = envprobe("trace-sitecustomize", *QUICK, "--unit", unit, "--unit", str(extra)).stdout
    assert f"PYTHONPATH={hook.parent} ({extra}:2)" in text.replace("\n    ", "")


def test_the_hook_of_a_venv_is_shadowed_by_that_of_the_distribution(tmp_path: Path) -> None:
    python = "/usr/bin/python3"
    asked = [python, "-I", "-c", "import sitecustomize as s; print(s.__file__)"]
    ran = subprocess.run(asked, capture_output=True, text=True, check=False)
    if ran.returncode:
        missing("debian-python", f"{python} ships no sitecustomize")
    venv = tmp_path / "venv"
    subprocess.run([python, "-m", "venv", "--without-pip", str(venv)], check=True)
    (site,) = venv.glob("lib/python3*/site-packages")
    mine = site / "sitecustomize.py"
    mine.write_text(PATCHING)
    unit = _unit(tmp_path, start=f"{venv}/bin/python -c pass")
    found = _traced("--unit", unit, "--expect-winner", str(mine), "--patch", "json:dumps")
    assert found["verdict"]["exit"] == 1
    errors = _checks(found, severity="error", undetermined=False)
    assert errors == {"winner-unexpected", "patch-not-installed"}
    (one,) = [each for each in found["findings"] if each["check"] == "hook-shadowed"]
    assert one["message"].startswith(f"{mine} never runs: ")
    assert _winner(found["starts"][0])[0] == ran.stdout.strip()


@pytest.mark.parametrize(
    ("start", "check"),
    [
        (f"{PYTHON} -I -c pass", "winner-unexpected"),
        (f"{PYTHON} -S -c pass", "hook-disabled"),
        (f"/usr/bin/env -u PYTHONPATH {PYTHON} -c pass", "winner-unexpected"),
    ],
)
def test_a_hook_that_the_command_line_keeps_out(tmp_path: Path, start: str, check: str) -> None:
    hook = _hook(tmp_path)
    unit = _unit(tmp_path, f"Environment=PYTHONPATH={hook.parent}", start=start)
    found = _traced("--unit", unit, "--expect-winner", str(hook))
    assert found["verdict"]["exit"] == 1
    assert check in _checks(found, who=f"{unit}:3", undetermined=False)
    assert _winner(found["starts"][0])[0] != str(hook)


def test_a_hook_that_raises(tmp_path: Path) -> None:
    hook = _hook(tmp_path, "import nothing_of_this_name\n")
    unit = _unit(tmp_path, f"Environment=PYTHONPATH={hook.parent}")
    found = _traced("--unit", unit)
    (one,) = [each for each in found["findings"] if each["check"] == "hook-raised"]
    assert (found["verdict"]["exit"], one["severity"], one["who"]) == (1, "error", f"{unit}:3")
    assert f"{hook}" in one["message"]


@pytest.mark.parametrize(
    "start",
    [
        "/usr/bin/env PYTHONPATH={hooks} {python} -c pass",
        "/bin/bash -c 'export PYTHONPATH={hooks}; exec {python} -c pass'",
        "{script}",
    ],
)
def test_a_wrapper_that_sets_pythonpath(tmp_path: Path, start: str) -> None:
    hook = _hook(tmp_path)
    script = tmp_path / "start.sh"
    script.write_text(f"#!/bin/sh\nexport PYTHONPATH={hook.parent}\nexec {PYTHON} -c pass\n")
    line = start.format(hooks=hook.parent, python=PYTHON, script=script)
    found = _traced("--unit", _unit(tmp_path, start=line), "--expect-winner", str(hook))
    assert (found["verdict"]["exit"], _checks(found, severity="error")) == (0, set())
    assert _winner(found["starts"][0]) == (str(hook), "ran")
    assert found["starts"][0]["declared"]["hops"]


def test_every_start_of_a_oneshot_has_its_answer(tmp_path: Path) -> None:
    hook = _hook(tmp_path)
    lines = ("Type=oneshot", f"Environment=PYTHONPATH={hook.parent}", f"ExecStart={PYTHON} -c 1")
    unit = _unit(tmp_path, *lines, start=f"{PYTHON} -I -c pass")
    found = _traced("--unit", unit, "--expect-winner", str(hook))
    assert [_winner(one)[0] == str(hook) for one in found["starts"]] == [True, False]
    assert [one["declared"]["place"]["line"] for one in found["starts"]] == [4, 5]
    (one,) = [each for each in found["findings"] if each["check"] == "winner-unexpected"]
    assert (found["verdict"]["exit"], one["who"]) == (1, f"{unit}:5")


# --- what cannot be told -------------------------------------------------------------------------


def test_a_variable_that_decides_and_is_not_known(tmp_path: Path) -> None:
    hook = _hook(tmp_path)
    unreadable = tmp_path / "x.env"
    unreadable.mkdir()
    unit = _unit(tmp_path, f"Environment=PYTHONPATH={hook.parent}\nEnvironmentFile={unreadable}")
    found = _traced("--unit", unit, "--expect-winner", str(hook))
    assert found["verdict"]["exit"] == 3
    assert _checks(found, undetermined=True) == {"start-not-traced", "winner-unexpected"}
    (told, *_) = [one for one in found["findings"] if one["check"] == "start-not-traced"]
    assert told["message"].startswith("PYTHONPATH decides which hooks run, and is not known")
    (undecided,) = found["starts"][0]["declared"]["undecided"]
    assert undecided["name"] == "PYTHONPATH"
    # With -I it decides nothing.
    unit = _unit(tmp_path, f"EnvironmentFile={unreadable}", start=f"{PYTHON} -I -c pass")
    found = _traced("--unit", unit)
    assert (found["verdict"]["exit"], _checks(found, undetermined=True)) == (0, set())


@pytest.mark.parametrize(
    ("lines", "start", "said"),
    [
        ((), "/usr/bin/docker run image:1 python3 x.py", ":2: it starts a container"),
        ((), "/bin/bash -c 'A=$$(date) exec {python} x.py'", ":2: which interpreter it starts"),
        (("User=nobody_of_this_name",), "{python} x.py", ":2: the user nobody_of_this_name is not"),
        (("User=%d",), "{python} x.py", ":2: which user it is started as is not known"),
        (("Group=nogroup_of_this_name",), "{python} x.py", ":2: the group nogroup_of_this_name"),
        ((), "/nothing/here/python3 x.py", ":2: the interpreter /nothing/here/python3"),
        ((), "/bin/sleep 1", "sleep is a program that envprobe does not know"),
        (("RootDirectory=/srv/root",), "{python} x.py", "is to the unit is not known here"),
        (("ProtectHome=yes",), "/home/x/venv/bin/python x.py", "ProtectHome=yes"),
    ],
)
def test_what_cannot_be_traced_is_told_with_its_line(
    tmp_path: Path, lines: tuple[str, ...], start: str, said: str
) -> None:
    unit = _unit(tmp_path, *lines, start=start.format(python=PYTHON))
    ran = envprobe("trace-sitecustomize", "--unit", unit)
    assert (ran.returncode, ran.stdout) == (3, "")
    assert said in ran.stderr.replace("\n", " "), ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_sandbox_that_hides_the_hook_and_one_that_does_not(tmp_path: Path) -> None:
    hook = _hook(tmp_path)
    given = f"Environment=PYTHONPATH={hook.parent}"
    hidden = _unit(tmp_path, given, f"InaccessiblePaths={tmp_path}", "ProtectSystem=full")
    found = _traced("--unit", hidden, "--expect-winner", str(hook))
    assert found["verdict"]["exit"] == 3
    assert "sandbox-not-reproduced" in _checks(found, undetermined=True)
    properties = {
        one["property"]: one["unseen"] for one in found["starts"][0]["declared"]["sandbox"]
    }
    assert str(hook) in properties[f"InaccessiblePaths={tmp_path}"]
    assert properties["ProtectSystem=full"] == []
    # A bind of the same files makes them seen again.
    shown = _unit(
        tmp_path, given, f"TemporaryFileSystem={tmp_path}", f"BindReadOnlyPaths={hook.parent}"
    )
    found = _traced("--unit", shown, "--expect-winner", str(hook))
    assert (found["verdict"]["exit"], _checks(found, undetermined=True)) == (0, set())
    (one,) = [each for each in found["findings"] if each["check"] == "sandbox-not-reproduced"]
    assert one["severity"] == "info"
    accepted = _traced("--unit", hidden, "--allow-unknown", "sandbox-not-reproduced")
    assert accepted["verdict"]["exit"] == 0


# --- users ---------------------------------------------------------------------------------------


def test_the_declared_user_is_taken_on(open_folder: Path) -> None:
    if os.geteuid():
        missing("root", "only root can become another user")
    hook = _hook(open_folder, "import os\nos.environ['WHO'] = str(os.getuid())\n")
    group = "Group=daemon\nSupplementaryGroups=sys"
    unit = _unit(
        open_folder,
        f"User=nobody\n{group}\nEnvironment=PYTHONPATH={hook.parent}",
        start="/usr/bin/python3 -c pass",
    )
    found = _traced("--unit", unit)
    (start,) = found["starts"]
    assert start["launch"]["rights"] == "uid 65534, gid 1"
    changes = {one["name"]: one["after"] for one in start["effects"]["changes"]}
    assert changes["WHO"] == {"text": "65534"}
    # What that user may not read is no hook of his.
    hook.chmod(0o600)
    found = _traced("--unit", unit, "--expect-winner", str(hook))
    assert found["verdict"]["exit"] == 1
    assert "hook-unreadable" in _checks(found)
    # With + the command is started as root.
    plus = _unit(
        open_folder,
        f"User=nobody\nEnvironment=PYTHONPATH={hook.parent}\nPrivateTmp=yes",
        start="+/usr/bin/python3 -c pass",
    )
    found = _traced("--unit", plus, "--expect-winner", str(hook))
    assert (found["verdict"]["exit"], _winner(found["starts"][0])) == (0, (str(hook), "ran"))
    dynamic = _unit(open_folder, "DynamicUser=yes", start="/usr/bin/python3 -c pass")
    (start,) = _traced("--unit", dynamic)["starts"]
    assert start["launch"]["rights"] == "uid 65534, gid 65534"
    assert any("DynamicUser=" in one for one in start["declared"]["gaps"])


# --- a command line, and a manager ---------------------------------------------------------------


def test_a_command_line_is_traced_under_the_callers_environment(tmp_path: Path) -> None:
    hook = _hook(tmp_path)
    words = ("--", "nice", "-n", "5", PYTHON, "-c", "pass")
    expected = ("--expect-winner", str(hook))
    found = _traced(*expected, *words, PYTHONPATH=str(hook.parent))
    assert (found["verdict"]["exit"], _checks(found, undetermined=True)) == (0, set())
    (start,) = found["starts"]
    assert start["questions"][0]["confidence"] == "proved"
    assert [one["program"] for one in start["declared"]["hops"]] == ["nice"]
    found = _traced(*expected, "--", "env", "-i", *words[1:], PYTHONPATH=str(hook.parent))
    assert (found["verdict"]["exit"], "winner-unexpected" in _checks(found)) == (1, True)


def test_a_unit_of_a_real_manager(tmp_path: Path) -> None:
    hook = _hook(tmp_path)
    with contextlib.ExitStack() as stack:
        manager = stack.enter_context(user_manager(tmp_path / "manager"))
        text = f"[Service]\nEnvironment=NCCL_ALGO=Ring\nExecStart={PYTHON} -c pass\n"
        manager.write("sgl.service", text)
        manager.systemctl("set-environment", f"PYTHONPATH={hook.parent}")
        manager.systemctl("daemon-reload")
        arguments = ("--user", "--unit", "sgl", "--expect-winner", str(hook))
        found = _traced(*arguments, **manager.environment)
        assert (found["verdict"]["exit"], _checks(found, undetermined=True)) == (0, set())
        (start,) = found["starts"]
        assert _winner(start) == (str(hook), "ran")
        assert start["questions"][0]["confidence"] == "proved"
        assert start["launch"]["cwd"] == str(manager.home)
        manager.write("sgl.service.d/10.conf", "[Service]\nUnsetEnvironment=PYTHONPATH\n")
        found = _traced(*arguments, **manager.environment)
        assert found["verdict"]["exit"] == 1
        assert "winner-unexpected" in _checks(found, undetermined=False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--unit", "x", "--python", "python3"), "--python and --unit exclude each other"),
        (("--unit", "x", "--pid", "1"), "--pid and --unit exclude each other"),
        (("--unit", "x", "--cwd", "/"), "--cwd and --unit exclude each other"),
        (("--unit", "x", "--env", "A=1"), "--env and --unit exclude each other"),
        (("--unit", "x", "--flag=-I"), "--flag and --unit exclude each other"),
        (("--unset", "A", "--", "python3"), "--unset and `-- COMMAND` exclude each other"),
        (("--unit", "a", "--unit", "b"), "takes one launch definition"),
        (("--unit", "a", "--", "python3"), "takes one launch definition"),
        (("--",), "takes one launch definition"),
        (("--user",), "--user needs --unit"),
        (("--unit", ""), "the name of a unit is empty"),
        (("--unit", "/nothing/x.service"), "/nothing/x.service does not exist"),
        (("--unit", "x.conf"), "x.conf is a drop-in without its unit"),
    ],
)
def test_wrong_usage_is_one_clear_error(arguments: tuple[str, ...], said: str) -> None:
    ran = envprobe("trace-sitecustomize", *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_start_that_cannot_be_told_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    hook = _hook(tmp_path)
    unit = _unit(
        tmp_path,
        "Type=oneshot",
        f"Environment=PYTHONPATH={hook.parent}",
        "ExecStart=/bin/true",
        "ExecStart=/usr/bin/docker run image python3",
        "ExecStart=/nothing/here/python3 -c pass",
    )
    found = _traced("--unit", unit, "--expect-winner", str(hook))
    assert found["verdict"]["exit"] == 3
    (start,) = found["starts"]
    assert _winner(start) == (str(hook), "ran")
    assert start["declared"]["place"] == {"file": unit, "line": 7}
    assert [one["place"]["line"] for one in found["untold"]] == [4, 5, 6]
    told = [one for one in found["findings"] if one["undetermined"]]
    assert {one["check"] for one in told} == {"start-not-traced"}
    assert [one["who"] for one in told] == [f"{unit}:{line}" for line in (4, 5, 6)]
    ran = envprobe("trace-sitecustomize", *QUICK, "--unit", unit)
    assert ":4: which interpreter it starts is not known" in " ".join(ran.stdout.split())
    alone = envprobe("trace-sitecustomize", *QUICK, "--", "/nothing/here/python3", "-c", "1")
    assert (alone.returncode, alone.stdout) == (3, "")
    assert alone.stderr.count("envprobe:") == 1


def test_findings_of_several_starts_name_theirs(tmp_path: Path) -> None:
    (tmp_path / "hooks").mkdir()
    hook = _hook(tmp_path, "raise RuntimeError('x')\n")
    start = f"env PYTHONPATH={hook.parent} {PYTHON} -c pass"
    unit = _unit(tmp_path, "Type=oneshot", f"ExecStart={PYTHON} -c pass", start=f"/usr/bin/{start}")
    found = _traced("--unit", unit)
    (raised,) = [one for one in found["findings"] if one["check"] == "hook-raised"]
    assert raised["message"].startswith(f"{unit}:4: {hook} raised RuntimeError")


def test_a_kernel_thread_is_called_one() -> None:
    threads = [one for one in psutil.process_iter(["name"]) if one.info["name"] == "kthreadd"]
    if not threads:
        missing("kthreadd", "this machine shows no kernel thread")
    ran = envprobe("trace-sitecustomize", *QUICK, "--pid", str(threads[0].pid))
    assert (ran.returncode, ran.stdout) == (3, "")
    assert "the process is a kernel thread" in ran.stderr
    assert "root" not in ran.stderr
