"""The examples of docs/integrations.md that start something, as far as they can run on one machine.

What they name (/opt/envprobe, the server, its configuration) is put where a test may write; the
cluster's own programs are stood in for, and the words that they are given are what is tested.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.programs.envprobe_cli import environment, envprobe
from tests.programs.gates import PYTHON, Place
from tests.programs.trees import TitledTree
from tests.programs.usermanager import UserManager, user_manager

PAGE = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text("utf-8")
TOOL = "/opt/envprobe/bin/python"


def block(language: str, word: str) -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)
    (only,) = (one for one in found if word in one)
    return str(only)


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserManager]:
    with user_manager(tmp_path_factory.mktemp("manager")) as found:
        yield found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.expect(
        f'[expect.env]\nNCCL_ALGO = "Ring"\n[expect.sitecustomize]\nfrom = "{made.hooks}"\n'
    )
    return made


@pytest.mark.parametrize("algo", ["Ring", "Tree"])
def test_the_drop_in_reports_and_lets_the_server_start(
    manager: UserManager, place: Place, algo: str
) -> None:
    report = place.folder / "start.html"
    drop_in = block("ini", "ExecStartPre")
    for named, here in (
        (TOOL, sys.executable),
        ("/etc/sglang/envprobe.toml", str(place.config)),
        ("/var/log/envprobe/start.html", str(report)),
        ("--unit %n", "--unit %n --user"),
    ):
        assert named in drop_in
        drop_in = drop_in.replace(named, here)
    name = f"probed-{algo.lower()}"
    path = place.unit(f"Environment=NCCL_ALGO={algo}", "Type=simple")
    manager.write(f"{name}.service", Path(path).read_text())
    manager.write(f"{name}.service.d/envprobe.conf", drop_in)
    manager.systemctl("daemon-reload")
    manager.systemctl("start", name)
    try:
        assert manager.main_pid(name)
        page = report.read_text()
        assert f"{name}.service" in page
        assert ("EP329 declared-unexpected" in page) == (algo == "Tree")
        assert page.count("<title>FAILS") == (algo == "Tree")
    finally:
        manager.systemctl("stop", name)


def pod() -> Any:
    return yaml.safe_load(block("yaml", "sglang-gated"))["spec"]


def test_the_init_container_judges_the_launch_of_the_server(place: Place) -> None:
    spec = pod()
    gate = next(one for one in spec["initContainers"] if one["name"] == "gate")
    (server,) = spec["containers"]
    words = gate["command"]
    assert words[:4] == [TOOL, "-I", "-m", "envprobe"]
    assert words[words.index("--") + 1 :] == server["command"]
    assert gate["env"] == server["env"]
    variables = {one["name"]: one["value"] for one in gate["env"]}
    variables["PYTHONPATH"] = str(place.hooks)
    given = [*words[4 : words.index("--") + 1], PYTHON, str(place.server)]
    given[given.index("/etc/envprobe/envprobe.toml")] = str(place.config)
    ran = envprobe(*given, env=environment(**variables))
    assert ran.returncode == 0, ran.stdout
    assert ran.stdout.startswith("HOLDS: ")
    ran = envprobe(*given, env=environment(**{**variables, "NCCL_ALGO": "Tree"}))
    assert ran.returncode == 1
    assert "EP329" in ran.stdout


def test_the_job_stops_before_its_server_and_names_the_step(place: Place) -> None:
    script = block("bash", "srun --nodes")
    first = script.replace("\\\n", " ").splitlines()[0]
    words = shlex.split(first)
    assert words[0] == "srun"
    assert words[-2:] == ["||", "exit"]
    # A stand-in: the step that srun starts on a node runs with the job's environment (srun(1),
    # --export), and srun ends with the highest exit code of its tasks.
    srun = place.folder / "srun"
    srun.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift 2; done\nexec "$@"\n')
    srun.chmod(0o755)
    text = first.replace(TOOL, sys.executable).replace("$HOME/", f"{place.folder}/")
    text = text.replace("python3 -m sglang.launch_server --tp 8", f"{PYTHON} {place.server}")
    job = place.folder / "job.sh"
    job.write_text(f"{text}\necho the server starts\n")
    path = f"{place.folder}:{environment()['PATH']}"
    for algo, starts in (("Ring", True), ("Tree", False)):
        variables = environment(NCCL_ALGO=algo, PYTHONPATH=str(place.hooks), PATH=path)
        ran = envprobe(command=["sh", str(job)], env={**variables, "SLURM_JOB_NUM_NODES": "2"})
        assert ("the server starts" in ran.stdout) is starts, ran.stdout
        assert ("EP329" in ran.stdout) is not starts
        assert ran.returncode == (0 if starts else 1)


@pytest.mark.parametrize(("algo", "code"), [("Ring", 0), ("Tree", 1)])
def test_the_startup_probe_judges_the_first_process(place: Place, algo: str, code: int) -> None:
    (server,) = pod()["containers"]
    words = server["startupProbe"]["exec"]["command"]
    assert words[:4] == [TOOL, "-I", "-m", "envprobe"]
    assert words[-2:] == ["--pid", "1"]
    given = [*words[4:-1]]
    given[given.index("/etc/envprobe/envprobe.toml")] = str(place.config)
    variables = {"NCCL_ALGO": algo, "PYTHONPATH": str(place.hooks)}
    with TitledTree(workers=2, env=variables) as running:
        ran = envprobe(*given, str(running.root), command=[sys.executable, *words[1:4]])
        assert ran.returncode == code, ran.stdout
        assert ran.stdout.startswith("FAILS: " if code else "HOLDS: ")
        # The server's own workers are what is judged.
        assert ("EP004" in ran.stdout) == bool(code), ran.stdout
        assert ("scheduler TP1" in ran.stdout) or not code, ran.stdout
