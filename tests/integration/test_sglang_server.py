"""A real SGLang server with two ranks: the tree that envprobe has to understand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

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
def server(
    sglang_directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SglangServer]:
    environment = {
        **NCCL_VARIABLES,
        "PYTHONPATH": str(tmp_path_factory.mktemp("sitedir")),
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


def test_the_server_answers(server: SglangServer) -> None:
    answer = server.generate(max_new_tokens=4)
    assert len(answer["output_ids"]) == 4
    assert answer["meta_info"]["finish_reason"]["type"] == "length"
