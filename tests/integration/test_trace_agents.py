"""Real agents: who wins, who runs the hook that it hides, and who does not."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.programs.envprobe_cli import envprobe
from tests.programs.requirement import missing

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "agents_env.py"


@pytest.fixture(scope="module")
def agents() -> Path:
    spec = importlib.util.spec_from_file_location("agents_env", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    folder: Path = made.default_folder()
    if not made.is_complete(folder):
        missing("agents", "run scripts/agents_env.py with this interpreter first")
    return folder


class Agents:
    """The environment and a hook of the user's own, behind an agent's on PYTHONPATH."""

    def __init__(self, folder: Path, place: Path) -> None:
        self.python = str(folder / "bin" / "python")
        (self.site,) = folder.glob("lib/python3.*/site-packages")
        self.mine = place / "mine" / "sitecustomize.py"
        self.mine.parent.mkdir()
        self.mine.write_text("import os\nos.environ['MINE_RAN'] = '1'\n")

    def trace(self, agent: str, *arguments: str, env: dict[str, str] | None = None) -> Any:
        path = f"{self.site / agent}:{self.mine.parent}" if agent else str(self.mine.parent)
        given = {"PYTHONPATH": path, **(env or {})}
        more = [word for name, value in given.items() for word in ("--env", f"{name}={value}")]
        quick = ("--runs", "0", "--no-spawn", "--format", "json", "--python", self.python)
        ran = envprobe("trace-sitecustomize", *quick, *more, *arguments)
        assert ran.returncode == 0, (ran.stdout, ran.stderr)
        return json.loads(ran.stdout)


@pytest.fixture
def here(agents: Path, tmp_path: Path) -> Agents:
    return Agents(agents, tmp_path)


def _hook(found: Any) -> Any:
    (hook,) = (one for one in found["starts"][0]["hooks"] if one["name"] == "sitecustomize")
    return hook


def _changed(found: Any) -> set[str]:
    return {one["name"] for one in found["starts"][0]["effects"]["changes"]}


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("ddtrace/bootstrap", "Datadog (ddtrace-run)"),
        ("newrelic/bootstrap", "New Relic (newrelic-admin)"),
    ],
)
def test_an_agent_that_chains_hides_nothing(here: Agents, agent: str, name: str) -> None:
    found = here.trace(agent, env={"DD_TRACE_ENABLED": "false"})
    hook = _hook(found)
    assert (hook["path"], hook["outcome"]) == (str(here.site / agent / "sitecustomize.py"), "ran")
    assert (hook["agent"], hook["chained"]) == (name, [str(here.mine)])
    assert "MINE_RAN" in _changed(found)
    assert "hook-shadowed" not in {one["check"] for one in found["findings"]}


def test_opentelemetry_hides_the_hook_behind_it(here: Agents) -> None:
    agent = "opentelemetry/instrumentation/auto_instrumentation"
    found = here.trace(agent, env={"OTEL_SDK_DISABLED": "true"})
    hook = _hook(found)
    assert (hook["path"], hook["outcome"]) == (str(here.site / agent / "sitecustomize.py"), "ran")
    assert (hook["agent"], hook["chained"]) == ("OpenTelemetry (opentelemetry-instrument)", [])
    assert "MINE_RAN" not in _changed(found)
    (shadowed,) = (one for one in found["findings"] if one["check"] == "hook-shadowed")
    assert str(here.mine) in shadowed["message"]
    assert any("which does not run the one it hides" in line for line in shadowed["evidence"])


def test_coverage_takes_a_startup_file_and_hides_nothing(here: Agents) -> None:
    found = here.trace("")
    (line,) = (
        hook for hook in found["starts"][0]["hooks"] if hook["path"].endswith("coverage.pth")
    )
    assert (line["outcome"], line["owner"].partition("-")[0]) == ("ran", "coverage")
    assert _hook(found)["path"] == str(here.mine)
    assert "MINE_RAN" in _changed(found)


def test_the_launcher_of_an_agent_sets_the_path_that_was_traced(here: Agents) -> None:
    """`ddtrace-run` puts its directory first: the trace above asks about the real thing."""
    command = [str(Path(here.python).with_name("ddtrace-run")), here.python, "-c", "import os"]
    command[-1] += "; print(os.environ['PYTHONPATH'].split(':')[0])"
    env = {"PATH": "/usr/bin:/bin", "DD_TRACE_ENABLED": "false"}
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.splitlines()[-1] == str(here.site / "ddtrace" / "bootstrap")
