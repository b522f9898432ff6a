"""`envprobe kernel` as a user runs it.

Here, without a GPU: what compiles and what is read of real libraries, every way in which nothing
can be run, and the function in SGLang's real class, in Triton's interpreter. A driver's answers are
those of a library that stands for it (`fake_cuda`), and the tests' names say so. With a GPU, all.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envprobe import tables
from tests.programs import cbuild, envprobe_cli
from tests.programs.requirement import missing
from tests.programs.sglang_server import SglangError, find_environment

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "tests" / "data" / "kernel" / "images.fatbin"
SECONDS = 600
FORMATS = ("text", "json", "junit", "github", "sarif", "html")
NCCL = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "envprobe" / "nccl"


def kernel(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*envprobe_cli.script(), "kernel", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=envprobe_cli.environment(HOME=str(Path.home()), **variables),
        check=False,
    )


def found(*arguments: str, **variables: str) -> Any:
    """Return the JSON report of a run; its exit code and its form are checked."""
    ran = kernel("--format", "json", *arguments, **variables)
    report = envprobe_cli.parsed(ran)
    jsonschema.Draft202012Validator(tables.load("kernel.schema")).validate(report)
    assert ran.returncode == report["verdict"]["exit"]
    return report


def told(report: Any) -> list[tuple[str, str, bool]]:
    return [(one["id"], one["check"], one["undetermined"]) for one in report["findings"]]


# --- compiled only -------------------------------------------------------------------------------


@pytest.fixture
def _nvrtc() -> None:
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        missing("nvrtc", str(error))


@pytest.mark.usefixtures("_nvrtc")
def test_compiled_and_not_run() -> None:
    report = found("--compile-only", "--arch", "sm_120,sm_90", "--arch", "sm_80")
    assert (report["verdict"]["exit"], told(report)) == (0, [])
    run = report["compile_only"]
    assert report["run"] is None
    assert [one["architecture"] for one in run["compiled"]] == ["sm_120", "sm_90", "sm_80"]
    for one in run["compiled"]:
        assert (one["failure"], one["forbidden"], one["driver_calls"]) == (None, [], [])
        for resources in one["kernels"].values():
            assert 0 < resources["shared"] <= one["shared_limit"] == 101_376
            assert 16 <= resources["registers"] <= 255
            assert resources["spill_stores"] is not None


@pytest.mark.usefixtures("_nvrtc")
def test_it_says_that_nothing_ran_and_how_far_it_is() -> None:
    ran = kernel("--compile-only", "--arch", "sm_120")
    assert ran.returncode == 0
    assert ran.stdout.startswith("HOLDS: compiled, not run: sm_120 (exit 0)\n")
    assert "compiling verify_attention.cu for sm_120" in ran.stderr
    assert "compiling" not in ran.stdout


@pytest.mark.usefixtures("_nvrtc")
def test_every_format_says_that_nothing_ran(tmp_path: Path) -> None:
    kinds = [one for one in FORMATS if one != "json"]
    if importlib.util.find_spec("jinja2") is None:
        kinds.remove("html")
    outputs = [f"-o{kind}={tmp_path / kind}" for kind in kinds]
    assert kernel("--compile-only", "--arch", "sm_120", *outputs).returncode == 0
    for kind in kinds:
        assert "compiled, not run: sm_120" in (tmp_path / kind).read_text(), kind


@pytest.mark.usefixtures("_nvrtc")
def test_an_architecture_that_the_compiler_does_not_know() -> None:
    report = found("--compile-only", "--arch", "sm_120,sm_99")
    assert report["verdict"]["exit"] == 3
    assert told(report) == [("EP410", "kernel-not-compiled", True)]
    assert report["findings"][0]["who"] == "sm_99"
    assert [one["failure"] is None for one in report["compile_only"]["compiled"]] == [True, False]


def test_an_interpreter_without_a_compiler(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path)], check=True)
    python = str(tmp_path / "bin" / "python")
    report = found("--compile-only", "--arch", "sm_120", "--python", python)
    assert report["verdict"]["exit"] == 3
    assert told(report) == [("EP410", "kernel-not-compiled", True)]
    (finding,) = report["findings"]
    assert finding["who"] == python
    assert "lacks what that needs: ModuleNotFoundError" in finding["message"]


@pytest.mark.usefixtures("_nvrtc")
def test_an_interpreter_that_has_the_compiler_and_not_the_reader_of_its_code(
    tmp_path: Path,
) -> None:
    """What is lacking is named: the compiler is there."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path)], check=True)
    import cuda.bindings

    packages = Path(cuda.bindings.__file__).parents[2]
    (site,) = tmp_path.glob("lib/python*/site-packages")
    for name in ("cuda", "nvidia"):
        (site / name).symlink_to(packages / name)
    python = str(tmp_path / "bin" / "python")
    report = found("--compile-only", "--arch", "sm_120", "--python", python)
    assert told(report) == [("EP410", "kernel-not-compiled", True)]
    assert "No module named 'elftools'" in report["findings"][0]["message"]
    assert "NVRTC" not in report["findings"][0]["message"]


@pytest.mark.usefixtures("_nvrtc")
def test_an_architecture_that_the_kernel_is_not_for() -> None:
    (finding,) = found("--compile-only", "--arch", "sm_70")["findings"]
    assert finding["check"] == "kernel-not-compiled"
    assert "for sm_80 and later" in finding["remedy"]


# --- images of libraries -------------------------------------------------------------------------

LIBRARIES = sorted(NCCL.glob("*/libnccl.so.2"))


@pytest.fixture(scope="module")
def cuobjdump() -> str:
    """Return the disassembler that comes with Triton."""
    try:
        packages = find_environment() / "venv" / "lib"
    except SglangError as error:
        missing("sglang", str(error))
    tools = sorted(packages.glob("*/site-packages/triton/backends/nvidia/bin/cuobjdump"))
    if not tools:
        missing("sglang", "its Triton has no cuobjdump")
    return str(tools[0])


@pytest.mark.parametrize("version", ["2.21.5", "2.28.9", "2.32.3"])
def test_the_images_of_a_real_library_are_those_that_cuobjdump_lists(
    version: str, cuobjdump: str
) -> None:
    path = NCCL / version / "libnccl.so.2"
    if not path.exists():
        missing("nccl", f"{path} is not there")
    listed: Counter[str] = Counter()
    for option in ("-lelf", "-lptx"):
        done = subprocess.run(
            [cuobjdump, option, path], capture_output=True, text=True, check=False
        )
        listed.update(re.findall(r"(sm_\d+a?)f?\.(cubin|ptx)\b", done.stdout))
    report = found("--archs-of", str(path), "--arch", "sm_90")
    assert report["verdict"]["exit"] == 0
    kinds = {"sass": "cubin", "ptx": "ptx"}
    ours: Counter[Any] = Counter()
    for image in report["libraries"][0]["images"]:
        # This cuobjdump names no family.
        ours[image["architecture"].removesuffix("f"), kinds[image["kind"]]] += image["units"]
    assert ours == listed


def test_a_library_without_code_for_a_device() -> None:
    path = NCCL / "2.21.5" / "libnccl.so.2"
    if not path.exists():
        missing("nccl", f"{path} is not there")
    report = found("--archs-of", str(path), "--arch", "sm_120,sm_90")
    assert report["verdict"]["exit"] == 1
    assert told(report) == [("EP414", "image-missing", False)]
    assert report["findings"][0]["who"] == str(path)
    assert "sm_120" in report["findings"][0]["message"]


def test_a_library_of_which_only_some_units_run() -> None:
    report = found("--archs-of", str(IMAGES), "--arch", "sm_100")
    assert report["verdict"]["exit"] == 0
    assert sorted(told(report)) == [
        ("EP415", "image-partly-missing", False),
        ("EP416", "image-by-driver", False),
    ]
    (device,) = report["libraries"][0]["devices"]
    assert device == {"architecture": "sm_100", "as_it_is": 0, "by_driver": 1, "missing": 2}


def test_without_a_device_the_images_are_listed() -> None:
    report = found("--archs-of", str(IMAGES))
    assert (report["verdict"]["exit"], told(report)) == (0, [])
    assert len(report["libraries"][0]["images"]) == 8


def test_a_program_without_gpu_code_is_no_answer() -> None:
    report = found("--archs-of", sys.executable, "--arch", "sm_90")
    assert report["verdict"]["exit"] == 3
    assert told(report) == [("EP417", "images-unknown", True)]


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_tells_the_finding(kind: str, tmp_path: Path) -> None:
    if kind == "html" and importlib.util.find_spec("jinja2") is None:
        missing("html", "jinja2 is not installed")
    written = tmp_path / "report"
    output = f"{kind}={written}"
    ran = kernel("--archs-of", str(IMAGES), "--arch", "sm_70", "-o", output, "--format", kind)
    assert ran.returncode == 1
    for text in (ran.stdout, written.read_text()):
        assert "image-missing" in text
        assert "images.fatbin" in text


# --- nothing can be run --------------------------------------------------------------------------


def has_gpu() -> bool:
    return Path("/dev/nvidiactl").exists()


def test_without_a_gpu_nothing_is_passed_and_nothing_failed() -> None:
    if has_gpu():
        missing("no gpu", "there is one")
    report = found()
    assert report["verdict"]["exit"] == 3
    assert told(report) == [("EP401", "kernel-not-run", True)]
    assert report["run"]["devices"][0]["stopped"]["reason"] == "no-gpu"


def driver(folder: Path, *flags: str) -> dict[str, str]:
    """Return the variables with which a library that stands for the driver is found."""
    made = cbuild.build("fake_cuda", "-shared", "-fPIC", *flags)
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        (folder / name).symlink_to(made)
    return {"LD_LIBRARY_PATH": str(folder)}


@pytest.mark.parametrize(
    ("flags", "reason", "words"),
    [
        (["-DSTATUS=100"], "no-gpu", "CUDA_ERROR_NO_DEVICE"),
        (["-DCARDS=0"], "no-gpu", "no GPU is visible"),
        (["-DSTATUS=803"], "no-gpu", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        (["-DCOMPUTE_MODE=2"], "busy", "compute mode is Prohibited"),
        (["-DFREE_MIB=700ull"], "memory", "700 MiB of free memory, and 1024 MiB are needed"),
    ],
)
def test_what_a_stand_in_for_the_driver_says_is_no_failure(
    flags: list[str], reason: str, words: str, tmp_path: Path
) -> None:
    report = found(**driver(tmp_path, *flags))
    assert report["verdict"]["exit"] == 3
    assert told(report) == [("EP401", "kernel-not-run", True)]
    assert report["run"]["devices"][0]["stopped"]["reason"] == reason
    assert words in report["findings"][0]["message"]


def test_a_stand_in_for_the_driver_that_ends_the_process_does_not_end_envprobe(
    tmp_path: Path,
) -> None:
    report = found(**driver(tmp_path, "-DCRASH"))
    assert report["verdict"]["exit"] == 3
    assert told(report) == [("EP401", "kernel-not-run", True)]
    assert "signal 11" in report["findings"][0]["message"]
    assert report["run"]["devices"] == []


def test_all_devices_of_a_stand_in_for_the_driver_have_processes_of_their_own(
    tmp_path: Path,
) -> None:
    if importlib.util.find_spec("torch") is not None:
        missing("no torch", "envprobe's own interpreter has torch")
    report = found("--all-devices", **driver(tmp_path, "-DCARDS=3"))
    assert report["verdict"]["exit"] == 3
    assert told(report) == [("EP401", "kernel-not-run", True)] * 3
    devices = report["run"]["devices"]
    assert [one["card"]["index"] for one in devices] == [0, 1, 2]
    assert {one["stopped"]["reason"] for one in devices} == {"package"}
    assert [one["who"] for one in report["findings"]] == [
        f"device {index} (Fake GPU, sm_90)" for index in range(3)
    ]


def test_a_device_that_a_stand_in_for_the_driver_does_not_have(tmp_path: Path) -> None:
    report = found("--device", "7", **driver(tmp_path))
    assert report["verdict"]["exit"] == 3
    assert told(report) == [("EP401", "kernel-not-run", True)]
    assert "device 7" in report["findings"][0]["message"]


def test_the_unknown_can_be_accepted(tmp_path: Path) -> None:
    report = found("--allow-unknown", "EP401", **driver(tmp_path, "-DSTATUS=100"))
    assert (report["verdict"]["exit"], report["verdict"]["counts"]["accepted"]) == (0, 1)
    assert told(report) == [("EP401", "kernel-not-run", True)]


def test_the_device_of_a_stand_in_for_the_driver_decides_on_images(tmp_path: Path) -> None:
    report = found("--archs-of", str(IMAGES), **driver(tmp_path))
    assert report["asked"]["devices"] == ["sm_90"]
    assert "image-partly-missing" in {check for _, check, _ in told(report)}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--compile-only"], "--compile-only needs --arch"),
        (["--arch", "sm_120"], "--arch is for --compile-only and --archs-of"),
        (["--compile-only", "--arch", "hopper"], '"hopper" names no architecture'),
        (["--compile-only", "--archs-of", "x"], "exclude each other"),
        (["--installed", "--archs-of", "x"], "exclude each other"),
        (["--compile-only", "--arch", "90", "--device", "0"], "runs nothing on a device"),
        (["--device", "0", "--all-devices"], "exclude each other"),
        (["--memory", "12"], "--memory 12 is no size"),
        (["--memory", "1MiB"], "at least 256 MiB"),
        (["--timeout", "0"], "--timeout takes a number of seconds"),
        (["--python", "/nothing/here"], "/nothing/here is no program"),
        (["--env", "X"], "--env X sets nothing"),
        (["--user"], "--user needs --unit"),
        (["--installed", "--in-class"], "--in-class is of the bundled kernel"),
        (["--expect-installed", ""], "--expect-installed is empty"),
        (["--archs-of", "/nothing/here.so"], "No such file"),
        (["--python", "python3", "--", "python3", "x.py"], "exclude each other"),
        (["--allow-unknown", "EP405"], "always can tell"),
    ],
)
def test_wrong_usage(arguments: list[str], words: str) -> None:
    ran = kernel(*arguments)
    assert ran.returncode == 2
    assert words in ran.stderr
    assert ran.stdout == ""


# --- what is installed in SGLang's class ---------------------------------------------------------

HOOK = """
import importlib.abc, sys

TARGET = "sglang.srt.layers.attention.triton_backend"

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != TARGET:
            return None
        sys.meta_path.remove(self)
        found = (one.find_spec(name, path, target) for one in sys.meta_path)
        spec = next(one for one in found if one is not None)
        execute = spec.loader.exec_module
        def executed(module):
            execute(module)
            import my_kernels
            my_kernels.install(module.TritonAttnBackend)
        spec.loader.exec_module = executed
        return spec

sys.meta_path.insert(0, Finder())
"""
MINE = """
import functools

def install(backend):
    original = backend.forward_extend
    @functools.wraps(original)
    def forward_extend(self, *args, **kwargs):
        {body}
    backend.forward_extend = forward_extend
"""
BODIES = {
    "right": "return original(self, *args, **kwargs)",
    "wrong": "return original(self, *args, **kwargs) * 1.1",
    "raising": "raise RuntimeError('no server here')",
    "forgets the keys": "return original(self, *args, save_kv_cache=False, **kwargs)",
}


@pytest.fixture(scope="module")
def python() -> str:
    try:
        return str(find_environment() / "venv" / "bin" / "python")
    except SglangError as error:
        missing("sglang", str(error))


def patched(folder: Path, body: str) -> str:
    """Write a hook that installs a function with this body; return the value of PYTHONPATH."""
    (folder / "sitecustomize.py").write_text(HOOK)
    (folder / "my_kernels.py").write_text(MINE.format(body=BODIES[body]))
    return str(folder)


@pytest.mark.sglang
@pytest.mark.parametrize(
    ("body", "checks", "code"),
    [
        ("right", {"kernel-not-run"}, 3),
        ("wrong", {"kernel-not-run", "kernel-wrong-result"}, 1),
        ("raising", {"installed-not-driven"}, 3),
        ("forgets the keys", {"kernel-not-run", "kernel-wrong-result"}, 1),
    ],
)
def test_an_installed_function_in_tritons_interpreter(
    body: str, checks: set[str], code: int, python: str, tmp_path: Path
) -> None:
    path = patched(tmp_path, body)
    options = ["--python", python, "--env", f"PYTHONPATH={path}", "--env", "TRITON_INTERPRET=1"]
    report = found("--expect-installed", "my_kernels", *options)
    assert report["verdict"]["exit"] == code
    assert {check for _, check, _ in told(report)} == checks
    called = report["run"]["devices"][0]["in_class"]
    assert called["patched"]
    function, original = called["functions"]
    assert (function["module"], function["file"]) == ("my_kernels", f"{path}/my_kernels.py")
    assert original["file"] == called["own_file"]
    assert all(one["part"] < 0.01 for one in called["own"])
    where = {one["who"] for one in report["findings"]}
    assert where == {"this machine"}


@pytest.mark.sglang
def test_whose_function_it_is_is_told_without_a_gpu(python: str, tmp_path: Path) -> None:
    if has_gpu():
        missing("no gpu", "there is one")
    options = ["--python", python, "--env", f"PYTHONPATH={patched(tmp_path, 'right')}"]
    report = found("--expect-installed", "other_kernels", *options)
    assert report["verdict"]["exit"] == 1
    assert told(report) == [
        ("EP401", "kernel-not-run", True),
        ("EP412", "installed-unexpected", False),
    ]
    assert f"{tmp_path}/my_kernels.py" in report["findings"][1]["message"]


@pytest.mark.sglang
def test_the_first_line_says_that_nothing_is_patched(python: str) -> None:
    ran = kernel("--installed", "--python", python)
    first = " ".join(ran.stdout.partition("\n\n")[0].split())
    assert "no patch is there: the class holds SGLang's own function" in first
    assert ran.returncode in (0, 3)


@pytest.mark.sglang
def test_the_interpreter_and_environment_of_a_unit(python: str, tmp_path: Path) -> None:
    unit = tmp_path / "sgl.service"
    unit.write_text(
        "[Service]\n"
        f"Environment=PYTHONPATH={patched(tmp_path, 'wrong')} TRITON_INTERPRET=1\n"
        f"Environment=HOME={tmp_path}\n"
        f"ExecStart={python} -m sglang.launch_server --tp 8\n"
    )
    report = found("--installed", "--unit", str(unit))
    assert report["verdict"]["exit"] == 1
    assert {check for _, check, _ in told(report)} == {"kernel-not-run", "kernel-wrong-result"}
    assert report["run"]["python"] == python
    assert report["run"]["chosen"] == "declared by sgl.service"


@pytest.mark.sglang
def test_the_bundled_patch_is_named_as_what_is_installed(python: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import kernel_ext.hook as h\nh.install()\n")
    path = f"PYTHONPATH={tmp_path}{os.pathsep}{ROOT}"
    start = ["env", "TRITON_INTERPRET=1", "ENVPROBE_KERNEL=on", path, python]
    report = found("--expect-installed", "kernel_ext", "--", *start, "-m", "sglang.launch_server")
    assert told(report) == [("EP401", "kernel-not-run", True)]
    assert report["verdict"]["exit"] == 3
    called = report["run"]["devices"][0]["in_class"]
    assert called["functions"][0]["file"] == str(ROOT / "kernel_ext" / "patch.py")
    assert called["counters"]["fallen_back"] == len(called["asked"])
    assert called["last_reason"] == "not on a CUDA device"


def test_an_interpreter_without_sglang_is_no_answer() -> None:
    report = found("--installed", "--python", sys.executable)
    assert report["verdict"]["exit"] == 3
    assert set(told(report)) == {("EP401", "kernel-not-run", True)}


# --- on a GPU ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gpu_report() -> Any:
    if not has_gpu():
        missing("gpu", "no GPU")
    if importlib.util.find_spec("torch") is None:
        missing("gpu", "torch is not installed")
    return found("--show-all")


def test_the_kernel_on_a_gpu(gpu_report: Any) -> None:
    assert gpu_report["verdict"]["exit"] == 0
    (device,) = gpu_report["run"]["devices"]
    assert device["done"]
    assert device["architecture"] == device["card"]["architecture"]
    assert len(device["compared"]) >= 10
    assert all(one["part"] <= 1 for one in device["compared"])
    for resources in device["kernels"].values():
        assert 0 < resources["shared"] <= device["card"]["shared_limit"]


def test_the_memory_of_a_gpu_is_kept_to_what_is_allowed(gpu_report: Any) -> None:
    (device,) = gpu_report["run"]["devices"]
    assert 0 < device["peak"] <= gpu_report["asked"]["memory"] == 1 << 30


def test_time_on_a_gpu_is_measured_against_its_copy(gpu_report: Any) -> None:
    (device,) = gpu_report["run"]["devices"]
    if device["untimed"]:
        missing("gpu", device["untimed"])
    assert device["copy"] > 1e11
    assert all(one["microseconds"]["bundled"] > 0 for one in device["timings"])


@pytest.mark.parametrize(("body", "checks"), [("right", set()), ("wrong", {"kernel-wrong-result"})])
def test_a_function_of_ones_own_on_a_gpu_beside_stand_ins(
    body: str, checks: set[str], tmp_path: Path
) -> None:
    if not has_gpu():
        missing("gpu", "no GPU")
    if importlib.util.find_spec("sglang") is None:
        missing("gpu", "SGLang is not installed beside torch")
    path = os.pathsep.join([patched(tmp_path, body), str(ROOT), *filter(None, sys.path)])
    with (tmp_path / "sitecustomize.py").open("a") as hook:
        hook.write("\nfrom tests.programs import compiled_neighbours\n")
        hook.write("compiled_neighbours.install()\n")
    options = ["--python", sys.executable, "--env", f"PYTHONPATH={path}"]
    report = found("--no-time", "--expect-installed", "my_kernels", *options)
    wrong = {check for _, check, undetermined in told(report) if not undetermined}
    assert wrong == checks, report["findings"]
    (device,) = report["run"]["devices"]
    called = device["in_class"]
    assert (called["patched"], called["interpreted"]) == (True, False)
    assert called["functions"][0]["file"] == f"{tmp_path}/my_kernels.py"
    assert len(called["asked"]) == len(called["own"]) > 0
    assert all(one["part"] <= 1 for one in called["own"])
    assert report["verdict"]["exit"] == (1 if checks else 0)


def test_every_gpu_at_once(gpu_report: Any) -> None:
    report = found("--all-devices", "--no-time", "--no-in-class")
    assert report["verdict"]["exit"] == 0
    assert all(one["done"] for one in report["run"]["devices"])
    first = json.dumps(gpu_report["run"]["devices"][0]["card"]["uuid"])
    assert first in {json.dumps(one["card"]["uuid"]) for one in report["run"]["devices"]}
