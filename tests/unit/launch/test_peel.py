"""Command lines are followed to what they start: each is run, and its environment compared."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envprobe.launch import containers
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
ARRIVES = "the interpreter and its children get what it exports"
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
    ["bash", "-c", f"A=2 D=3 {SHELL_END}", PRINT],
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


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "export A=2 NEW=3\nunset NEW\nexport B",
            f"exports A and hands over by exec: {ARRIVES}",
        ),
        ("A=2\nunset B", f"exports A and hands over by exec: {ARRIVES}"),
        ("LOCAL=2", "hands over by exec"),
    ],
)
def test_what_a_wrapper_exports_is_said_to_arrive(text: str, told: str, tmp_path: Path) -> None:
    script = tmp_path / "w.sh"
    script.write_text(f'#!/bin/sh\n{text}\nexec {PYTHON} -c "{PRINT}"\n')
    script.chmod(0o755)
    launch = _launch([str(script)])
    assert launch.hops[-1].told == told
    assert _known(launch) == _real([str(script)])


def test_what_a_wrapper_exports_may_be_taken_out_again(tmp_path: Path) -> None:
    launch = _launch(["sh", "-c", f"export NEW=1; exec env -i {PYTHON} x.py"])
    told = [hop.told for hop in launch.hops[-2:]]
    assert told[0] == "exports NEW and hands over by exec: the next one gets what it exports"
    assert told[1] == "starts with an empty environment"
    assert launch.declared.reading("NEW").state is State.ABSENT


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


@pytest.mark.parametrize(
    "words",
    [
        ["--cpunodebind=0", "--membind=0"],
        ["-N", "0", "-m0", "-l"],
        ["--interleave", "all", "--"],
        ["-C0-7", "env", "-u", "NOT_SET", "numactl", "--localalloc"],
    ],
    ids=" ".join,
)
def test_numactl_passes_its_environment_on(words: list[str]) -> None:
    launch = _launch(["numactl", *words, PYTHON, "-I", "serve.py"])
    assert (launch.opaque, _known(launch)) == ("", GIVEN)
    assert launch.python is not None
    assert (launch.python.interpreter, launch.python.flags) == (PYTHON, ("-I",))
    assert (launch.python.mode, launch.python.target) == (Mode.SCRIPT, "serve.py")
    hop = launch.hops[0]
    assert (hop.program, hop.told, hop.child) == ("numactl", "passes its environment on", False)


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


def test_what_torchrun_takes_from_its_environment(tmp_path: Path) -> None:
    torchrun = tmp_path / "torchrun"
    torchrun.write_text(f"#!{PYTHON}\n")

    def threads(*argv: str) -> bytes | State:
        found = _launch(["env", *argv]).declared.reading("OMP_NUM_THREADS")
        return found.state if found.value is None else found.value.reveal()

    # One rank has no default; PET_NPROC_PER_NODE stands for the option.
    assert threads(str(torchrun), "t.py") is State.ABSENT
    assert threads("PET_NPROC_PER_NODE=8", str(torchrun), "t.py") == b"1"
    assert threads("OMP_NUM_THREADS=4", str(torchrun), "--nproc-per-node=8", "t.py") == b"4"
    # How many "gpu" are is not known here, and for one nothing is set.
    assert threads(str(torchrun), "--nproc-per-node=gpu", "t.py") is State.UNREADABLE
    assert threads(PYTHON, "-m", "torch.distributed.run", "--nproc-per-node=2", "t.py") == b"1"
    launch = _launch([PYTHON, "-I", "-m", "torch.distributed.run", "-m", "pkg.train", "--x"])
    assert launch.python is not None
    assert (launch.python.mode, launch.python.target) == (Mode.MODULE, "pkg.train")
    # The ranks are started without the flags of the launcher.
    assert launch.python.flags == ("-u",)
    launch = _launch(["env", "PYTHON_EXEC=/opt/venv/bin/python", str(torchrun), "t.py"])
    assert launch.python is not None
    assert launch.python.interpreter == "/opt/venv/bin/python"
    launch = _launch([str(torchrun), "--signals-to-handle=SIGTERM", "--no-python", PYTHON, "t.py"])
    assert launch.python is not None
    assert launch.python.flags == ()
    value = launch.declared.reading("TORCH_NCCL_ASYNC_ERROR_HANDLING").value
    assert value is not None
    assert value.reveal() == b"1"


def test_ray_start_is_a_plain_hop_that_tells_what_workers_get(tmp_path: Path) -> None:
    ray = tmp_path / "ray"
    ray.write_text(f"#!{PYTHON}\n")
    launch = _launch(["env", "X=1", str(ray), "start", "--head", "--block", "--num-gpus=8"])
    assert (launch.opaque, _known(launch)) == ("", {**GIVEN, "X": "1"})
    assert launch.python is not None
    assert (launch.python.interpreter, launch.python.target) == (PYTHON, str(ray))
    assert launch.python.arguments == ("start", "--head", "--block", "--num-gpus=8")
    hop = launch.hops[-1]
    assert (hop.program, hop.child) == ("ray start", True)
    assert "Ray's workers get that of the raylet, runtime_env and what Ray sets" in hop.told
    # Another command of Ray starts no raylet, and an unknown file is none of Ray's.
    assert _launch([str(ray), "status"]).hops == ()
    ray.write_bytes(b"\x7fELF")
    assert _launch([str(ray), "start"]).opaque == "ray is a program that envprobe does not know"


def _through_srun(*words: str, **variables: str) -> dict[str, str | None]:
    """Return what srun lets through of some names; None for what cannot be told."""
    given = [f"{name}={value}" for name, value in variables.items()]
    declared = _launch(["env", *given, "srun", *words, PYTHON, "t.py"]).declared
    found: dict[str, str | None] = {}
    for name in ("NCCL_ALGO", "A", "X", "SLURM_JOB_ID"):
        reading = declared.reading(name)
        if reading.state is not State.ABSENT:
            found[name] = None if reading.value is None else reading.value.reveal().decode()
    return found


def test_what_srun_exports() -> None:
    every = {"NCCL_ALGO": "Ring", "A": "1"}
    assert _through_srun() == every
    # What is set already counts more than an assignment beside ALL.
    assert _through_srun("--export=ALL,X=9,A=9") == {**every, "X": "9"}
    assert _through_srun("--export=all") == every
    assert _through_srun("--export=A,X=9", SLURM_JOB_ID="7") == {
        "A": "1",
        "X": "9",
        "SLURM_JOB_ID": "7",
    }
    assert _through_srun("--export=NONE,A") == {"X": None, "SLURM_JOB_ID": None}
    assert _through_srun(SLURM_EXPORT_ENV="NONE") == {"X": None, "SLURM_JOB_ID": None}
    assert _through_srun("--export=ALL", SLURM_EXPORT_ENV="NONE") == every
    for word in ("--container=/oci", "--container-image=x", "--multi-prog", "--export='A=1,2'"):
        assert _launch(["srun", word, PYTHON, "t.py"]).opaque


def _venv(folder: Path) -> Path:
    prefix = folder / ".venv"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python").symlink_to(PYTHON)
    return prefix


def _interpreter(argv: list[str], cwd: Path) -> str:
    launch = _launch(argv, cwd)
    return launch.python.interpreter if launch.python is not None else ""


def test_conda_activates_an_environment(tmp_path: Path) -> None:
    prefix = _venv(tmp_path)
    run = ["conda", "run", "-p", str(prefix)]
    launch = _launch([*run, "--no-capture-output", "python", "s.py"])
    assert launch.python is not None
    assert launch.python.interpreter == f"{prefix}/bin/python"
    assert _known(launch)["NCCL_ALGO"] == "Ring"
    assert _known(launch)["CONDA_PREFIX"] == str(prefix)
    # conda's own directory comes between, so that the whole PATH is not known.
    assert launch.declared.reading("PATH").state is State.UNREADABLE
    # Packages set variables, and `conda env config vars set` those that count more.
    (prefix / "etc/conda/env_vars.d").mkdir(parents=True)
    (prefix / "etc/conda/env_vars.d/p.json").write_text('{"A": "package", "P": "1"}')
    (prefix / "conda-meta").mkdir()
    state = {"A": "env", "B": "***unset***", "PATH": "/no"}
    (prefix / "conda-meta/state").write_text(json.dumps({"env_vars": state}))
    known = _known(_launch([*run, "-s", "python", "s.py"]))
    assert (known["A"], known["P"], known["B"]) == ("env", "1", "two words")
    assert "PATH" not in known
    (prefix / "etc/conda/activate.d").mkdir()
    (prefix / "etc/conda/activate.d/x.sh").write_text("")
    assert "A" not in _known(_launch([*run, "python", "s.py"]))
    launch = _launch(["conda", "run", "-n", "sgl", "python", "s.py"])
    assert launch.declared.reading("NCCL_ALGO").state is State.UNREADABLE


def test_uv_finds_a_virtual_environment(tmp_path: Path) -> None:
    python = f"{_venv(tmp_path)}/bin/python"
    below = tmp_path / "below"
    below.mkdir()
    (below / "serve.py").write_text("pass\n")
    assert _interpreter(["uv", "run", "serve.py"], below) == python
    assert _interpreter(["uv", "run", "--directory", str(below), "serve.py"], Path("/")) == python
    assert _interpreter(["uv", "run", "--frozen", "-m", "pkg"], below) == python
    launch = _launch(["uv", "run", "--directory", "below", "python", "x.py"], tmp_path)
    assert launch.cwd == str(below)
    assert launch.declared.reading("UV_RUN_RECURSION_DEPTH").state is State.UNREADABLE
    # Another environment is made, or chosen: which interpreter it has is not known.
    for words in (["--with", "numpy"], ["--isolated"], ["-p", "3.12"]):
        assert _interpreter(["uv", "run", *words, "serve.py"], below) == "python"
    (below / "serve.py").write_text("# /// script\n# dependencies = []\n# ///\n")
    assert _interpreter(["uv", "run", "serve.py"], below) == "python"
    other = ["env", f"VIRTUAL_ENV={tmp_path}/other", "uv", "run"]
    assert _interpreter([*other, "-m", "x"], below) == python
    chosen = f"{tmp_path}/other/bin/python"
    assert _interpreter([*other, "--no-project", "-m", "x"], below) == chosen


def test_uv_reads_env_files_by_a_grammar_of_its_own(tmp_path: Path) -> None:
    _venv(tmp_path)
    (tmp_path / "x.env").write_text("A=no\nexport C=3\nD='x y'\nE=$A\nF=1\n")
    (tmp_path / "y.env").write_text("F=2\n")
    launch = _launch(["uv", "run", "--env-file=x.env", "--env-file=y.env", "x.py"], tmp_path)
    known = _known(launch)
    assert (known["A"], known["C"], known["F"]) == ("1", "3", "2")
    assert "D" not in known
    assert launch.declared.reading("E").state is State.UNREADABLE
    by_name = ["env", "UV_ENV_FILE=y.env", "uv", "run", "x.py"]
    assert _known(_launch(by_name, tmp_path))["F"] == "2"
    assert "F" not in _known(_launch([*by_name[:4], "--no-env-file", "x.py"], tmp_path))


def test_real_uv_hands_over_what_is_told(tmp_path: Path) -> None:
    folders = (os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath))
    found = shutil.which("uv", path=os.pathsep.join(folders))
    if found is None:
        missing("uv", "it is not installed")
    _venv(tmp_path)
    (tmp_path / ".venv" / "pyvenv.cfg").write_text(f"home = {os.path.dirname(PYTHON)}\n")
    (tmp_path / "x.env").write_text("A=no\nexport C=3\nF=1\n")
    offline = ["--no-project", "--offline", "--no-config", "--env-file", "x.env"]
    argv = [found, "run", *offline, "python", "-c", PRINT]
    launch = _launch(argv, tmp_path)
    real = _real(argv, tmp_path)
    assert _known(launch) == {
        name: value
        for name, value in real.items()
        if launch.declared.reading(name).state is State.VALUE
    }
    assert set(real) - set(_known(launch)) <= {"UV", "UV_RUN_RECURSION_DEPTH"}


def test_what_podman_and_docker_do_with_names(tmp_path: Path) -> None:
    def passed(*argv: str) -> dict[str, bytes]:
        launch = peel(
            _declared(GIVEN),
            [argv[0], "run", *argv[1:], "image:1"],
            Place("unit", 2),
            cwd=str(tmp_path),
            image=("GONE=image", "A=image"),
        )
        assert launch.container is not None
        found = launch.container.passed
        return {one.name: one.value.reveal() for one in found if one.value is not None}

    image = {"GONE": b"image", "A": b"image"}
    assert passed("docker") == image
    # A name that is not set here takes the image's own out.
    assert passed("docker", "-e", "GONE", "-e", "A") == {"A": b"1"}
    assert passed("docker", "-e", "NCCL_*") == image
    assert passed("podman", "-e", "NCCL_*") == {**image, "NCCL_ALGO": b"Ring"}
    assert passed("podman", "--env-host")["PYTHONPATH"] == b"/opt/hooks"


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


def test_a_dollar_of_compose_is_doubled() -> None:
    given = {"A": "$$B $${C}", "N": None}
    services = {"services": {"s": {"environment": given, "command": ["sh", "-c", "echo $$A"]}}}
    _, settings, words = containers.compose(services, "compose.json", None)
    values = {one.name: None if one.value is None else one.value.reveal() for one in settings}
    assert values == {"A": b"$B ${C}", "N": None}
    assert words == ("sh", "-c", "echo $A")
