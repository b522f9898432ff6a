"""The logs of real runs (2.28, H200) give exactly what a person read in them (`right_parse`)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from envprobe.nccl import facts, log
from envprobe.nccl.outcomefacts import Outcome

DATA = Path(__file__).resolve().parents[2] / "data" / "nccl"
LOGS = sorted(path.name.split(".")[0] for path in DATA.glob("*.expected.json"))


def times(counts: Counter[str]) -> Any:
    """Write counts as the expected files do: a value alone was seen once."""
    (value, number), *others = counts.items()
    assert not others
    return value if number == 1 else {"value": value, "times": number}


def environment(process: facts.Process) -> dict[str, Any]:
    counts: dict[str, Counter[str]] = {}
    for read in process.variables:
        assert read.whole
        counts.setdefault(read.name, Counter())[read.value.reveal().decode()] += read.times
    return {name: times(values) for name, values in counts.items()}


def outcomes(process: facts.Process) -> list[Outcome]:
    return [*(rank.outcome for rank in process.ranks), process.outcome]


def communicator(rank: facts.Rank, found: facts.Log) -> dict[str, Any]:
    whole = found.communicators[rank.communicator]
    parsed = {
        "func": rank.function,
        "rank": rank.rank,
        "nranks": rank.nranks,
        "cudaDev": rank.device,
        "nvmlDev": str(rank.nvml_device),
        "busId": rank.bus_id,
        "seen": [
            name
            for name, place in (("START", rank.started), ("COMPLETE", rank.completed))
            if place is not None
        ],
    }
    if whole.comm_id:
        parsed["commId"] = whole.comm_id
    else:
        parent = whole.parent
        assert parent is not None
        (parsed["parent"],) = (
            other.pointer
            for other in found.communicators[parent].ranks
            if other.process == rank.process
        )
    return parsed


def process_parse(process: facts.Process, found: facts.Log) -> dict[str, Any]:
    transports: Counter[str] = Counter()
    channels: Counter[str] = Counter()
    chunks: Counter[str] = Counter()
    for outcome in outcomes(process):
        transports.update(outcome.transports)
        channels.update({str(each.coll): n for each, n in outcome.channels.items()})
        chunks.update({str(size): n for size, n in outcome.p2p_chunks.items()})
    parsed = {
        "process": f"{process.host}:{process.pid}",
        "messages": process.messages,
        "threads": len(process.threads),
        "dev_in_prefix": list(process.devices),
        "version": process.versions[0],
        "env_read": environment(process),
        "app_config_lines": [
            f"Comm config {field.field} set to {field.value}" for field in process.config
        ],
        "communicators": [communicator(rank, found) for rank in process.ranks],
        "rank_nRanks_nNodes_localRanks": [
            [rank.rank, rank.nranks, rank.nodes, rank.local_ranks] for rank in process.ranks
        ],
        "coll_channels": dict(channels),
        "transport_lines": dict(transports),
        "network": sorted({name for each in outcomes(process) for name in each.networks}),
        "p2p_chunksize": dict(chunks),
        "ring_lines": sum(outcome.ring_lines for outcome in outcomes(process)),
        "destroy_lines": sum(1 for rank in process.ranks if rank.end == "Destroy"),
    }
    return {name: value for name, value in parsed.items() if value != 0}


@pytest.mark.parametrize("name", LOGS)
def test_the_parse_is_the_right_one(name: str) -> None:
    expected = json.loads((DATA / f"{name}.expected.json").read_text())["right_parse"]
    found = log.read([str(DATA / f"{name}.log")])
    matrices = [
        matrix
        for process in found.processes
        for outcome in outcomes(process)
        for matrix in outcome.matrices
    ]
    assert {
        "nccl_messages": found.messages,
        "glued_lines": found.damage_counts.get(facts.DamageKind.GLUED, 0),
        "versions": Counter(f"NCCL version {each.versions[0]}" for each in found.processes),
        "matrix_tables": len(matrices),
        "warnings": [warning for each in found.processes for warning in each.warnings],
        "processes": [process_parse(process, found) for process in found.processes],
    } == expected
    assert all(matrix.whole for matrix in matrices)
    assert not found.damage_counts
    assert not found.left_out


def test_a_variable_of_a_communicator_is_told_from_one_of_the_process() -> None:
    (first, _) = log.read([str(DATA / "036.log")]).processes
    ranks = {read.name: read.rank for read in first.variables}
    assert ranks["NCCL_SOCKET_IFNAME"] is None
    assert [read.rank for read in first.variables if read.name == "NCCL_PROTO"] == [0, 1]


def test_a_matrix_holds_what_was_asked_for() -> None:
    (first, _) = log.read([str(DATA / "038.log")]).processes
    (matrix,) = first.ranks[0].outcome.matrices
    assert matrix.rows["AllReduce"]["Simple"] == 1
    assert matrix.rows["AllReduce"]["LL"] == 0
    assert matrix.rows["Broadcast"]["Ring"] == 1
    assert matrix.rows["Broadcast"]["Tree"] == 0


def test_the_launcher_is_a_witness() -> None:
    found = log.read([str(DATA / "036.log")])
    fields = [dict(process.witnesses[0].fields) for process in found.processes]
    assert [(each["job"], each["rank"]) for each in fields] == [("1", "0"), ("1", "1")]
