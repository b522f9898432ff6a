"""The composite action is one, and its steps do what they say; the examples of the docs parse."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from envprobe import cli, demo
from tests.programs import consumers
from tests.programs.envprobe_cli import environment
from tests.programs.requirement import missing

ROOT = Path(__file__).resolve().parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
INSTALL, PROBE = ACTION["runs"]["steps"]
PAGE = (ROOT / "docs" / "integrations.md").read_text("utf-8")


@pytest.fixture(scope="module")
def tree() -> Iterator[demo.Tree]:
    with demo.tree() as running:
        yield running


def step(
    one: dict[str, Any], folder: Path, context: dict[str, str], **given: str
) -> subprocess.CompletedProcess[str]:
    """Run one step as the runner does: `${{ }}` is filled in its `env` only, then bash -e."""
    inputs = {name: str(stated["default"]) for name, stated in ACTION["inputs"].items()}
    known = {f"inputs.{name}": text for name, text in {**inputs, **given}.items()} | context

    def filled(text: str) -> str:
        return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", lambda found: known[found[1]], text)

    script = folder / "step.sh"
    script.write_text(one["run"])
    env = {name: filled(text) for name, text in one["env"].items()}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        env=environment(**env, GITHUB_OUTPUT=str(folder / "output"), HOME=str(folder)),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def runner(tmp_path: Path) -> dict[str, str]:
    """Return the contexts of a runner whose virtual environment is that of the tests."""
    bin_folder = tmp_path / "envprobe-venv" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (bin_folder / "python").chmod(0o755)
    return {"runner.temp": str(tmp_path), "github.action_path": str(ROOT)}


def output(folder: Path) -> dict[str, str]:
    lines = (folder / "output").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_it_is_an_action_and_no_input_reaches_a_shell_as_code() -> None:
    stated = consumers.schema("GitHub Action")
    jsonschema.validators.validator_for(stated)(stated).validate(ACTION)
    for one in ACTION["runs"]["steps"]:
        assert "${{" not in one["run"]
        assert one["shell"] == "bash"
    outputs = {name: stated["value"] for name, stated in ACTION["outputs"].items()}
    assert outputs == {name: f"${{{{ steps.probe.outputs.{name} }}}}" for name in outputs}


def test_a_finding_fails_the_step_and_leaves_all_reports(
    tree: demo.Tree, runner: dict[str, str], tmp_path: Path
) -> None:
    config = tmp_path / "my config.toml"
    config.write_text('[expect.env]\nNCCL_ALGO = "Never"\n')
    done = step(PROBE, tmp_path, runner, pid=str(tree.pid), config=str(config))
    assert done.returncode == 1, done.stderr
    found = consumers.annotations(done.stdout)
    assert any(one.title == "EP004 env-wrong-value (fails)" for one in found)
    assert output(tmp_path) == {"exit-code": "1", "reports": "envprobe-reports"}
    reports = tmp_path / "envprobe-reports"
    assert sorted(one.name for one in reports.iterdir()) == [
        "report.html",
        "report.json",
        "report.sarif",
        "report.xml",
    ]
    consumers.sarif((reports / "report.sarif").read_text())
    assert json.loads((reports / "report.json").read_text())["verdict"]["exit"] == 1


def test_the_gate_judges_a_unit_by_its_files(runner: dict[str, str], tmp_path: Path) -> None:
    unit, drop_in = tmp_path / "sgl.service", tmp_path / "10-nccl.conf"
    unit.write_text("[Service]\nEnvironment=NCCL_ALGO=Ring\nExecStart=/nowhere/python -c 1\n")
    (tmp_path / "envprobe.toml").write_text('[expect.env]\nNCCL_ALGO = "Ring"\n')
    given = {"config": "envprobe.toml", "unit": f"{unit}\n{drop_in}", "static": "true"}
    drop_in.write_text("[Service]\nEnvironment=NCCL_PROTO=LL\n")
    done = step(PROBE, tmp_path, runner, **given)
    assert done.returncode == 0, done.stdout
    (last,) = consumers.annotations(done.stdout)
    assert last.message.startswith("HOLDS: nothing to report in unit, by files alone")
    drop_in.write_text("[Service]\nEnvironment=NCCL_ALGO=Tree\n")
    done = step(PROBE, tmp_path, runner, **given)
    assert done.returncode == 1
    titles = {one.title for one in consumers.annotations(done.stdout)}
    assert "EP329 declared-unexpected (fails)" in titles
    report = json.loads((tmp_path / "envprobe-reports" / "report.json").read_text())
    assert report["phase"] == "static"
    drop_in.write_text("[Service]\n")
    (tmp_path / "envprobe.toml").write_text('[expect.env]\nNCCL_PROTO = "LL"\n')
    assert step(PROBE, tmp_path, runner, **given).returncode == 3
    accepted = given | {"allow-unknown": "declared-unexpected\nEP701"}
    assert step(PROBE, tmp_path, runner, **accepted).returncode == 0


def test_inputs_are_data(runner: dict[str, str], tmp_path: Path) -> None:
    evil = '"; touch owned; $(touch owned) #'
    done = step(
        PROBE, tmp_path, runner, pid=evil, unit=evil, wait=evil, reports="a\nexit-code=0", live=evil
    )
    assert done.returncode == 2
    assert not (tmp_path / "owned").exists()
    assert output(tmp_path)["exit-code"] == "2"
    assert len((tmp_path / "output").read_text().splitlines()) == 2


def test_the_install_step_makes_an_environment_from_the_action(tmp_path: Path) -> None:
    # Its commands are recorded: what pip would fetch is none of this test's business.
    fake = tmp_path / "python"
    made = tmp_path / "envprobe-venv" / "bin"
    fake.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$*" >>{tmp_path}/asked\n'
        f'mkdir -p {made}\n[ -e {made}/python ] || cp "$0" {made}/python\n'
    )
    fake.chmod(0o755)
    context = {"runner.temp": str(tmp_path), "github.action_path": str(ROOT)}
    done = step(INSTALL, tmp_path, context, python=str(fake))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "asked").read_text().splitlines() == [
        f"-I -m venv {tmp_path}/envprobe-venv",
        f"-I -m pip install --quiet --disable-pip-version-check {ROOT}[html]",
    ]


# --- the examples of docs/integrations.md --------------------------------------------------------


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)


def test_the_workflow_uses_inputs_that_the_action_has() -> None:
    (workflow,) = (found for found in documents() if "jobs" in found)
    steps = [one for job in workflow["jobs"].values() for one in job["steps"]]
    used = [one["with"] for one in steps if one.get("uses", "").startswith("OWNER/")]
    assert len(used) == 3
    for one in used:
        assert set(one) <= set(ACTION["inputs"])


def documents() -> list[Any]:
    return [yaml.safe_load(one) for one in blocks("yaml")]


def of_pods() -> Iterator[list[str]]:
    """Yield the commands of every container and probe on the page."""
    for pod in documents():
        for one in (*pod.get("spec", {}).get("initContainers", ()), *_containers(pod)):
            yield one.get("command", [])
            yield one.get("startupProbe", {}).get("exec", {}).get("command", [])


def _containers(pod: Any) -> list[Any]:
    found: list[Any] = pod.get("spec", {}).get("containers", [])
    return found


def commands() -> list[list[str]]:
    """Return the words of every call of envprobe on the page, without its program."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.M | re.S)
    code = "".join(text for language, text in fenced if language != "yaml")
    text = code.replace("\\\n", " ").replace("'\n", "\n").replace("bash -c '", "")
    found = []
    for line in text.splitlines():
        words = re.search(r"(?:^ *envprobe|-m envprobe) (.*)", line)
        if words is not None:
            shown = re.sub(r"\$\([^)]*\)", "4711", words[1]).partition("   #")[0]
            found.append(shlex.split(re.split(r"\s+(?:>|&&|\|\|)", shown)[0]))
    found += [words[4:] for words in of_pods() if "envprobe" in words[:4]]
    return found


@pytest.mark.parametrize("words", commands(), ids=lambda words: " ".join(words[:2]))
def test_every_command_on_the_page_is_understood(words: list[str]) -> None:
    assert callable(cli.app(args=words, prog_name="envprobe", standalone_mode=False))


def test_the_drop_in_is_accepted_and_only_reports(tmp_path: Path) -> None:
    (drop_in,) = blocks("ini")
    (start,) = re.findall(r"^ExecStartPre=(.*)$", drop_in, re.M)
    assert start.startswith("-/usr/bin/timeout --kill-after=5 20 ")
    assert "--exit-zero" in start
    verify = shutil.which("systemd-analyze")
    if verify is None:
        missing("systemd", "systemd-analyze is not installed")
    unit = tmp_path / "probed.service"
    unit.write_text("[Service]\nExecStart=/bin/true\n" + drop_in.replace("[Service]\n", ""))
    done = subprocess.run(
        [verify, "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    # The interpreter of the example is not on this machine; nothing else may be said of the unit.
    said = [line for line in done.stderr.splitlines() if "probed.service" in line]
    assert not [line for line in said if "not executable" not in line], said
