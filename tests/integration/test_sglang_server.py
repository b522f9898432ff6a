"""A real SGLang server with two ranks: the tree that envprobe has to understand."""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.programs import cli
from tests.programs.patchhooks import Hooks, lazy, written
from tests.programs.sglang_server import SglangError, SglangServer, find_environment

pytestmark = pytest.mark.sglang

NCCL_VARIABLES = {
    "NCCL_ALGO": "Ring",
    "NCCL_PROTO": "Simple",
    "NCCL_P2P_LEVEL": "SYS",
    "NCCL_MIN_NCHANNELS": "4",
    "NCCL_MAX_NCHANNELS": "8",
    "NCCL_BUFFSIZE": "8388608",
}
TRITON = "sglang.srt.layers.attention.triton_backend"
KERNELS = """
    import functools


    def install(module):
        backend = module.TritonAttnBackend
        original = backend.forward_extend

        @functools.wraps(original)
        def forward_extend(self, *args, **kwargs):
            return original(self, *args, **kwargs)

        backend.forward_extend = forward_extend
"""


@pytest.fixture(scope="module")
def sglang_directory() -> Path:
    try:
        return find_environment()
    except SglangError as error:
        missing = str(error)
    if "sglang" in os.environ.get("ENVPROBE_REQUIRE", "").split(","):
        pytest.fail(f"ENVPROBE_REQUIRE names sglang, but there is {missing}", pytrace=False)
    pytest.skip(missing)


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Hooks:
    return written(tmp_path_factory.mktemp("patched"), lazy(TRITON), KERNELS)


@pytest.fixture(scope="module")
def server(sglang_directory: Path, hooks: Hooks) -> Iterator[SglangServer]:
    environment = {
        **NCCL_VARIABLES,
        "PYTHONPATH": str(hooks.hook.parent),
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    }
    with SglangServer(sglang_directory, environment) as running:
        yield running


def title(process: psutil.Process) -> str:
    """Name a process of the server by what it wrote over its command line."""
    words = process.cmdline()
    if "multiprocessing.resource_tracker" in " ".join(words):
        return "resource_tracker"
    return words[0]


def test_the_tree_of_a_real_server(server: SglangServer) -> None:
    main = psutil.Process(server.pid)
    assert main.cmdline()[1:3] == ["-m", "sglang.launch_server"]
    assert sorted(title(child) for child in main.children()) == [
        "resource_tracker",
        "sglang::detokenizer",
        "sglang::scheduler_TP0",
        "sglang::scheduler_TP1",
    ]


def processes(server: SglangServer) -> dict[str, int]:
    return {title(child): child.pid for child in psutil.Process(server.pid).children()}


def schedulers(server: SglangServer) -> list[int]:
    found = processes(server)
    return [found["sglang::scheduler_TP0"], found["sglang::scheduler_TP1"]]


def test_a_healthy_server_holds_without_any_expectation(server: SglangServer) -> None:
    run = cli.workers("--pid", str(server.pid))
    tree = processes(server)
    assert run.code == 0
    assert run.workers() == set(schedulers(server))
    assert run.loud({server.pid, *tree.values()}) == []
    said = {
        key: (run.process(pid)["role"]["name"], run.process(pid)["role"]["ranks"])
        for key, pid in (("main", server.pid), *tree.items())
    }
    assert said == {
        "main": ("server", {}),
        "resource_tracker": ("resource tracker", {}),
        "sglang::detokenizer": ("detokenizer", {}),
        "sglang::scheduler_TP0": ("scheduler", {"tp": 0}),
        "sglang::scheduler_TP1": ("scheduler", {"tp": 1}),
    }


def test_what_was_set_is_proved_in_both_schedulers(server: SglangServer) -> None:
    sitedir = server.environment["PYTHONPATH"]
    expected = [f"--expect={name}={value}" for name, value in NCCL_VARIABLES.items()]
    run = cli.workers("--pid", str(server.pid), *expected, f"--expect=PYTHONPATH~={sitedir}")
    assert run.code == 0
    assert run.loud(processes(server).values()) == []
    for pid in schedulers(server):
        assert psutil.Process(pid).environ().keys() & NCCL_VARIABLES.keys() == set()
        for name, value in (*NCCL_VARIABLES.items(), ("PYTHONPATH", sitedir)):
            assert run.text(pid, name) == value
            assert run.reading(pid, name)["confidence"] == "proved"
            assert run.spans(pid, name) == []


def test_what_sglang_writes_itself_is_found_in_the_parent(server: SglangServer) -> None:
    name = "CUDA_DEVICE_MAX_CONNECTIONS"
    run = cli.workers("--pid", str(server.pid), f"--expect={name}=1")
    assert run.code == 1
    assert run.pids("env-wrong-value", name) == set(schedulers(server))
    for pid in schedulers(server):
        assert run.text(pid, name) == "8"
        (span,) = run.spans(pid, name)
        assert (span.change, span.confidence) == ("changed", "proved")
        assert (span.before, span.after) == ((server.pid, "exec"), (server.pid, "libc"))
        assert span.causes == {"changed-in-parent"}
        assert "_set_envs_and_config" in span.writer


def test_a_lazy_hook_has_patched_the_real_backend(server: SglangServer, hooks: Hooks) -> None:
    extend, decode = (f"{TRITON}:TritonAttnBackend.forward_{way}" for way in ("extend", "decode"))
    asked = ("--pid", str(server.pid), "--deadline=20", f"--patch={extend}=my_kernels")
    run = cli.workers(*asked)
    (stated,) = run.scan["patches"]
    assert (run.code, run.loud(processes(server).values())) == (0, [])
    assert [one["pid"] for one in stated["processes"]] == schedulers(server)
    for one in stated["processes"]:
        assert one["status"] == "holds"
        assert f"({hooks.kernels}:" in one["found"]
    run = cli.workers(*asked, f"--patch={decode}={hooks.hook.parent}")
    (finding,) = run.findings("patch-missing")
    assert (run.code, finding["pids"]) == (1, schedulers(server))
    assert f"it holds the original, {TRITON}." in finding["message"]


def test_the_server_answers_while_it_is_scanned(server: SglangServer) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as background:
        request = background.submit(server.generate, max_new_tokens=64)
        scans = 0
        while not request.done() or not scans:
            assert cli.workers("--pid", str(server.pid)).workers() == set(schedulers(server))
            scans += 1
        answer = request.result()
    assert len(answer["output_ids"]) == 64


def test_the_server_answers(server: SglangServer) -> None:
    answer = server.generate(max_new_tokens=4)
    assert len(answer["output_ids"]) == 4
    assert answer["meta_info"]["finish_reason"]["type"] == "length"
