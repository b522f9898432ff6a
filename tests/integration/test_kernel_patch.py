"""The patch in SGLang's real TritonAttnBackend, on a machine without a GPU.

SGLang's own kernel runs in Triton's interpreter. The bundled CUDA kernel cannot run here: in the
tests whose name says `reference`, the torch reference answers in its place. What runs on a GPU is
measured by scripts/bench_kernel.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.programs import envprobe_cli
from tests.programs.requirement import missing
from tests.programs.sglang_server import SglangError, find_environment

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.sglang

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "programs" / "sglang_verify.py"
SECONDS = 600

CASES: dict[str, dict[str, Any]] = {
    "taken": {"heads": 8, "prefixes": [37, 5]},
    "flat q, no prefix": {"heads": 2, "prefixes": [0, 3], "flat": True},
    "nothing is stored": {"arguments": {"save_kv_cache": False}},
    "plain extend": {"mode": "EXTEND"},
    "logit cap": {"layer": {"logit_cap": 30.0}},
    "sinks": {"sinks": True},
    "validate": {"kernel": "validate"},
    "validate, wrong": {"kernel": "validate", "factor": 1.1},
    "off": {"kernel": "off"},
}
NO_CALLS = {
    "taken": 0,
    "recorded": 0,
    "fallen_back": 0,
    "other_modes": 0,
    "compared": 0,
    "differing": 0,
}


@pytest.fixture(scope="module")
def python() -> str:
    try:
        return str(find_environment() / "venv" / "bin" / "python")
    except SglangError as error:
        missing("sglang", str(error))


def started(
    python: str, arguments: list[str], text: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "TRITON_INTERPRET": "1",
        "PYTHONPATH": str(ROOT),
        **variables,
    }
    done = subprocess.run(
        [python, *arguments],
        input=text,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done


def run(python: str, arguments: list[str], text: str, **variables: str) -> str:
    return started(python, arguments, text, **variables).stdout


@pytest.fixture(scope="module")
def reports(python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    model = tmp_path_factory.mktemp("model")
    text = run(python, [str(PROGRAM), str(model)], json.dumps(list(CASES.values())))
    return dict(zip(CASES, json.loads(text.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("name", ["taken", "flat q, no prefix", "nothing is stored"])
def test_the_reference_in_the_kernels_place_equals_sglangs_own_kernel(
    name: str, reports: dict[str, dict[str, Any]]
) -> None:
    report = reports[name]
    assert report["counters"] == NO_CALLS | {"taken": 1}
    assert report["error"] < 1e-6 < report["scale"]
    assert report["dtype"] == "torch.float32"
    assert Path(report["function_of"]) == ROOT / "kernel_ext" / "patch.py"


def test_the_shape_is_sglangs(reports: dict[str, dict[str, Any]]) -> None:
    assert reports["taken"]["shape"] == [8, 8 * 512]
    assert reports["flat q, no prefix"]["shape"] == [8, 2 * 512]


def test_new_keys_are_stored_as_sglang_stores_them(reports: dict[str, dict[str, Any]]) -> None:
    assert reports["taken"]["stored"] == [True, True]
    assert reports["nothing is stored"]["stored"] == [False, False]


@pytest.mark.parametrize(
    ("name", "counters", "reasons"),
    [
        ("plain extend", {"other_modes": 1}, {}),
        ("logit cap", {"fallen_back": 1}, {"argument logit_cap": 1}),
        ("sinks", {"fallen_back": 1}, {"argument sinks": 1}),
        ("off", {}, {}),
    ],
)
def test_the_rest_is_sglangs_own(
    name: str,
    counters: dict[str, int],
    reasons: dict[str, int],
    reports: dict[str, dict[str, Any]],
) -> None:
    report = reports[name]
    assert report["counters"] == NO_CALLS | counters
    assert report["reasons"] == reasons
    assert report["error"] == 0.0
    assert report["applied"] == (name != "off")


@pytest.mark.parametrize(("name", "differing"), [("validate", 0), ("validate, wrong", 1)])
def test_validate_uses_sglangs_result_and_counts_where_the_reference_differs(
    name: str, differing: int, reports: dict[str, dict[str, Any]]
) -> None:
    report = reports[name]
    assert report["counters"] == NO_CALLS | {"compared": 1, "differing": differing}
    assert report["error"] == 0.0


def test_the_first_answer_and_a_difference_are_logged(reports: dict[str, dict[str, Any]]) -> None:
    assert reports["taken"]["said"] == ["the bundled verify kernel answers (8 heads)"]
    (message,) = reports["validate, wrong"]["said"]
    assert message.startswith("the two kernels differ: ")
    assert reports["validate"]["said"] == reports["off"]["said"] == []


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_left_behind(name: str, reports: dict[str, dict[str, Any]]) -> None:
    assert reports[name]["kernel_is_back"]
    assert reports[name]["removed"]


WHOSE = """
import sys
{start}
assert "sglang.srt.layers.attention.triton_backend" not in sys.modules
from sglang.srt.layers.attention import triton_backend
from sglang.srt.layers.attention.triton_backend import TritonAttnBackend
print(TritonAttnBackend.forward_extend.__code__.co_filename)
print(triton_backend.__spec__.loader.__class__.__name__)
"""
LOAD_PLUGINS = "from sglang.srt.plugins import load_plugins; load_plugins()"


def whose(python: str, start: str, **variables: str) -> list[str]:
    """Return the file of the class's function, and the loader of its module."""
    return run(python, ["-c", WHOSE.format(start=start)], "", **variables).splitlines()[-2:]


def test_a_start_up_hook_patches_the_class_when_it_is_imported(python: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import kernel_ext.hook as h\nh.install()\n")
    found = whose(python, "", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}", ENVPROBE_KERNEL="on")
    assert found == [str(ROOT / "kernel_ext" / "patch.py"), "SourceFileLoader"]


def test_a_hook_of_init_hook_patches_the_class(python: str, tmp_path: Path) -> None:
    target = "sglang.srt.layers.attention.triton_backend:TritonAttnBackend.forward_extend"
    patch = f"{target}=kernel_ext.sglang_backend:forward_extend"
    made = envprobe_cli.envprobe("init-hook", str(tmp_path), "--patch", patch)
    assert made.returncode == 0, made.stderr
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    found = whose(python, "", PYTHONPATH=path, ENVPROBE_KERNEL="on")
    assert found[0] == str(ROOT / "kernel_ext" / "patch.py")


@pytest.mark.parametrize(("value", "file"), [("on", "patch.py"), ("off", "triton_backend.py")])
def test_sglang_loads_the_plugin_of_the_package(
    value: str, file: str, python: str, tmp_path: Path
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (name, target), *others = project["entry-points"]["sglang.srt.plugins"].items()
    assert not others
    installed = tmp_path / "envprobe-0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: envprobe\nVersion: 0\n")
    (installed / "entry_points.txt").write_text(f"[sglang.srt.plugins]\n{name} = {target}\n")
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    found = whose(python, LOAD_PLUGINS, PYTHONPATH=path, ENVPROBE_KERNEL=value)
    assert Path(found[0]).name == file


UNUSED = """
from kernel_ext import counters
from sglang.srt.layers.attention import triton_backend
print(counters.unused)
"""
NO_BACKEND = "the command line names no --attention-backend"


@pytest.mark.parametrize("way", ["kernel_ext.hook", "envprobe init-hook"])
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--attention-backend", "triton"], ""),
        (["--attention-backend", "fa3"], "verify steps go to the backend fa3, not to triton"),
        ([], NO_BACKEND),
    ],
)
def test_a_class_that_sglang_would_never_call_is_said_on_standard_error_and_in_the_counters(
    way: str, words: list[str], reason: str, python: str, tmp_path: Path
) -> None:
    if way == "kernel_ext.hook":
        (tmp_path / "sitecustomize.py").write_text("import kernel_ext.hook as h\nh.install()\n")
    else:
        target = "sglang.srt.layers.attention.triton_backend:TritonAttnBackend.forward_extend"
        patch = f"{target}=kernel_ext.sglang_backend:forward_extend"
        assert envprobe_cli.envprobe("init-hook", str(tmp_path), "--patch", patch).returncode == 0
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    done = started(python, ["-c", UNUSED, *words], "", PYTHONPATH=path, ENVPROBE_KERNEL="on")
    assert done.stdout.splitlines()[-1].startswith(reason)
    assert bool(done.stdout.splitlines()[-1]) == bool(reason)
    warning = f"the bundled kernel will not run: {reason}"
    assert (warning in done.stderr) == bool(reason)
    assert ("will not run" in done.stderr) == bool(reason)
