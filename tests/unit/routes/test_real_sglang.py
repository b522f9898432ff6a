"""The readings of a real SGLang server (0.5.21, tp 2, on a CPU) written down, and what they mean.

Measured with six of the user's variables in the C locale; paths are shortened. The exec blocks of
the retitled processes kept what SGLang had appended.
"""

from __future__ import annotations

from typing import Final

import pytest

from envprobe.model import Confidence, EdgeKind, Role
from envprobe.routes.types import InTime
from tests.unit.routes.builders import SERVER, TRACKER, Tree, excluded, said, stand_in, survivors

GIVEN: Final = {
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    "HF_HUB_OFFLINE": "1",
    "LANG": "C",
    "LC_ALL": "",
    "NCCL_ALGO": "Ring",
    "NCCL_BUFFSIZE": "8388608",
    "NCCL_PROTO": "Simple",
    "SGLANG_CPU_OMP_THREADS_BIND": "0|1",
    "SGL_X_TEST": "7",
    "TRITON_INTERPRET": "1",
}
ADDED: Final = {
    "CUDA_CACHE_PATH": "/home/user/.cache/sglang/nv",
    "CUTE_DSL_LOG_LEVEL": "30",
    "CUTE_DSL_LOG_TO_CONSOLE": "1",
    "DG_JIT_CACHE_DIR": "/home/user/.cache/sglang/deep_gemm",
    "DG_JIT_USE_NVRTC": "0",
    "FLASHINFER_WORKSPACE_BASE": "/home/user/.cache/sglang",
    "LC_CTYPE": "C.UTF-8",
    "NCCL_CUMEM_ENABLE": "0",
    "NCCL_NVLS_ENABLE": "0",
    "SGLANG_DISABLE_OUTLINES_DISK_CACHE": "0",
    "SGLANG_ENABLE_DETERMINISTIC_INFERENCE": "0",
    "SGLANG_ENABLE_TORCH_COMPILE": "0",
    "SGLANG_RUN_ID": "sglang-run-1795972656.028078-56088949",
    "SGLANG_USE_CUDA_IPC_TRANSPORT": "0",
    "SGLANG_X_TEST": "7",
    "TILELANG_CACHE_DIR": "/home/user/.cache/sglang/tilelang",
    "TLLM_LOG_LEVEL": "INFO",
    "TORCHINDUCTOR_CACHE_DIR": "/home/user/.cache/sglang/inductor",
    "TRITON_CACHE_DIR": "/home/user/.cache/sglang/triton",
    "TRTLLM_ENABLE_PDL": "1",
}
LIVE: Final = {**GIVEN, **ADDED, "CUDA_DEVICE_MAX_CONNECTIONS": "8"}
SURVIVING: Final = {name: text for name, text in ADDED.items() if name != "LC_CTYPE"}
WORKERS: Final = (17713, 17714)
ADDRESS: Final = "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR"


def recorded() -> Tree:
    """Return the tree of the server from which the readings were taken."""
    tree = Tree(wanted=("*",)).add(17535, exec=GIVEN, libc=LIVE, role=SERVER)
    tree.add(17712, 17535, EdgeKind.EXEC, exec=LIVE, role=TRACKER)
    for tp, pid in enumerate(WORKERS):
        tree.worker(
            pid,
            17535,
            role=Role("scheduler", "sglang", {"tp": tp}, worker=True),
            exec=stand_in(LIVE, own=survivors(SURVIVING)),
            libc={**LIVE, ADDRESS: f"1401147775252{tp}"},
            edge={"confidence": Confidence.INFERRED},
            ticks=tree.ticks,
            run_id=LIVE["SGLANG_RUN_ID"],
        )
    return tree


@pytest.fixture
def server() -> Tree:
    return recorded()


def test_every_change_that_the_server_makes_is_attributed(server: Tree) -> None:
    routing = server.routing()
    found = {route.name for route in routing.routes.values() if route.breaks}
    assert found == {*ADDED, "CUDA_DEVICE_MAX_CONNECTIONS", ADDRESS}
    breaks = [one for route in routing.routes.values() for one in route.breaks]
    assert [one for one in breaks if not one.writer] == []


def test_its_change_of_a_users_value_is_found_in_the_parent(server: Tree) -> None:
    for pid in WORKERS:
        route = server.route(pid, "CUDA_DEVICE_MAX_CONNECTIONS")
        assert said(route) == ["changed exec(17535)>libc(17535) proved: changed-in-parent"]
        assert "engine.py:1921" in route.breaks[0].writer
        assert excluded(route) == set()


def test_the_users_variables_arrived_in_time(server: Tree) -> None:
    for pid in WORKERS:
        for name in ("NCCL_ALGO", "NCCL_BUFFSIZE", "NCCL_PROTO"):
            route = server.route(pid, name)
            assert (said(route), route.in_time) == ([], InTime.YES)


def test_both_schedulers_are_one_launch_and_one_peer_group(server: Tree) -> None:
    routing = server.routing()
    (launch,) = routing.launches
    (group,) = routing.groups
    assert (launch.launcher, launch.run_id) == (17535, LIVE["SGLANG_RUN_ID"])
    assert launch.workers == group.workers == WORKERS


def test_an_unusual_value_of_the_same_variable_is_not_attributed(server: Tree) -> None:
    server.add(17535, exec=GIVEN, libc={**LIVE, "CUDA_DEVICE_MAX_CONNECTIONS": "3"}, role=SERVER)
    for pid in WORKERS:
        assert server.route(pid, "CUDA_DEVICE_MAX_CONNECTIONS").breaks[0].writer == ""
