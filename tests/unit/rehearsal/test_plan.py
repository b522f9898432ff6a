"""What is rehearsed for a command line: framework, workers, start method, tree, overrides."""

from __future__ import annotations

from typing import Any

import pytest

from envprobe import tables
from envprobe.errors import UsageError
from envprobe.launch.definition import Context, of_command
from envprobe.rehearsal import frameworks, plan, writers
from envprobe.rehearsal.frameworks import NONE
from envprobe.rehearsal.plan import Wanted
from envprobe.rehearsal.types import Node, Plan
from envprobe.startup.declared import Start, starts_of

SGLANG = "python3 -m sglang.launch_server"
WRITERS: list[dict[str, Any]] = tables.load("framework-writers")["rows"]


def start(command: str, **variables: str) -> Start:
    definition = of_command(command.split(), Context({"PATH": "/usr/bin", **variables}), "/")
    (found,) = starts_of(definition)
    return found


def made(command: str, version: str = "", wanted: Wanted | None = None, **variables: str) -> Plan:
    return plan.make(start(command, **variables), wanted or Wanted(), version)


def tree(nodes: tuple[Node, ...]) -> dict[str, Any]:
    return {node.title or node.role: tree(node.children) for node in nodes}


@pytest.mark.parametrize(
    ("command", "framework"),
    [
        (SGLANG, "sglang"),
        ("python3 -m sglang.launch_server_other", NONE),
        ("python3 -m sglang serve --model m", "sglang"),
        ("python3 -m sglang bench", NONE),
        ("python3 /opt/bin/sglang serve", "sglang"),
        ("python3 -m vllm.entrypoints.openai.api_server", "vllm"),
        ("python3 /opt/bin/vllm serve m", "vllm"),
        ("python3 /opt/bin/vllm bench m", NONE),
        ("python3 serve.py --tp 8", NONE),
    ],
)
def test_the_framework_is_told_from_module_or_program(command: str, framework: str) -> None:
    assert made(command).framework.value == framework


@pytest.mark.parametrize(
    ("options", "version", "expected"),
    [
        ("", "0.5.23", {"sglang::scheduler": {}, "sglang::detokenizer": {}}),
        (
            "--tp 2",
            "0.5.23",
            {"sglang::scheduler_TP0": {}, "sglang::scheduler_TP1": {}, "sglang::detokenizer": {}},
        ),
        (
            "--pp-size 2",
            "0.5.23",
            {"sglang::scheduler_PP0": {}, "sglang::scheduler_PP1": {}, "sglang::detokenizer": {}},
        ),
        (
            "--tp 2 --dp 2 --enable-dp-attention",
            "0.5.22",
            {
                "sglang::scheduler_DP0_TP0": {},
                "sglang::scheduler_DP1_TP1": {},
                "sglang::data_parallel_controller": {},
                "sglang::detokenizer": {},
            },
        ),
        (
            "--tp 2 --dp 2 --enable-dp-attention",
            "0.5.21",
            {
                "sglang::data_parallel_controller": {
                    "sglang::scheduler_DP0_TP0": {},
                    "sglang::scheduler_DP1_TP1": {},
                },
                "sglang::detokenizer": {},
            },
        ),
        ("--nnodes 2 --tp 2 --node-rank 1", "0.5.23", {"sglang::scheduler_TP1": {}}),
        (
            "--detokenizer-worker-num=2",
            "0.5.23",
            {
                "sglang::scheduler": {},
                "sglang::detokenizer": {},
                "sglang::detokenizer_router": {},
            },
        ),
    ],
)
def test_sglang_nests_as_measured(options: str, version: str, expected: dict[str, Any]) -> None:
    assert tree(made(f"{SGLANG} {options}", version).nodes) == expected


def test_vllm_has_no_worker_below_an_engine_of_one_rank() -> None:
    command = "python3 -m vllm.entrypoints.openai.api_server"
    alone = made(command)
    assert tree(alone.nodes) == {"VLLM::EngineCore": {}}
    assert alone.count == 1
    several = made(f"{command} -tp 2 -dp 2")
    assert tree(several.nodes) == {
        f"VLLM::EngineCore_DP{dp}": {f"VLLM::Worker_DP{dp}_TP{tp}": {} for tp in (0, 1)}
        for dp in (0, 1)
    } | {"VLLM::DPCoordinator": {}}
    assert several.count == 4


def test_ids_are_unique_and_workers_are_bounded() -> None:
    huge = made(f"{SGLANG} --tp 64 --dp 2")
    ids = [node.id for node in huge.walk()]
    assert len(ids) == len(set(ids))
    assert huge.count == frameworks.most_workers()
    assert "of 128 workers" in huge.limits[0]


def test_the_start_method_is_the_frameworks_unless_it_is_given() -> None:
    assert made(SGLANG).method.value == "spawn"
    assert made("python3 serve.py").method.value == ""
    served, module = "python3 /bin/vllm serve m", "python3 -m vllm.entrypoints.openai.api_server"
    assert made(served).method.value == "spawn"
    assert made(module).method.value == "fork"
    chosen = made(served, VLLM_WORKER_MULTIPROC_METHOD="forkserver")
    assert (chosen.method.value, chosen.method.told_by) == (
        "forkserver",
        "VLLM_WORKER_MULTIPROC_METHOD",
    )
    assert made(SGLANG, wanted=Wanted(method="fork")).method.value == "fork"


def test_workers_that_are_asked_for_count_before_the_command_line() -> None:
    asked = made(f"{SGLANG} --tp 8 --pp 2", wanted=Wanted(workers=3))
    assert (asked.count, asked.workers.told_by) == (3, "--workers")
    assert made("python3 serve.py").count == frameworks.default_workers()


@pytest.mark.parametrize(
    "wanted", [Wanted(workers=0), Wanted(workers=10**6), Wanted(framework="x"), Wanted(method="x")]
)
def test_what_cannot_be_planned_is_wrong_usage(wanted: Wanted) -> None:
    with pytest.raises(UsageError):
        made(SGLANG, wanted=wanted)


# --- what the framework writes


def written(options: str, version: str, **variables: str) -> dict[str, str | None]:
    first = start(f"{SGLANG} {options}", **variables)
    assert first.declared.python is not None
    framework = frameworks.of("sglang", first.declared.python)
    tp = framework.size("tp") or 1
    found = writers.written(framework, version, first.launch.environment, tp)
    return {one.name: None if one.value is None else one.value.reveal().decode() for one in found}


def test_a_default_is_set_over_nothing_only() -> None:
    assert written("", "0.5.23")["NCCL_NVLS_ENABLE"] == "0"
    assert "NCCL_NVLS_ENABLE" not in written("", "0.5.23", NCCL_NVLS_ENABLE="1")
    assert written("", "0.5.4", NCCL_NVLS_ENABLE="1")["NCCL_NVLS_ENABLE"] == "0"
    by_option = written("--enable-symm-mem", "0.5.23", NCCL_NVLS_ENABLE="2")
    assert by_option["NCCL_NVLS_ENABLE"] == "1"


def test_versions_and_sizes_decide() -> None:
    assert written("", "0.5.1")["CUDA_DEVICE_MAX_CONNECTIONS"] == "4"
    assert written("", "0.5.23.post1")["CUDA_DEVICE_MAX_CONNECTIONS"] == "8"
    option = "--enable-deterministic-inference"
    assert "NCCL_ALGO" not in written(option, "0.5.23")
    both = written(f"{option} --tp 2", "0.5.23", SGLANG_DETERMINISTIC_NCCL_NCHANNELS="16")
    assert (both["NCCL_ALGO"], both["NCCL_MIN_NCHANNELS"]) == ("allreduce:tree", "16")
    assert both["SGLANG_ENABLE_DETERMINISTIC_INFERENCE"] == "1"


def test_a_value_that_the_framework_spares_is_spared() -> None:
    assert "TRTLLM_ENABLE_PDL" not in written("", "0.5.23", TRTLLM_ENABLE_PDL="0")
    assert written("", "0.5.23", TRTLLM_ENABLE_PDL="yes")["TRTLLM_ENABLE_PDL"] == "1"
    assert written("", "0.5.23", SGL_X="7")["SGLANG_X"] == "7"


@pytest.mark.parametrize(
    "row",
    [row for row in WRITERS if "rehearsed" in row],
    ids=lambda row: f"{row['framework']}-{row['variable']}",
)
def test_what_is_rehearsed_is_what_the_table_explains(row: dict[str, Any]) -> None:
    for entry in row["rehearsed"]:
        allowed = {"since", "until", "value", "unless", "least", "from", "option", "otherwise"}
        assert set(entry) <= allowed
        assert set(entry) & {"since", "until"}
        assert set(entry.get("least", {})) <= {"tp"}
        if "copy_of" in row or row.get("removes"):
            assert "value" not in entry
            continue
        for value in (entry["value"], entry.get("otherwise", entry["value"])):
            explained = value in row["values"] if "values" in row else True
            assert explained, f"{row['variable']}={value}"


@pytest.mark.parametrize(
    ("command", "wanted", "number", "told"),
    [
        ("python3 serve.py", Wanted(expected=5), 5, "[expect.workers]"),
        ("python3 serve.py", Wanted(workers=3, expected=5), 3, "--workers"),
        (SGLANG, Wanted(expected=5), 5, "[expect.workers]"),
        (f"{SGLANG} --tp 4", Wanted(expected=5), 4, "tp 4"),
        ("python3 serve.py", Wanted(expected=64), 32, "[expect.workers]"),
    ],
)
def test_what_is_expected_counts_where_the_command_does_not_say(
    command: str, wanted: Wanted, number: int, told: str
) -> None:
    found = made(command, wanted=wanted)
    assert (found.count, found.workers.told_by) == (number, told)
    assert [line for line in found.limits if "workers are started" in line] == (
        ["32 of 64 workers are started: the others would start as these do"] if number == 32 else []
    )


def test_a_method_for_where_nothing_tells_it_does_not_override_a_framework() -> None:
    otherwise = Wanted(otherwise="spawn")
    assert made("python3 serve.py", wanted=otherwise).method.value == "spawn"
    assert made("python3 -m vllm.entrypoints.api_server", wanted=otherwise).method.value == "fork"
    assert "multiprocessing" in made("python3 serve.py").method.told_by


def test_numbers_of_thousands_of_digits_are_large_and_nothing_else() -> None:
    digits = "9" * 5000
    found = made(f"{SGLANG} --tp {digits}", "0.5.23")
    assert found.count == frameworks.most_workers()
    assert frameworks.numbers(f"1.{digits}") > frameworks.numbers("1.999")
    assert frameworks.numbers(f"1.{'0' * 5000}2") == (1, 2)
