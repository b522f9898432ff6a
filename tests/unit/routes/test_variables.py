"""The tables about variables: whole, sourced, and looked up by the most specific row."""

from __future__ import annotations

from typing import Any

import pytest

from envprobe import tables
from envprobe.routes import variables
from envprobe.routes.programs import LEAVES_AS_IT_IS, PYTHON, STARTS_AFRESH, filters
from envprobe.routes.types import ReadTime
from envprobe.values import Value

TABLES = {
    "read-times": {"name", "read", "source"},
    "by-design": {"name", "scope", "source"},
    "rank-critical": {"name", "consequence", "source"},
    "known-defaults": {"name", "default", "source"},
    "secure-names": {"name", "always", "source"},
}


@pytest.mark.parametrize("table", TABLES)
def test_rows_are_whole_sourced_and_named_once(table: str) -> None:
    rows: list[dict[str, Any]] = tables.load(table)["rows"]
    assert rows
    names = [row["name"] for row in rows]
    assert len(set(names)) == len(names)
    for row in rows:
        assert set(row) == TABLES[table]
        assert row["source"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("PYTHONPATH", ReadTime.EXEC),
        ("PYTHONHASHSEED", ReadTime.EXEC),
        ("PYTHONBREAKPOINT", ReadTime.EACH_USE),
        ("LD_PRELOAD", ReadTime.EXEC),
        ("MALLOC_ARENA_MAX", ReadTime.EXEC),
        ("OMP_NUM_THREADS", ReadTime.LIBRARY_LOAD),
        ("NCCL_BUFFSIZE", ReadTime.FIRST_USE),
        ("NCCL_ALGO", ReadTime.EACH_COMMUNICATOR),
        ("NCCL_PROTO", ReadTime.EACH_COMMUNICATOR),
        ("CUDA_VISIBLE_DEVICES", ReadTime.FIRST_USE),
        ("TORCHINDUCTOR_CACHE_DIR", ReadTime.EACH_USE),
        ("TORCHINDUCTOR_MAX_AUTOTUNE", ReadTime.LIBRARY_LOAD),
        ("SOMETHING_ELSE", ReadTime.UNKNOWN),
    ],
)
def test_when_a_variable_is_read(name: str, expected: ReadTime) -> None:
    assert variables.read_time(name) is expected


@pytest.mark.parametrize("row", tables.load("read-times")["rows"], ids=lambda row: row["name"])
def test_every_read_time_is_one_of_the_words(row: dict[str, Any]) -> None:
    assert ReadTime(row["read"]) is not ReadTime.UNKNOWN


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("RANK", "rank"),
        ("LOCAL_RANK", "rank"),
        ("CUDA_VISIBLE_DEVICES", "rank"),
        ("MASTER_ADDR", "launch"),
        ("MASTER_PORT", "launch"),
        ("VLLM_PORT", "launch"),
        ("NCCL_SOCKET_IFNAME", "host"),
        ("NCCL_IB_HCA", "host"),
    ],
)
def test_what_differs_by_design(name: str, scope: str) -> None:
    found = variables.by_design(name)
    assert found is not None
    assert found.scope == scope


def test_no_variable_is_both_critical_and_different_by_design() -> None:
    critical = [row["name"] for row in tables.load("rank-critical")["rows"]]
    assert [name for name in critical if variables.by_design(name)] == []
    assert set(critical) == {
        "NCCL_PROTO",
        "NCCL_ALGO",
        "NCCL_NTHREADS",
        "NCCL_BUFFSIZE",
        "NCCL_MIN_NCHANNELS",
        "NCCL_MAX_NCHANNELS",
        "NCCL_MAX_CTAS",
        "NCCL_P2P_DISABLE",
        "NCCL_P2P_LEVEL",
        "NCCL_CUMEM_ENABLE",
        "NCCL_SHM_DISABLE",
    }


def test_what_happens_when_ranks_differ() -> None:
    assert "wrong numbers" in variables.rank_critical("NCCL_BUFFSIZE")
    assert "hangs" in variables.rank_critical("NCCL_PROTO")
    assert variables.rank_critical("NCCL_DEBUG") == ""


def test_defaults_are_values_that_compare_with_readings() -> None:
    assert variables.known_default("NCCL_P2P_DISABLE") == Value(b"0")
    assert variables.known_default("NCCL_BUFFSIZE") == Value(b"4194304")
    assert variables.known_default("NCCL_P2P_NET_CHUNKSIZE") == Value(b"131072")


@pytest.mark.parametrize("name", ["NCCL_NTHREADS", "NCCL_IB_TIMEOUT", "NCCL_NVLS_ENABLE", "X"])
def test_a_default_that_depends_on_machine_or_version_is_not_definite(name: str) -> None:
    assert variables.known_default(name) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [("LD_PRELOAD", True), ("TMPDIR", True), ("MALLOC_ARENA_MAX", None), ("NCCL_ALGO", False)],
)
def test_what_secure_mode_removes(name: str, expected: bool | None) -> None:
    assert variables.removed_when_secure(name) is expected


def test_the_programs_named_in_code_are_rows_of_the_launchers() -> None:
    rows = {row["name"] for row in tables.load("launchers")["rows"]}
    assert {PYTHON, *STARTS_AFRESH, *LEAVES_AS_IT_IS} <= rows
    assert {row for row in rows if filters(row, "2X")} == {"sudo", "su", "dash"}


def test_every_launcher_that_builds_is_known_to_start_afresh_or_to_pass_on() -> None:
    building = {
        row["name"] for row in tables.load("launchers")["rows"] if row["hands_over"] == "builds"
    }
    assert building - STARTS_AFRESH == {"dash", "busybox", "sudo", "su"}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("NCCL_ALOG", "NCCL_ALGO"),
        ("nccl_algo", "NCCL_ALGO"),
        ("NCLL_PROTO", "NCCL_PROTO"),
        ("PYTHONPAHT", "PYTHONPATH"),
        ("NCCL_ALGO", ""),
        ("MY_OWN_SETTING", ""),
        ("X", ""),
    ],
)
def test_a_mistyped_name_is_close_to_one_that_is_known(name: str, meant: str) -> None:
    assert variables.perhaps_meant(name) == meant
