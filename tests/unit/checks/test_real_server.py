"""What was read of a real SGLang server (0.5.21, tp 2, on a CPU), judged: it is healthy."""

from __future__ import annotations

import dataclasses

import pytest

from envprobe.checks.finding import Context, Severity
from envprobe.checks.registry import run_all
from envprobe.checks.verdict import judge
from envprobe.config import Config
from envprobe.errors import Exit
from envprobe.expectations import parse
from envprobe.model import Role, View
from tests.unit.checks.scene import evidence, one, slugs, text
from tests.unit.routes.builders import Tree
from tests.unit.routes.test_real_sglang import GIVEN, LIVE, WORKERS, recorded


@pytest.fixture
def server() -> Tree:
    return recorded()


def context(tree: Tree, *expressions: str) -> Context:
    expectations = tuple(parse(one) for one in expressions)
    return Context(tree.routing(*(one.name for one in expectations)), Config(expectations))


def test_without_expectations_there_is_no_warning_and_it_holds(server: Tree) -> None:
    found = context(server)
    result = run_all(found)
    assert slugs(result) == {"framework-wrote", "exec-view-inferred", "block-wiped"}
    assert {one.severity for one in result.findings} == {Severity.INFO}
    assert judge(found, result, Severity.WARNING).exit is Exit.HOLDS
    written = [one for one in result.findings if one.check == "framework-wrote"]
    assert "CUDA_DEVICE_MAX_CONNECTIONS" in {one.variable for one in written}
    told = "".join(evidence(one) for one in written)
    assert all(name in told for name in ("NCCL_CUMEM_ENABLE", "SGLANG_RUN_ID", "TRTLLM_ENABLE_PDL"))
    assert len(written) < 5


def test_what_the_user_set_holds_even_when_strict(server: Tree) -> None:
    found = context(
        server, *(f"{name}={GIVEN[name]}" for name in GIVEN if name.startswith("NCCL_"))
    )
    found = Context(found.routing, dataclasses.replace(found.config, strict=True))
    assert judge(found, run_all(found), Severity.WARNING).exit is Exit.HOLDS


def test_a_value_that_sglang_overwrote_is_an_error_that_names_the_line(server: Tree) -> None:
    found = context(server, "CUDA_DEVICE_MAX_CONNECTIONS=1")
    result = run_all(found)
    finding = one(result, "env-wrong-value")
    assert finding.pids == WORKERS
    assert "engine.py:1921" in evidence(finding)
    assert judge(found, result).exit is Exit.FINDING


def test_one_scheduler_that_lost_a_critical_variable(server: Tree) -> None:
    lost = {name: value for name, value in LIVE.items() if name != "NCCL_BUFFSIZE"}
    before = server.processes[WORKERS[1]].environments[View.EXEC]
    server.worker(
        WORKERS[1],
        17535,
        role=Role("scheduler", "sglang", {"tp": 1}, worker=True),
        exec=before,
        libc=lost,
    )
    found = context(server)
    result = run_all(found)
    finding = one(result, "peers-differ-critical")
    assert (finding.pids, finding.variable) == ((WORKERS[1],), "NCCL_BUFFSIZE")
    told = evidence(finding)
    assert "wrong numbers without any message" in told
    # The stand-in says that it was there at the start; it is no proof of where it was lost.
    assert "Lost between the inferred exec view of scheduler TP1" in told
    assert judge(found, result).exit is Exit.FINDING
    assert text(finding.remedy)
