"""The founding case: a hook in a virtual environment of Debian's Python, which never runs.

The distribution's own sitecustomize, in the directory of the standard library, is found first. Each
way out that the report names is taken, and the same command confirms it.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.programs.envprobe_cli import environment, envprobe
from tests.programs.requirement import missing

DEBIAN = Path("/usr/bin/python3")
MINE = "import os\nos.environ['MINE_RAN'] = '1'\n"


class Venv:
    """A virtual environment with a hook in its site-packages."""

    def __init__(self, folder: Path) -> None:
        subprocess.run([DEBIAN, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
        self.python = str(folder / "bin" / "python")
        (self.site,) = folder.glob("lib/python3.*/site-packages")
        self.hook = self.site / "sitecustomize.py"
        self.hook.write_text(MINE)

    def trace(self, *arguments: str, python_path: str | None = None) -> tuple[int, Any]:
        given = environment(**({"PYTHONPATH": python_path} if python_path else {}))
        more = ("--runs", "0", "--format", "json", "--python", self.python)
        ran = envprobe("trace-sitecustomize", *more, *arguments, env=given)
        return ran.returncode, json.loads(ran.stdout)


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    name = f"python3.{_minor()}" if DEBIAN.exists() else ""
    if not Path(f"/usr/lib/{name}/sitecustomize.py").exists():
        missing("debian-python", "no Debian python3 with a sitecustomize of its own")
    return Venv(tmp_path / "venv")


def _minor() -> str:
    text = "import sys; print(sys.version_info[1])"
    ran = subprocess.run([DEBIAN, "-I", "-c", text], capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def _changed(found: Any) -> set[str]:
    return {one["name"] for one in found["starts"][0]["effects"]["changes"]}


def _hook(found: Any) -> Any:
    (hook,) = (one for one in found["starts"][0]["hooks"] if one["name"] == "sitecustomize")
    return hook


def test_the_hook_of_the_environment_is_shadowed_by_the_order_of_the_path(venv: Venv) -> None:
    code, found = venv.trace("--expect-winner", str(venv.hook))
    theirs = f"/usr/lib/python3.{_minor()}/sitecustomize.py"
    assert code == 1
    assert (_hook(found)["path"], _hook(found)["outcome"]) == (theirs, "ran")
    assert _hook(found)["owner"] == f"libpython3.{_minor()}-minimal"
    assert "MINE_RAN" not in _changed(found)
    by_check = {one["check"]: one for one in found["findings"]}
    assert set(by_check) == {"winner-unexpected", "hook-shadowed"}
    shadowed = by_check["hook-shadowed"]
    assert str(venv.hook) in shadowed["message"]
    assert "(standard library), where one is found first" in shadowed["message"]
    ways = [line for line in shadowed["evidence"] if line.startswith("a way that works here")]
    assert len(ways) == 3
    assert f"PYTHONPATH={venv.site}" in ways[0]
    assert "site_hook.pth" in ways[1]
    assert "init-hook" in ways[2]


def test_first_way_its_directory_on_pythonpath(venv: Venv) -> None:
    code, found = venv.trace(
        "--expect-winner", str(venv.hook), "--expect-reach", "spawn", python_path=str(venv.site)
    )
    assert (code, [one["check"] for one in found["findings"] if one["severity"] == "error"]) == (
        0,
        [],
    )
    assert _hook(found)["path"] == str(venv.hook)
    assert "MINE_RAN" in _changed(found)


def test_second_way_another_name_and_a_startup_file(venv: Venv) -> None:
    venv.hook.rename(venv.site / "site_hook.py")
    (venv.site / "site_hook.pth").write_text("import site_hook\n")
    code, found = venv.trace()
    assert (code, found["findings"]) == (0, [])
    first = found["starts"][0]["hooks"][0]
    assert (first["path"], first["line"], first["outcome"]) == (
        str(venv.site / "site_hook.pth"),
        1,
        "ran",
    )
    assert "MINE_RAN" in _changed(found)
    assert _hook(found)["path"].startswith("/usr/lib/")  # the distribution's runs as well


def test_third_way_a_hook_that_runs_the_one_it_hides(venv: Venv, tmp_path: Path) -> None:
    hooks, mine = tmp_path / "hooks", tmp_path / "mine"
    mine.mkdir()
    (mine / "mine.py").write_text("import os\nos.environ['MINE_RAN'] = '1'\ndef dumps(*_): ...\n")
    made = envprobe("init-hook", str(hooks), "--patch", "json:dumps=mine:dumps")
    assert made.returncode == 0, made.stderr
    code, found = venv.trace(
        *("--expect-winner", str(hooks / "sitecustomize.py"), "--expect-reach", "spawn"),
        *("--patch", "json:dumps"),
        python_path=f"{hooks}:{mine}",
    )
    assert (code, [one for one in found["findings"] if one["severity"] == "error"]) == (0, [])
    assert _hook(found)["chained"] == [f"/usr/lib/python3.{_minor()}/sitecustomize.py"]
    start = found["starts"][0]
    assert start["patches"] == [{"attribute": "json:dumps", "state": "present"}]
    states = {one["method"]: one["patches"] for one in start["children"]}
    assert states["spawn"] == start["patches"]
