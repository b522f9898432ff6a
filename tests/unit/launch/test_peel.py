"""Command lines are followed to what they start: each is run, and its environment compared."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envprobe.launch.declared import Builder, Declared, setting
from envprobe.launch.peel import peel
from envprobe.launch.steps import Launch, Mode
from envprobe.launch.types import Place, Source
from envprobe.model import State
from tests.programs.requirement import missing

PYTHON = os.path.realpath(sys.executable)
PRINT = (
    "import os,json;print(json.dumps({k.decode('latin-1'):v.decode('latin-1')"
    " for k,v in os.environb.items()}))"
)
GIVEN = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "A": "1",
    "B": "two words",
    "PYTHONPATH": "/opt/hooks",
    "NCCL_ALGO": "Ring",
    "EMPTY": "",
}
BY_SHELL = frozenset({"PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"})
"""What shells and Python set themselves."""


def _declared(variables: dict[str, str]) -> Declared:
    builder = Builder()
    for name, value in variables.items():
        builder.set(setting(name, value, Source.ENVIRONMENT, Place("unit", 1)))
    return builder.made()


def _launch(argv: list[str], cwd: Path | str = "/") -> Launch:
    return peel(_declared(GIVEN), argv, Place("unit", 2), cwd=str(cwd))


def _real(argv: list[str], cwd: Path | str = "/") -> dict[str, str]:
    ran = subprocess.run(
        argv, env=GIVEN, cwd=cwd, capture_output=True, timeout=60, check=True, text=True
    )
    found: dict[str, str] = json.loads(ran.stdout)
    return {name: value for name, value in found.items() if name not in BY_SHELL}


def _known(launch: Launch) -> dict[str, str]:
    entries = launch.declared.environment.entries
    return {
        name: value.reveal().decode("latin-1")
        for name, value in entries.items()
        if value is not None and name not in BY_SHELL
    }


END = [PYTHON, "-c", PRINT]
SHELL_END = f'exec {PYTHON} -c "$0"'

EXACT = [
    ["env", *END],
    ["env", "-i", "X=1", *END],
    ["env", "-", "X=1", "Y==", *END],
    ["env", "-u", "A", "--unset=B", "NEW=x y", *END],
    ["env", "-uA", "A=2", *END],
    ["env", "-C", "/tmp", *END],
    ["nice", "-n", "1", *END],
    ["nice", "env", "-u", "PYTHONPATH", "nice", "--adjustment=2", *END],
    ["timeout", "-s", "KILL", "30", *END],
    ["taskset", "-c", "0", *END],
    ["ionice", "-c3", *END],
    ["setsid", "-w", *END],
    ["setpriv", "--no-new-privs", *END],
    ["bash", "-c", f'export C=3 "D=x y"; A=9; E=5; unset B && {SHELL_END}', PRINT],
    ["sh", "-c", f'C=1; D=2; export C; C=3 PYTHONPATH=/x:$PYTHONPATH {PYTHON} -c "$0"', PRINT],
    ["bash", "-ec", f"set -a; C=${{A}}-$EMPTY'$A'\"$B\"; set +a; D=1; {SHELL_END}", PRINT],
    [
        "sh",
        "-c",
        f'export P="${{PYTHONPATH:+x:$A}}" Q=${{NOPE:-def}} R=${{A:-q}}; {SHELL_END}',
        PRINT,
    ],
    ["sh", "-c", f": ; echo hi >/dev/null 2>&1; umask 022; cd /tmp && {SHELL_END}", PRINT],
    ["sh", "-c", f'export W=$B"$B"\\ x; exec env $A=1 Z=$1 {PYTHON} -c "$0"', PRINT, "one"],
]


@pytest.mark.parametrize("argv", EXACT, ids=lambda argv: " ".join(argv[:4])[:60])
def test_what_arrives_is_what_is_told(argv: list[str]) -> None:
    if shutil.which(argv[0]) is None:
        missing(argv[0], "it is not installed")
    launch = _launch(argv)
    assert launch.opaque == ""
    assert launch.python is not None
    assert (launch.python.interpreter, launch.python.mode) == (PYTHON, Mode.COMMAND)
    assert _known(launch) == _real(argv)


@pytest.mark.parametrize(
    "argv",
    [
        ["sudo", "-n", *END],
        ["sudo", "-n", "-E", "X=1", *END],
        ["sudo", "-n", "PYTHONPATH=/y", *END],
        ["sudo", "-n", "--preserve-env=NCCL_ALGO,PYTHONPATH", *END],
        ["setpriv", "--reset-env", *END],
        ["stdbuf", "-oL", *END],
    ],
    ids=lambda argv: " ".join(argv[:4])[:60],
)
def test_nothing_that_is_told_for_sure_is_wrong(argv: list[str]) -> None:
    if shutil.which(argv[0]) is None or os.geteuid() != 0:
        missing(argv[0], "it is not installed, or this is not root")
    launch = _launch(argv)
    assert (launch.opaque, launch.python is not None) == ("", True)
    real = _real(argv)
    for name in {*GIVEN, *_known(launch)}:
        reading = launch.declared.reading(name)
        if reading.state is State.VALUE:
            assert reading.value is not None
            assert reading.value.reveal().decode("latin-1") == real.get(name), name
        elif reading.state is State.ABSENT:
            assert name not in real, name
    if argv[0] == "sudo" and "--preserve-env=NCCL_ALGO,PYTHONPATH" not in argv:
        expected = State.VALUE if "PYTHONPATH=/y" in argv else State.ABSENT
        assert launch.declared.reading("PYTHONPATH").state is expected


def test_scripts_are_followed_with_what_they_source(tmp_path: Path) -> None:
    (tmp_path / "more.sh").write_text("# more\nexport NCCL_PROTO=Simple\nLOCAL=1\n")
    script = tmp_path / "run.sh"
    script.write_text(
        '#!/bin/bash\nset -euo pipefail\n. ./more.sh\nexport NCCL_ALGO="Tree" L=$LOCAL\n'
        f'exec {PYTHON} -c "{PRINT}" "$@"\n'
    )
    script.chmod(0o755)
    launch = _launch([str(script), "--tp", "8"], tmp_path)
    assert launch.opaque == ""
    assert _known(launch) == _real([str(script), "--tp", "8"], tmp_path)
    assert launch.python is not None
    assert launch.python.arguments == ("--tp", "8")
    entry = launch.declared.entry("NCCL_PROTO")
    assert entry is not None
    assert str(entry.setting.place) == f"{tmp_path}/more.sh:2"
    entry = launch.declared.entry("NCCL_ALGO")
    assert entry is not None
    assert str(entry.setting.place) == f"{script}:4"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("A=1\nif true; then\nexport B=2\nfi\nexec python3 x", 2),
        ("\n\nexport A=$(date)\nexec python3 x", 3),
        ("export A=1\nexport B=`date`\nexec python3 x", 2),
        ("eval 'export A=1'\nexec python3 x", 1),
        ("A=1\n. /nothing/at/all\nexec python3 x", 2),
        ("python3 x | tee log", 1),
        ("export A=1\nsome_tool --flag\nexec python3 x", 2),
        ("export A=*\nexec python3 x", 1),
        ("export A=1\n", 1),
        ("exec $LAUNCHER python3 x", 1),
        ('export A="never closed\nexec python3 x', 2),
    ],
)
def test_what_would_have_to_be_run_is_told_with_its_line(
    text: str, line: int, tmp_path: Path
) -> None:
    script = tmp_path / "run.sh"
    script.write_text(text)
    builder = Builder()
    declared = builder.made(open="not known")
    launch = peel(declared, ["bash", str(script)], Place("unit", 2), cwd="/")
    assert launch.opaque
    assert launch.python is None
    assert launch.opaque_at == Place(str(script), line)


def test_no_wrapper_is_executed(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f"#!/bin/sh\ntouch {mark}\nexec python3 x\n")
    wrapper.chmod(0o755)
    launch = _launch([str(wrapper)])
    assert launch.opaque_at == Place(str(wrapper), 2)
    assert not mark.exists()


def test_a_login_shell_leaves_everything_open() -> None:
    launch = _launch(["bash", "-lc", f"exec {PYTHON} x.py"])
    assert launch.python is not None
    assert launch.declared.reading("NCCL_ALGO").state is State.UNREADABLE
    assert launch.declared.reading("OTHER").state is State.UNREADABLE


def test_unknown_options_are_not_guessed() -> None:
    launch = _launch(["numactl", "--new-option", "0", PYTHON, "x.py"])
    assert launch.python is None
    assert launch.opaque == "the option --new-option is not known to envprobe"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-m", "sglang.launch_server", "--tp", "8"], (Mode.MODULE, "sglang.launch_server")),
        (["-I", "-X", "dev", "-Wignore", "serve.py"], (Mode.SCRIPT, "serve.py")),
        (["-Bmpkg", "x"], (Mode.MODULE, "pkg")),
        (["-uc", "print()"], (Mode.COMMAND, "print()")),
        (["-"], (Mode.STDIN, "")),
    ],
)
def test_the_interpreters_own_line(words: list[str], expected: tuple[Mode, str]) -> None:
    python = _launch([PYTHON, *words]).python
    assert python is not None
    assert (python.mode, python.target) == expected
    assert python.isolated("I") is ("-I" in words)


def test_torchrun_and_srun_set_what_they_set(tmp_path: Path) -> None:
    torchrun = tmp_path / "torchrun"
    torchrun.write_text(f"#!{PYTHON}\n")
    launch = _launch([str(torchrun), "--nproc-per-node", "8", "train.py", "--lr", "1"])
    assert launch.python is not None
    assert (launch.python.interpreter, launch.python.target) == (PYTHON, "train.py")
    value = launch.declared.reading("OMP_NUM_THREADS").value
    assert value is not None
    assert value.reveal() == b"1"
    assert launch.declared.reading("RANK").state is State.UNREADABLE
    launch = _launch(["srun", "-n", "8", "--export=ALL,X=1", PYTHON, "t.py"])
    assert launch.declared.reading("NCCL_ALGO").state is State.VALUE
    launch = _launch(["srun", "--export=NONE", PYTHON, "t.py"])
    assert launch.declared.reading("NCCL_ALGO").state is State.ABSENT


def test_uv_and_conda_lead_into_their_environments(tmp_path: Path) -> None:
    prefix = tmp_path / ".venv"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python").symlink_to(PYTHON)
    (tmp_path / "x.env").write_text("FROM_FILE=1\nA=no\n")
    launch = _launch(["uv", "run", "--env-file", "x.env", "serve.py"], tmp_path)
    assert launch.python is not None
    assert launch.python.interpreter == f"{prefix}/bin/python"
    assert _known(launch)["FROM_FILE"] == "1"
    assert _known(launch)["A"] == "1"
    launch = _launch(["conda", "run", "-p", str(prefix), "--no-capture-output", "python", "s.py"])
    assert launch.python is not None
    assert launch.python.interpreter == f"{prefix}/bin/python"
    assert _known(launch)["NCCL_ALGO"] == "Ring"
    launch = _launch(["conda", "run", "-n", "sgl", "python", "s.py"])
    assert launch.declared.reading("NCCL_ALGO").state is State.UNREADABLE


def test_docker_is_a_boundary(tmp_path: Path) -> None:
    (tmp_path / "e.env").write_text('NCCL_PROTO="Simple"\n# c\nA\n')
    argv = ["docker", "run", "--rm", "-it", "-e", "NCCL_ALGO", "-eX=1", "--env-file", "e.env"]
    launch = _launch(
        [*argv, "--gpus=all", "-e", "NOT_SET", "image:1", "python3", "serve.py"], tmp_path
    )
    container = launch.container
    assert container is not None
    passed = {one.name: one.value.reveal() for one in container.passed if one.value is not None}
    expected = {"NCCL_PROTO": b'"Simple"', "A": b"1", "NCCL_ALGO": b"Ring", "X": b"1"}
    assert passed == expected
    assert (container.image, container.words) == ("image:1", ("python3", "serve.py"))
    assert launch.python is None
    assert {one.kind.value for one in launch.remarks} >= {"passed-unset", "file-quotes-kept"}
